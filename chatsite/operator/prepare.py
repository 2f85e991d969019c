"""What a start needs before the first request: tables and static files. Doing it again costs little."""

import fcntl
import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import django
import whitenoise
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor


@contextmanager
def one_start_at_a_time() -> Iterator[None]:
    """Two servers started together on one DATA_DIR prepare it one after the other."""
    with (settings.DATA_DIR / "start.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
    error = pickle.loads(report) if report else RuntimeError("The preparation was ended from outside.")  # noqa: S301
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


def pending_migrations() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def migrate() -> None:
    call_command("migrate", interactive=False, verbosity=0)


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
