"""Threads that come in as an archive: the ZIP of all that is somebody's, or of several threads of an administrator.

    is_one(file)         whether it begins like one
    check(file)          raises Invalid, naming the entry, unless each thread in it can be taken in
    threads_in(file)     the names and texts of its threads, one after the other; raises Invalid

Rule 1: nothing of an archive is written anywhere. A name only says whether an entry is a thread: `threads/....json`, or
`000001-....json` at its top.
Rule 2: what it says of its own size is not believed: reading stops at `MOST_UNPACKED`, however little was sent, and at
the size an entry says, by no more than a `PIECE` too late, however much more is packed in it. Its directory is read
whole before anything is known of it, so that has a limit too. What is packed in another way than exports are (bzip2,
LZMA) is refused: `zipfile` unpacks that in one piece, gigabytes of some hundred bytes.
Rule 3: what is told of an archive is the archive's fault. A disk that cannot be read raises its OSError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from django.utils.translation import gettext

from chatsite.chat.problems import Invalid
from chatsite.chat.transfer import shape

MOST_THREADS = 1_000
MOST_UNPACKED = 200 * 1024 * 1024
MOST_DIRECTORY = 1024 * 1024
"""Bytes: some 10,000 entries."""
PIECE = 64 * 1024
"""What is unpacked at once: `ZipFile` unpacks as much as it is asked for before it looks at what the entry says."""

SIGNATURE = b"PK\x03\x04"
_END, _END_64, _END_SIZE = b"PK\x05\x06", b"PK\x06\x07", 22
_THREAD = re.compile(r"(?:threads/)?\d{6,}-[a-z0-9-]+\.json")


def is_one(file: IO[bytes]) -> bool:
    begin = file.read(len(SIGNATURE))
    file.seek(0)
    return begin == SIGNATURE


def check(file: IO[bytes]) -> None:
    for name, text in threads_in(file):
        try:
            shape.read_file(text)
        except Invalid as problem:
            raise Invalid(f"{name}: {problem}") from None


def threads_in(file: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    # Imported here: it is needed rarely.
    from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile
    from zlib import error as ZlibError

    size = _checked_size(file)
    try:
        with ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if _THREAD.fullmatch(entry.filename)]
            if not 0 < len(entries) <= MOST_THREADS:
                raise Invalid(_no_threads())
            if any(entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for entry in entries):
                raise BadZipFile
            # To look outside of the file would raise what a disk that fails does, or that a number is too large.
            if not all(0 <= entry.header_offset < size for entry in entries):
                raise BadZipFile
            left = MOST_UNPACKED
            for entry in entries:
                with archive.open(entry) as packed:
                    text = _unpacked(packed, min(left, shape.MAX_BYTES) + 1)
                left -= len(text)
                if left < 0:
                    raise Invalid(_too_much())
                yield entry.filename, text
    except (BadZipFile, ZlibError, NotImplementedError, RuntimeError, EOFError, ValueError):
        raise Invalid(_damaged()) from None


def _unpacked(packed: IO[bytes], most: int) -> bytes:
    text = bytearray()
    while piece := packed.read(min(PIECE, most - len(text))):
        text += piece
    return bytes(text)


def _checked_size(file: IO[bytes]) -> int:
    """Of the file. Raises Invalid where its end is none that an export has: no comment, no large directory."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END_SIZE - 20))
    tail = file.read()
    end = tail[-_END_SIZE:]
    if not end.startswith(_END) or len(end) < _END_SIZE or end[-2:] != b"\0\0":
        raise Invalid(_damaged())
    if tail[:-_END_SIZE].startswith(_END_64) or int.from_bytes(end[12:16], "little") > MOST_DIRECTORY:
        raise Invalid(_too_much())
    file.seek(0)
    return size


def _damaged() -> str:
    return gettext("The archive cannot be read: it is damaged, or locked with a password.")


def _no_threads() -> str:
    return gettext("The archive holds no thread that was exported here, or more than %(most)s.") % {
        "most": MOST_THREADS
    }


def _too_much() -> str:
    return gettext("The archive is too large: unpacked, %(most)s MB is the limit.") % {
        "most": MOST_UNPACKED // 2**20
    }
