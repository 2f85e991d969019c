"""`make(target)`: a backup of the running site, whole or not at all.

Rule 1: the database first, of one moment; then the files that its rows name. Files are held before it (`files`), so
        what the server removes meanwhile is there; what comes later than that moment is not in it.
Rule 2: nothing is under the name that was asked for until all of it is. What a killed backup leaves (a `.part`, a
        folder `.backup-...` in DATA_DIR) the next one removes.
Rule 3: no secret, unless it was asked for.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import connection, transaction

from chatsite.audit import log
from chatsite.operator.backup import files, manifest
from chatsite.operator.backup.manifest import Manifest, Member
from chatsite.operator.copying import (
    CannotCopy,
    Tell,
    copy_sqlite,
    dump_postgresql,
    is_sqlite,
    one_moment,
    sqlite_path,
)

WORK = ".backup-"
COMPRESSION = 3
WAIT_FOR_A_FILE = 5.0
"""Seconds between a committed row and its file, at most."""

QUESTIONS = {
    "digests": "SELECT DISTINCT digest FROM chat_attachment",
    "migrations": "SELECT app, name FROM django_migrations",
    "audit": "SELECT number, hash FROM audit_entry ORDER BY number DESC LIMIT 1",
}


@dataclass(frozen=True, slots=True)
class Copied:
    """The database as a file, and what its rows say."""

    path: Path
    digests: list[str]
    migrations: list[tuple[str, str]]
    audit: str


def make(target: Path, *, with_secrets: bool = False, tell: Tell = lambda line: None) -> Manifest:
    """Raises CannotCopy."""
    with _alone(), _work_folder() as work:
        held = work / "files"
        files.hold_all(held)
        copied = _copied(work, tell)
        missing = [digest for digest in copied.digests if not _held(digest, held)]
        if len(copied.digests) + len(manifest.DATABASES) + 1 > manifest.MOST_FILES:
            raise CannotCopy(
                f"There are more than {manifest.MOST_FILES:,} attached files; no restore takes so many."
            )
        draft = target.with_name(f".{target.name}.part")
        try:
            known = _write(draft, copied, held, missing, with_secrets, tell)
            draft.replace(target)
        except OSError as error:
            raise CannotCopy(f"{target} cannot be written: {error.strerror}.") from None
        finally:
            draft.unlink(missing_ok=True)
        with transaction.atomic():
            facts = {"files": len(known.files), "with_secrets": with_secrets, "size": target.stat().st_size}
            log.record("backup.made", subject=target.name, door="command", facts=facts)
    return known


@contextmanager
def _alone() -> Iterator[None]:
    with (Path(settings.DATA_DIR) / "backup.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotCopy("Another backup is being made; wait for its end.") from None
        yield


@contextmanager
def _work_folder() -> Iterator[Path]:
    """In DATA_DIR, so that it is on the disk that the files are on."""
    for left in Path(settings.DATA_DIR).glob(f"{WORK}*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=WORK, dir=settings.DATA_DIR))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- the database --------------------------------------------------------------------------------------------


def _copied(work: Path, tell: Tell) -> Copied:
    tell("Copying the database ...")
    if is_sqlite():
        path = work / manifest.DATABASES["sqlite"]
        copy_sqlite(sqlite_path(), path, tell)
        with closing(sqlite3.connect(path)) as copy:
            return _asked(path, lambda question: copy.execute(question).fetchall())
    path = work / manifest.DATABASES["postgresql"]
    with one_moment() as moment, connection.cursor() as cursor:

        def ask(question: str) -> list[Any]:
            cursor.execute(question)
            return cursor.fetchall()

        copied = _asked(path, ask)
        dump_postgresql(path, tell, moment)
    return copied


def _asked(path: Path, ask: Any) -> Copied:
    answers = {name: ask(question) for name, question in QUESTIONS.items()}
    return Copied(
        path=path,
        digests=sorted(digest for (digest,) in answers["digests"]),
        migrations=sorted((app, name) for app, name in answers["migrations"]),
        audit=next((f"{number}:{digest}" for number, digest in answers["audit"]), ""),
    )


def _held(digest: str, held: Path) -> bool:
    """A row is committed a moment before its file has its name."""
    until = time.monotonic() + WAIT_FOR_A_FILE
    while not files.path_in(held, digest).exists():
        if files.hold(files.path_in(files.folder(), digest), held):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


# -- the archive ---------------------------------------------------------------------------------------------


def _write(
    draft: Path, copied: Copied, held: Path, missing: list[str], with_secrets: bool, tell: Tell
) -> Manifest:
    descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with (
        os.fdopen(descriptor, "wb") as out,
        tarfile.open(fileobj=out, mode="w:gz", compresslevel=COMPRESSION) as archive,
    ):
        members: dict[str, Member] = {}
        for name, content, size in _contents(copied, held, missing, with_secrets):
            with content:
                members[name] = _add(archive, name, content, size)
            tell(f"{len(members):,} written, the last one {name}")
        known = manifest.made(
            connection.vendor,
            migrations=copied.migrations,
            audit=copied.audit,
            missing=missing,
            files=members,
        )
        text = known.model_dump_json(indent=1).encode()
        _add(archive, manifest.NAME, io.BytesIO(text), len(text))
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    return known


def _contents(
    copied: Copied, held: Path, missing: Iterable[str], with_secrets: bool
) -> Iterator[tuple[str, IO[bytes], int]]:
    yield copied.path.name, copied.path.open("rb"), copied.path.stat().st_size
    gone = set(missing)
    for digest in copied.digests:
        if digest not in gone:
            path = files.path_in(held, digest)
            yield f"attachments/{digest[:2]}/{digest}", path.open("rb"), path.stat().st_size
    if with_secrets:
        secret = settings.SECRET_KEY.encode()
        yield manifest.SECRET, io.BytesIO(secret), len(secret)


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> Member:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, int(time.time())
    reading = _Hashing(content)
    archive.addfile(info, reading)  # it reads, and that is all it is asked to
    return Member(bytes=size, sha256=reading.digest)


class _Hashing:
    def __init__(self, content: IO[bytes]) -> None:
        self._content = content
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        piece = self._content.read(size)
        self._hash.update(piece)
        return piece

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
