"""A backup's file becomes files again, and is found to be what its manifest says.

Nothing in it is believed before: no name is taken for a path of ours, nothing but plain files is taken, and what a file
of some kilobytes says that it unpacks to has to fit on the disk. Whatever is wrong is Refused, in a sentence.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from chatsite.operator.backup import files, manifest
from chatsite.operator.backup.manifest import Manifest, Member
from chatsite.operator.copying import Tell

PIECE = 1 << 20
MOST_MANIFEST = 256 << 20
MOST_HEAD = 64 << 10
"""Bytes of what stands between two files; tarfile reads it as one piece."""
LEFT_FREE = 64 << 20
"""Bytes of the disk that are left to whoever else is at work on it."""


class Refused(Exception):
    """A sentence for whoever asked. Nothing was changed."""


def unpacked(file: Path, staging: Path, tell: Tell) -> Manifest:
    """All of it in `staging`, and found to be what the manifest says."""
    try:
        found, text = _read(file, staging, tell)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, RecursionError) as error:
        raise Refused(f"{file} cannot be read as a backup: {error}.") from None
    try:
        known = Manifest.model_validate_json(text)
    except ValidationError:
        raise Refused(f"{file} has no manifest that can be read: it was cut off, or is no backup.") from None
    for name in sorted(found.keys() ^ known.files.keys()):
        raise Refused(f"{file} is not whole: {name} is missing in it, or was added.")
    for name, member in known.files.items():
        if found[name] != member:
            raise Refused(f"{file} is not whole: {name} is not what it was (its hash is another one).")
    return known


def _read(file: Path, staging: Path, tell: Tell) -> tuple[dict[str, Member], bytes]:
    found: dict[str, Member] = {}
    text = b""
    with tarfile.open(file, "r:gz", tarinfo=_Bounded) as archive:
        for info in archive:
            archive.members = []  # it keeps all that it has seen
            _check_room(file, info, staging, len(found))
            content = archive.extractfile(info) if info.isfile() else None
            target = _target(info.name, staging)
            if content is None or (target is None and info.name != manifest.NAME):
                raise Refused(f"{file} is not whole: {info.name[:100]!r} does not belong into a backup.")
            if target is None:
                if info.size > MOST_MANIFEST:
                    raise Refused(f"{file} is not whole: its manifest is {info.size:,} bytes long.")
                text = content.read()
                continue
            found[info.name] = _copied(content, target)
            tell(f"{len(found):,} read, the last one {info.name}")
    return found, text


class _Bounded(tarfile.TarInfo):
    """Of what an archive may hold, plain files, and the little that is said in front of one of more than 8 GB."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type == tarfile.XHDTYPE and self.size <= MOST_HEAD:
            return super()._proc_member(archive)
        if self.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise tarfile.ReadError(f"{self.name[:100]!r} is no plain file")
        return super()._proc_member(archive)

    def _sparse(self, *_: Any) -> NoReturn:
        """The list of its pieces may go on for ever, and is held whole before anything is known of it."""
        raise tarfile.ReadError(f"{self.name[:100]!r} is no plain file")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _sparse


def _check_room(file: Path, info: tarfile.TarInfo, staging: Path, so_far: int) -> None:
    """A file of some kilobytes may say that it unpacks to terabytes, and unpack to them."""
    if so_far >= manifest.MOST_FILES:
        raise Refused(f"{file} holds more than {manifest.MOST_FILES:,} files, which no backup does.")
    free = shutil.disk_usage(staging).free - LEFT_FREE
    if info.size > free:
        raise Refused(
            f"{file} does not fit here: {info.name[:100]!r} has {info.size:,} bytes, and the disk of {staging.parent} "
            f"has room for {max(free, 0):,}."
        )


def _target(name: str, staging: Path) -> Path | None:
    """Where a member goes; None for what is none. No name of a file is taken for a path of ours."""
    if name in {*manifest.DATABASES.values(), manifest.SECRET}:
        return staging / name
    kind, _, rest = name.partition("/")
    shard, _, digest = rest.partition("/")
    sane = len(digest) == 64 and set(digest) <= set("0123456789abcdef") and digest[:2] == shard
    return files.path_in(staging / "attachments", digest) if kind == "attachments" and sane else None


def _copied(content: object, target: Path) -> Member:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as out:
        while piece := content.read(PIECE):
            out.write(piece)
            digest.update(piece)
            size += len(piece)
        out.flush()
        os.fsync(out.fileno())
    return Member(bytes=size, sha256=digest.hexdigest())
