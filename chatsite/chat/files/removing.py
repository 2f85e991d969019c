"""Files that nobody holds any more, or whose owner goes: their rows, and their bytes.

    remove_unused, sweep    what `upkeep` does: nothing outlives its last thread
    erase_some              a person's, whoever holds them

Nobody can write a row meanwhile: one of a digest whose file goes would have lost it.
"""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from chatsite.care import holds
from chatsite.chat.conf import setting
from chatsite.chat.files.disk import folder, path_of
from chatsite.chat.models import Attachment

KEPT_UNSENT = timedelta(days=1)
"""As long as a draft may lie in a page's message box."""

SHARDS = [f"{number:02x}" for number in range(256)]
LOCK = "LOCK TABLE chat_attachment IN SHARE ROW EXCLUSIVE MODE"
REMOVED_AT_ONCE = 100


def remove_unused() -> bool:
    """Remove files that no thread holds (any more). False when there are none. The caller holds the transaction."""
    unsent = Attachment.objects.filter(threads=None, created_at__lt=timezone.now() - KEPT_UNSENT)
    rows = list(holds.free(unsent, "owner").order_by("pk")[:REMOVED_AT_ONCE])
    if not rows:
        return False
    _hold_rows()
    Attachment.objects.filter(pk__in=[row.pk for row in rows], threads=None).delete()
    # Not before: a row that a rollback brings back would have lost its file.
    transaction.on_commit(lambda: _unlink_unknown({row.digest for row in rows}))
    return True


def erase_some(owner_pk: Any) -> int:
    """Remove some of a person's files, whoever holds them, and of their rows; how many. It is somebody who goes.

    The bytes first: as long as a row says so, somebody knows that there is something left to remove.
    """
    with transaction.atomic():
        _hold_rows()
        rows = list(Attachment.objects.filter(owner=owner_pk).order_by("pk")[:REMOVED_AT_ONCE])
        digests = {row.digest for row in rows}
        others = Attachment.objects.filter(digest__in=digests).exclude(owner=owner_pk)
        for digest in digests - set(others.values_list("digest", flat=True)):
            path_of(digest).unlink(missing_ok=True)
        Attachment.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def sweep(shard: str) -> int:
    """Remove files of one folder that no row knows (a user who was erased, a crash); how many."""
    if setting("ATTACHMENTS_DIR") is None:
        return 0
    before = time.time() - KEPT_UNSENT.total_seconds()
    for draft in _files_in(folder() / "incoming"):
        if draft.stat().st_mtime < before:
            draft.unlink(missing_ok=True)
    found = {path.name for path in _files_in(folder() / shard)}
    return _unlink_unknown(found) if found else 0


def _hold_rows() -> None:
    """Nobody writes a row until the transaction ends. SQLite's holds the database already."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(LOCK)


def _unlink_unknown(digests: set[str]) -> int:
    with transaction.atomic():
        _hold_rows()
        known = set(Attachment.objects.filter(digest__in=digests).values_list("digest", flat=True))
        for digest in digests - known:
            path_of(digest).unlink(missing_ok=True)
    return len(digests - known)


def _files_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
