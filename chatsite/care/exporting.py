"""Everything of a person as one ZIP, written while it is read: no more than one thread is in memory at a time.

Each app's `personal` may have `EXPORTS`: functions of the user that yield (name in the archive, its bytes piece by
piece). `manifest.json` comes last, with the size and SHA-256 of each. What is written is what there is at that moment,
thread by thread; somebody who goes on writing meanwhile may find the last words missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from django.utils import timezone

from chatsite.audit import log
from chatsite.audit.models import Entry
from chatsite.care.lines import modules

Part = tuple[str, Iterable[bytes]]
PIECE = 64 * 1024

README = """\
This is everything that was kept here of {user}, as of {at} (UTC).

account.json          the account, and the ways to sign in (no passwords, no secrets)
threads/              each thread twice: as JSON, which can be imported again, and as Markdown, to read
attachments/          the files you gave, by their ids
presets.json          saved choices
keys.json             what your API keys may do (the keys themselves were never kept)
exchanges.jsonl       what was kept of requests to the gateway, one a line
audit.jsonl           what the audit log says of you, one entry a line
manifest.json         size and SHA-256 of each of these
"""


def export(user: Any, *, actor: Any = None, reason: str = "", door: str = "") -> Iterator[bytes]:
    """The archive, piece by piece. That it was made is in the audit log before the first one."""
    log.record("user.exported", actor=actor, subject=f"user {user}", reason=reason, door=door)
    return zipped(_parts(user, f"{timezone.now():%Y-%m-%d %H:%M}"))


def zipped(parts: Iterable[Part]) -> Iterator[bytes]:
    """An archive of these and their manifest, piece by piece."""
    out, manifest = _Out(), []
    now = timezone.now()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:  # it only writes, and never seeks
        for name, pieces in parts:
            digest, size = hashlib.sha256(), 0
            with archive.open(_info(name, now), "w", force_zip64=True) as file:
                for piece in pieces:
                    file.write(piece)
                    digest.update(piece)
                    size += len(piece)
                    if out.size >= PIECE:
                        yield out.taken()
            manifest.append({"name": name, "bytes": size, "sha256": digest.hexdigest()})
        archive.writestr(_info("manifest.json", now), json.dumps(manifest, indent=1, ensure_ascii=False))
    yield out.taken()


def _parts(user: Any, at: str) -> Iterator[Part]:
    yield "README.txt", [README.format(user=user, at=at).encode()]
    for module in reversed(modules()):
        for parts in getattr(module, "EXPORTS", ()):
            yield from parts(user)


def _info(name: str, at: Any) -> ZipInfo:
    info = ZipInfo(name, at.timetuple()[:6])
    info.compress_type = ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    return info


def audit_of(user: Any) -> Iterator[Part]:
    """What they did, and what was done to them."""
    yield "audit.jsonl", as_lines(map(_entry, _entries_about(user)))


def _entries_about(user: Any) -> Iterator[Entry]:
    """By three questions and not one: an index answers each of them, and nobody has to look at every entry."""
    own, name = str(user.pk), f"user {user}"
    said_of = Entry.objects.exclude(actor_id=own)
    for rows in (
        Entry.objects.filter(actor_name=user.get_username(), actor_id=own),
        said_of.filter(subject=name),
        said_of.filter(subject__startswith=f"{name}, "),
    ):
        yield from rows.order_by("number").iterator(chunk_size=500)


def _entry(entry: Entry) -> dict[str, Any]:
    said = {name: getattr(entry, name) for name in ("number", "action", "subject", "reason", "door", "facts")}
    return {**said, "at": entry.at.isoformat(), "actor": entry.actor_name}


def as_json(value: Any) -> list[bytes]:
    return [json.dumps(value, indent=1, ensure_ascii=False, default=str).encode()]


def as_lines(values: Iterable[Any]) -> Iterator[bytes]:
    for value in values:
        yield json.dumps(value, ensure_ascii=False, default=str).encode() + b"\n"


class _Out:
    """Where the archive goes: a file that can only be written, whose content is taken away now and then."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        self.size += len(piece)
        return len(piece)

    def flush(self) -> None:
        """Nothing waits anywhere."""

    def taken(self) -> bytes:
        content = b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return content
