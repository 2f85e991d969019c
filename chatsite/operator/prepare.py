"""What a start needs before the first request: tables and static files. Doing it again costs little."""

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
import whitenoise
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor


@contextmanager
def one_start_at_a_time() -> Iterator[None]:
    """Two servers started together on one DATA_DIR prepare it one after the other."""
    with (settings.DATA_DIR / "start.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pending_migrations() -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def migrate() -> None:
    call_command("migrate", interactive=False, verbosity=0)


def collect_static_files() -> bool:
    """Collect when something differs from the last time, and say whether it did."""
    mark = settings.STATIC_ROOT / ".collected"
    now = _fingerprint()
    if mark.is_file() and mark.read_text() == now:
        return False
    call_command("collectstatic", interactive=False, verbosity=0)
    mark.write_text(now)
    return True


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
