"""A copy of the database before it is migrated, in `DATA_DIR/snapshots`: the last `KEPT` of them.

A snapshot is no backup: it lies beside what it is a copy of, and has no files. It is the way back from a migration.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.utils import timezone

from chatsite.operator.copying import (
    CannotCopy,
    Tell,
    copy_sqlite,
    dump_postgresql,
    is_sqlite,
    sqlite_path,
    tool,
)

KEPT = 3


def before_migrating(first: str, tell: Tell) -> Path | None:
    """Copy the database. None where PostgreSQL's programs are missing, which is told. `first` is what comes next."""
    folder = Path(settings.DATA_DIR) / "snapshots"
    folder.mkdir(mode=0o700, exist_ok=True)
    stem = f"{timezone.now():%Y%m%d-%H%M%S}-before-{first}"
    if is_sqlite():
        path = folder / f"{stem}.sqlite3"
        copy_sqlite(sqlite_path(), path, tell)
    else:
        path = folder / f"{stem}.sql"
        try:
            tool("pg_dump")
        except CannotCopy as missing:
            tell(f"No snapshot is made before the migration: {missing}")
            return None
        dump_postgresql(path, tell)
    _keep_the_last(folder)
    return path


def way_back(path: Path | None) -> str:
    """What to do with it, for whoever reads that a migration failed."""
    if path is None:
        return "Bring back your last backup, if you need to."
    if path.suffix == ".sqlite3":
        return (
            f"The database before it is in {path}: stop the servers, move {sqlite_path()} and its -wal file away, "
            "and put a copy of it there."
        )
    return f"The database before it is in {path}: load it into an empty database with psql."


def _keep_the_last(folder: Path) -> None:
    """Their names begin with their time."""
    made = sorted(path for path in folder.glob("*-before-*") if path.suffix in {".sqlite3", ".sql"})
    for path in made[:-KEPT]:
        path.unlink()
