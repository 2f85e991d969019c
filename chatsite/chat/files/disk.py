"""The bytes of attachments: as they come, and on disk.

    a draft            the bytes as they come, under a name of chance in `incoming/`; `drafted` checks them
    in_place(draft)    under their SHA-256: `ab/abcd...`
    read, path_of      from there

A folder that was not taken along is no bug: whoever reads hears that the bytes are gone.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as lazy

from chatsite.chat.conf import setting
from chatsite.chat.files.types import TEXT, Untaken, safe_name, type_of
from chatsite.chat.models import Attachment
from chatsite.chat.problems import Invalid, Problem, TooLong
from chatsite.phrases import figure

log = logging.getLogger(__name__)

MB = 1024 * 1024


class Unattached(Problem):
    """A file that cannot be taken, in words."""

    status = Invalid.status
    code = "attachment_refused"


class NoFiles(Problem):
    code = "attachments_off"
    words = lazy("This server keeps no files: its ATTACHMENTS_DIR is not set.")


class NotKept(Problem):
    status = HTTPStatus.SERVICE_UNAVAILABLE
    code = "attachment_not_kept"
    words = lazy("The server cannot keep the file: its disk is full or not there.")


@contextmanager
def on_disk() -> Iterator[None]:
    """Around whatever puts a file on its way: what the disk refuses is said, to people and in the log."""
    try:
        yield
    except OSError as error:
        log.error("a file could not be kept: %s", error)
        raise NotKept from error


def most_bytes() -> int:
    return round(setting("ATTACHMENT_MAX_MB") * MB)


def too_large() -> TooLong:
    words = gettext("The file is larger than %(most)s MB, which is the most taken here.")
    return TooLong(words % {"most": figure(setting("ATTACHMENT_MAX_MB"))})


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
        self.path = folder() / "incoming" / secrets.token_hex(16)
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


def in_place(draft: Draft) -> None:
    """Once the row is committed. Also where the file is there: that one may be on its way out."""
    path = path_of(draft.digest)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    draft.path.replace(path)


def path_of(digest: str) -> Path:
    return folder() / digest[:2] / digest


def read(row: Attachment) -> bytes | None:
    """None when its bytes are gone: a folder that was not taken along."""
    try:
        return path_of(row.digest).read_bytes()
    except OSError:
        return None


def folder() -> Path:
    folder = setting("ATTACHMENTS_DIR")
    if folder is None:
        raise NoFiles
    return Path(folder)
