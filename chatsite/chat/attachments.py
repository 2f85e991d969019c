"""Files that people attach: their rows, and their bytes on disk.

    a draft                 the bytes as they come, under a name of chance in `incoming/`; `drafted` checks them
    keep(owner, draft)      a row of the owner's, and the bytes under their SHA-256: `ab/abcd...`
    use(thread, message)    the message's files belong to the thread from then on
    read, path_of           the bytes
    remove_unused, sweep    what `upkeep` does: nothing outlives its last thread

Rule 1: a file is looked up by a thread that the asker has (`of_thread`), or by its owner before it is sent.
Rule 2: the row first, then the file. So whoever finds no row of a digest, while nobody can write one, may remove its
file; a row whose file never came is one that nobody was told of.
Rule 3: the same content under the same name is one row of its owner's: sent twice, it is there once.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import Q, Sum
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as lazy

from agent.messages import FilePart, ImagePart, Message, Part, Transcript
from chatsite.care import holds
from chatsite.catalog import entries
from chatsite.chat.conf import setting
from chatsite.chat.filetypes import AUDIO, IMAGES, TEXT, Untaken, safe_name, type_of
from chatsite.chat.models import Attachment, Thread
from chatsite.chat.problems import Invalid, Problem, TooLong
from chatsite.phrases import figure

SCHEME = "attachment:"
_REFERENCE = re.compile(r"attachment:([A-Za-z0-9_-]{1,64})")

MB = 1024 * 1024
KEPT_UNSENT = timedelta(days=1)
"""As long as a draft may lie in a page's message box."""

Given = ImagePart | FilePart


class Unattached(Problem):
    """A file that cannot be taken, in words."""

    status = Invalid.status
    code = "attachment_refused"


class NoRoom(Problem):
    status = TooLong.status
    code = "attachments_full"


class NoFiles(Problem):
    code = "attachments_off"
    words = lazy("This server keeps no files: its ATTACHMENTS_DIR is not set.")


# -- references ----------------------------------------------------------------------------------------------


def id_in(url: str | None) -> str | None:
    """The attachment that a part's address names; None for any other address."""
    match = _REFERENCE.fullmatch(url or "")
    return match[1] if match else None


def ids_in(messages: Iterable[Message]) -> list[str]:
    """The attachments that messages refer to, each once, in order."""
    found = (id_in(part.url) for message in messages for part in message.parts if isinstance(part, Given))
    return list(dict.fromkeys(id for id in found if id is not None))


def names_in(message: Message) -> str:
    return ", ".join(part.name for part in message.parts if isinstance(part, Given) and part.name)


def part_of(row: Attachment) -> Given:
    url = SCHEME + row.public_id
    if row.mime_type in IMAGES:
        return ImagePart(row.mime_type, url=url, name=row.name)
    kind = "audio" if row.mime_type in AUDIO else "document"
    return FilePart(kind, row.mime_type, url=url, name=row.name)


def addressed(transcript: Transcript, thread_id: str) -> Transcript:
    """The transcript with addresses of this site in the place of references, for programs."""
    base = f"/threads/{quote(thread_id, safe='')}/attachments/"

    def at(part: Part) -> Part:
        id = id_in(part.url) if isinstance(part, Given) else None
        return replace(part, url=base + id) if isinstance(part, Given) and id is not None else part

    return Transcript(
        [replace(each, parts=tuple(map(at, each.parts))) if ids_in([each]) else each for each in transcript]
    )


# -- limits --------------------------------------------------------------------------------------------------


def most_bytes() -> int:
    return round(setting("ATTACHMENT_MAX_MB") * MB)


def too_large() -> TooLong:
    words = gettext("The file is larger than %(most)s MB, which is the most taken here.")
    return TooLong(words % {"most": figure(setting("ATTACHMENT_MAX_MB"))})


def used_by(owner: Any) -> int:
    """Bytes of the owner's files, but for those that only deleted threads hold."""
    alive = Attachment.objects.filter(Q(threads=None) | Q(threads__deleted_at=None), owner=owner).distinct()
    total = Attachment.objects.filter(pk__in=alive.values("pk")).aggregate(total=Sum("size"))["total"]
    return total or 0


def _check_room(owner: Any, size: int) -> None:
    most = setting("ATTACHMENTS_TOTAL_MB")
    if used_by(owner) + size > most * MB:
        words = gettext(
            "Your files would take more than %(most)s MB, which is yours here. "
            "Delete threads with files that you do not need any more."
        )
        raise NoRoom(words % {"most": figure(most)})


# -- in ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draft:
    """Bytes that came and were found good; not anybody's yet."""

    path: Path
    digest: str
    size: int
    mime_type: str
    name: str

    def drop(self) -> None:
        self.path.unlink(missing_ok=True)


class Incoming:
    """A file on its way in. `add` raises TooLong at the limit; whoever does not come to `drafted` calls `drop`."""

    def __init__(self) -> None:
        self.path = _folder() / "incoming" / secrets.token_hex(16)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.fdopen(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
        self._hash = hashlib.sha256()
        self._size = 0
        self._most = most_bytes()

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._most:
            raise too_large()
        self._hash.update(piece)
        self._file.write(piece)

    def drafted(self, name: str) -> Draft:
        """The whole of it, checked. Raises Unattached with a sentence that names the file."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        kind = checked_type(self.path.read_bytes(), name)
        return Draft(self.path, self._hash.hexdigest(), self._size, kind, safe_name(name, kind))

    def drop(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


def checked_type(content: bytes, name: str) -> str:
    try:
        kind = type_of(content)
    except Untaken as untaken:
        raise Unattached(f"{safe_name(name)}: {untaken}") from None
    most = setting("ATTACHMENT_TEXT_MAX_KB")
    if kind == TEXT and len(content) > most * 1024:
        words = gettext(
            "%(name)s: text is taken up to %(most)s KB, for a model has to read all of it. "
            "Send the part that matters."
        )
        raise TooLong(words % {"name": safe_name(name), "most": figure(most)})
    return kind


def draft_of(content: bytes, name: str) -> Draft:
    """Bytes that are here already."""
    incoming = Incoming()
    try:
        incoming.add(content)
        return incoming.drafted(name)
    except BaseException:
        incoming.drop()
        raise


def keep(owner: Any, draft: Draft) -> Attachment:
    """The draft as a file of the owner's. The caller holds the transaction, and puts it `in_place` behind it."""
    get_user_model().objects.select_for_update().only("pk").get(pk=owner.pk)
    known = Attachment.objects.filter(owner=owner, digest=draft.digest, name=draft.name).first()
    if known is not None:
        known.created_at = timezone.now()
        known.save(update_fields=["created_at"])
        return known
    _check_room(owner, draft.size)
    return Attachment.objects.create(
        owner=owner, digest=draft.digest, size=draft.size, mime_type=draft.mime_type, name=draft.name
    )


def in_place(draft: Draft) -> None:
    """Once the row is committed. Also where the file is there: that one may be on its way out."""
    path = path_of(draft.digest)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    draft.path.replace(path)


# -- use and out ---------------------------------------------------------------------------------------------


def parts_of(owner: Any, ids: list[str]) -> tuple[Given, ...]:
    """The parts of a message that these files of the owner's are attached to, in this order."""
    most = int(setting("ATTACHMENTS_PER_MESSAGE"))
    ids = list(dict.fromkeys(ids))
    if len(ids) > most:
        words = gettext("A message takes at most %(most)s files. Send the others with another one.")
        raise Unattached(words % {"most": most})
    rows = {row.public_id: row for row in Attachment.objects.filter(owner=owner, public_id__in=ids)}
    if any(id not in rows for id in ids):
        raise Unattached(gettext("One of the files is not here any more. Remove it and attach it again."))
    return tuple(part_of(rows[id]) for id in ids)


def takes_images(model: str) -> bool:
    """False when its facts say that it does not; an endpoint of which nothing is known says so itself."""
    return entries.facts().get(model, {}).get("images") is not False


def check_taken(message: Message, model: str) -> None:
    """Raises Unattached for pictures that this model would not see."""
    pictures = any(isinstance(part, ImagePart) for part in message.parts)
    if pictures and not takes_images(model):
        words = gettext("The model %(model)s takes no images. Choose another one, or remove them.")
        raise Unattached(words % {"model": model})


def use(thread: Thread, messages: Iterable[Message]) -> None:
    """From now on the thread holds what these messages refer to. The caller holds the transaction."""
    ids = ids_in(messages)
    if not ids:
        return
    rows = list(Attachment.objects.filter(owner_id=thread.owner_id, public_id__in=ids))
    if len(rows) < len(ids):
        raise Unattached(gettext("One of the files is not here any more. Remove it and attach it again."))
    thread.attachments.add(*rows)


def of_thread(thread: Thread) -> dict[str, Attachment]:
    return {row.public_id: row for row in thread.attachments.all()}


def path_of(digest: str) -> Path:
    return _folder() / digest[:2] / digest


def read(row: Attachment) -> bytes | None:
    """None when its bytes are gone: a folder that was not taken along."""
    try:
        return path_of(row.digest).read_bytes()
    except OSError:
        return None


def _folder() -> Path:
    folder = setting("ATTACHMENTS_DIR")
    if folder is None:
        raise NoFiles
    return Path(folder)


# -- upkeep --------------------------------------------------------------------------------------------------

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
    for draft in _files_in(_folder() / "incoming"):
        if draft.stat().st_mtime < before:
            draft.unlink(missing_ok=True)
    found = {path.name for path in _files_in(_folder() / shard)}
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
