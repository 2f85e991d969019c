"""What a start needs before the first request: tables and static files. Doing it again costs little."""

import fcntl
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TextIO

import django
import whitenoise
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connections

from chatsite.operator import schema, snapshots
from chatsite.operator.copying import CannotCopy


@contextmanager
def one_start_at_a_time() -> Iterator[None]:
    """Two servers started together on one DATA_DIR prepare it one after the other."""
    with (settings.DATA_DIR / "start.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def serving_lock() -> Path:
    """A server holds it, shared with others, for as long as it runs; a restore wants it alone."""
    return Path(settings.DATA_DIR) / "serving.lock"


def hold_serving_lock() -> TextIO:
    """Until the process ends, or closes what this returns."""
    file = serving_lock().open("w")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def in_a_child(work: Callable[[], None]) -> None:
    """Do it in a child process, which takes the memory it needed (8 MB for our migrations) along when it ends.

    What it raises is raised here. Only on Linux: elsewhere a fork of so much that is loaded may not be safe.
    """
    if sys.platform != "linux":
        work()
        return
    connections.close_all()  # one that both sides use breaks on both
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work_and_end(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        report = pipe.read()
    os.waitpid(child, 0)
    error = pickle.loads(report) if report else RuntimeError("The preparation was ended from outside.")  # noqa: S301 - our child's
    if error is not None:
        raise error


def _work_and_end(work: Callable[[], None], report_to: int) -> NoReturn:
    error: BaseException | None = None
    try:
        work()
    except BaseException as raised:  # whatever it is, the parent says it
        error = raised
    with os.fdopen(report_to, "wb") as pipe:
        try:
            pipe.write(pickle.dumps(error))
        except Exception:  # a library's own kind of error may not be made for a pipe: its words are
            pipe.write(pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}")))
    os._exit(0)


class NotReady(Exception):
    """Why nobody can be served, and what to do, as a sentence."""


def prepare_database(tell: Callable[[str], None]) -> None:
    """Apply what is pending, behind a snapshot. Raises NotReady for a database that this version must not touch."""
    found = schema.look()
    if found.unknown:
        raise NotReady(
            f"The database was made by a newer version, which has migrations that this one does not know "
            f"({_some(found.unknown)}). Start that version again; or restore a backup of this one."
        )
    if found.half:
        raise NotReady(
            f"The database is half migrated. {found.half} Restore the snapshot in {settings.DATA_DIR / 'snapshots'} or "
            "your last backup; if you know why it is so, mend it and record it with `manage.py migrate --fake`."
        )
    if not found.pending:
        return
    if not settings.MIGRATE:
        raise NotReady(
            f"Migrations are pending ({_some(found.pending)}), and MIGRATE is false. Make a backup, run "
            "`manage.py migrate`, and start again."
        )
    _migrate(found, tell)


def _migrate(found: schema.Schema, tell: Callable[[str], None]) -> None:
    snapshot = None
    tell("Preparing the database ...")
    if settings.MIGRATE_SNAPSHOT and not found.is_empty:
        try:
            snapshot = snapshots.before_migrating(found.pending[0], tell)
        except CannotCopy as problem:
            raise NotReady(
                f"{problem} Without a snapshot nothing is migrated: make room, or set MIGRATE_SNAPSHOT=false."
            ) from None
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except Exception as error:  # whatever a migration's own code meets
        if found.is_empty:
            raise
        words = str(error).strip().partition("\n")[0] or type(error).__name__
        raise NotReady(
            f"A migration failed: {words}. What it began was taken back. {snapshots.way_back(snapshot)}"
        ) from error


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def collect_static_files() -> bool:
    """Collect when something differs from the last time, and say whether it did."""
    if not static_files_are_stale():
        return False
    call_command("collectstatic", interactive=False, verbosity=0)
    _mark().write_text(_fingerprint())
    return True


def static_files_are_stale() -> bool:
    """They were never collected, or something differs from the last time."""
    return not _mark().is_file() or _mark().read_text() != _fingerprint()


def _mark() -> Path:
    return settings.STATIC_ROOT / ".collected"


def _fingerprint() -> str:
    seen = hashlib.sha256(f"{django.__version__} {whitenoise.__file__}".encode())
    for path in sorted(_source_files()):
        stat = path.stat()
        seen.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return seen.hexdigest()


def _source_files() -> Iterator[Path]:
    for finder in get_finders():
        for name, storage in finder.list(["CVS", ".*", "*~"]):
            yield Path(storage.path(name))
