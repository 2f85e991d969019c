"""A copy of the database while others write to it.

SQLite        the online backup, in steps, all of one moment: this connection reads through one transaction, and readers
              hold up nobody. The log of writes (WAL) grows meanwhile.
PostgreSQL    pg_dump, of one moment, too. Where it is not installed, that is a sentence.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

Tell = Callable[[str], None]
PAGES_A_STEP = 2_000
SCHEMA = "public"
LOOK_EVERY = 1.0


class CannotCopy(Exception):
    """A sentence for whoever asked."""


def is_sqlite() -> bool:
    return connection.vendor == "sqlite"


def sqlite_path() -> Path:
    return Path(connection.settings_dict["NAME"])


def copy_sqlite(source: Path, target: Path, tell: Tell) -> None:
    """A whole database file at `target`, or none."""
    draft = target.with_name(f".{target.name}.part")
    draft.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(source, timeout=20)) as reading, closing(_private(draft)) as writing:
            # A read transaction from here on: else each commit of somebody would begin the copy anew.
            reading.execute("BEGIN")
            reading.execute("SELECT count(*) FROM sqlite_master").fetchone()
            reading.backup(writing, pages=PAGES_A_STEP, progress=_pages(tell), sleep=0)
            # The copy is one file: nobody writes to it, and whoever takes it along must not forget its WAL.
            writing.execute("PRAGMA journal_mode = DELETE")
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    except (sqlite3.Error, OSError) as error:
        raise CannotCopy(f"The database cannot be copied to {target}: {error}.") from None
    finally:
        for left in (draft, draft.with_name(f"{draft.name}-journal"), draft.with_name(f"{draft.name}-wal")):
            left.unlink(missing_ok=True)


def _private(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return sqlite3.connect(path)


def _pages(tell: Tell) -> Callable[[int, int, int], None]:
    told = [time.monotonic()]

    def progress(status: int, left: int, total: int) -> None:
        if time.monotonic() - told[0] > LOOK_EVERY:
            told[0] = time.monotonic()
            tell(f"database: {total - left:,} of {total:,} pages")

    return progress


# -- PostgreSQL ----------------------------------------------------------------------------------------------


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CannotCopy(
            f"{name} is not installed here; install PostgreSQL's client programs (postgresql-client)."
        )
    return found


@contextmanager
def one_moment() -> Iterator[str]:
    """The id of a snapshot that pg_dump can share; what Django's connection reads within is of the same moment."""
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            cursor.execute("SELECT pg_export_snapshot()")
            yield cursor.fetchone()[0]
        finally:
            cursor.execute("ROLLBACK")
    connection.close()


def dump_postgresql(target: Path, tell: Tell, snapshot: str = "") -> None:
    """The tables of the schema `public` as SQL, at `target`, or nothing there."""
    draft = target.with_name(f".{target.name}.part")
    arguments = [tool("pg_dump"), "--no-owner", "--no-privileges", f"--schema={SCHEMA}", f"--file={draft}"]
    if snapshot:
        arguments.append(f"--snapshot={snapshot}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600))
        run_tool(arguments, lambda: tell(f"database: {draft.stat().st_size:,} bytes"))
        draft.replace(target)
    except OSError as error:
        raise CannotCopy(f"The database cannot be written to {target}: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)


def run_tool(arguments: list[str], look: Callable[[], None]) -> None:
    """Run one of PostgreSQL's programs on our database. Its first words are the sentence when it fails."""
    process = subprocess.Popen(  # noqa: S603 - its path was looked up, and no shell reads this
        [*arguments, f"--dbname={_address()}"],
        env={**os.environ, **_environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while True:
            try:
                _, said = process.communicate(timeout=LOOK_EVERY)
                break
            except subprocess.TimeoutExpired:
                look()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode:
        first = next((line for line in said.splitlines() if "error" in line.lower()), said.strip()[:300])
        raise CannotCopy(f"{Path(arguments[0]).name} failed: {first}")


def _address() -> str:
    """Without the password, which other users of this machine could read in the list of processes."""
    wanted: dict[str, Any] = connection.get_connection_params()
    names = ("dbname", "user", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey")
    values = {name: str(wanted[name]) for name in names if wanted.get(name)}
    return " ".join(f"{name}='{_quoted(value)}'" for name, value in values.items())


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def _environment() -> dict[str, str]:
    password = connection.settings_dict.get("PASSWORD")
    return {"PGPASSWORD": password} if password else {}
