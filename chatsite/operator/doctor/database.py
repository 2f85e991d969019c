"""The database: that it answers, is whole, takes several writers, and has the time."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import connection

from chatsite.chat.models import Run
from chatsite.operator import schema
from chatsite.operator.doctor.findings import Finding, look, ok, wrong

SLOW = 0.05
"""Seconds of one small question: a database in the next room takes a tenth of it."""
CLOCK_APART = 2.0
ROOM = 1 << 30
OLDEST_POSTGRES = 13_00_00
CONNECTIONS_OF_A_PROCESS = 12
"""Readers 4, writer, aside, the gateway's recorder and ledger, and a few of Django's own requests."""
WHOLE_WITHIN = 4 << 30
"""Bytes of an SQLite file that is read through; a larger one would take minutes."""

NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "fuse.glusterfs",
    "ceph",
    "afs",
    "lustre",
}


def answers() -> Iterator[Finding]:
    began = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    connected = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    took = time.monotonic() - connected
    words = f"{connection.vendor} answers in {took * 1000:.1f} ms ({(connected - began) * 1000:.0f} ms with connecting)"
    if took > SLOW:
        yield look("database", words, "Each answer takes several of these: put the database nearer.")
    else:
        yield ok("database", words)


def migrations() -> Iterator[Finding]:
    found = schema.look()
    if found.unknown:
        yield wrong(
            "migrations",
            f"the database has migrations that this version does not know: {', '.join(found.unknown[:5])}",
            "Start the newer version again, or restore the backup of before.",
        )
    elif found.half:
        yield wrong(
            "migrations",
            f"the database is half migrated. {found.half}",
            "Restore the snapshot in DATA_DIR/snapshots, or your last backup.",
        )
    elif found.pending:
        do = (
            "`manage.py serve` applies them, as does `migrate`."
            if settings.MIGRATE
            else "Run `manage.py migrate`."
        )
        yield look("migrations", f"{len(found.pending)} are pending", do)
    else:
        yield ok("migrations", "all applied")


def writers() -> Iterator[Finding]:
    """Several connections write at once, each a transaction that is rolled back."""
    errors: list[str] = []
    took: list[float] = []

    def write() -> None:
        try:
            for _ in range(5):
                began = time.monotonic()
                _write_and_forget()
                took.append(time.monotonic() - began)
        except Exception as error:  # whatever it is, it is what a run would meet
            errors.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        yield wrong(
            "locks",
            f"of 8 writers at once {len(errors)} failed: {errors[0]}",
            "With SQLite nothing else may hold the file (a copy program, say), and it must lie on a local disk.",
        )
    else:
        yield ok("locks", f"8 writers at once waited for each other, {max(took) * 1000:.0f} ms at most")


def _write_and_forget() -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE" if connection.vendor == "sqlite" else "BEGIN")
        try:
            cursor.execute(
                "UPDATE django_session SET expire_date = expire_date WHERE session_key = %s", ["doctor"]
            )
        finally:
            cursor.execute("ROLLBACK")


def sqlite() -> Iterator[Finding]:
    if connection.vendor != "sqlite":
        return
    path = Path(str(connection.settings_dict["NAME"]))
    kind = file_system_of(path)
    if kind in NETWORK_FILE_SYSTEMS:
        yield wrong(
            "file system",
            f"{path} lies on {kind}, whose locks SQLite cannot trust: data will be lost",
            "Move DATA_DIR to a local disk, or use PostgreSQL (DATABASE_URL).",
        )
    else:
        yield ok("file system", f"the database lies on {kind or 'a local disk, as far as can be seen'}")
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        mode = cursor.fetchone()[0]
        if mode != "wal":
            yield wrong(
                "journal",
                f"is {mode}, not wal: readers and writers hold each other up",
                "Start `manage.py serve` once.",
            )
        if path.stat().st_size > WHOLE_WITHIN:
            yield look(
                "integrity",
                "was not looked at: the file is large",
                "Run `PRAGMA quick_check` in a quiet hour.",
            )
            return
        cursor.execute("PRAGMA quick_check(1)")
        said = cursor.fetchone()[0]
    if said == "ok":
        yield ok("integrity", "the file is whole")
    else:
        yield wrong(
            "integrity",
            f"the file is damaged: {said}",
            "Stop the server and restore the last backup (`manage.py restore`).",
        )


def file_system_of(path: Path, mounts: str = "/proc/self/mounts") -> str:
    """The kind of file system that `path` lies on, as the system names it; empty where it cannot be known."""
    try:
        lines = Path(mounts).read_text().splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        _, at, found, *_ = line.split(" ")
        at = at.encode().decode("unicode_escape")
        inside = real == at or real.startswith(at.rstrip("/") + "/")
        if inside and len(at) >= len(best):  # of two on one place the later hides the earlier
            best, kind = at, found
    return kind


def postgres() -> Iterator[Finding]:
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version_num')::int, current_setting('max_connections')::int"
        )
        version, most = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
        now = cursor.fetchone()[0]
    if version < OLDEST_POSTGRES:
        yield wrong("version", f"PostgreSQL {version // 10000} is too old", "Use PostgreSQL 13 or newer.")
    processes = max(1, (most - 10) // CONNECTIONS_OF_A_PROCESS)
    words = f"{now} connections of at most {most}: room for about {processes} server processes"
    if now > most * 0.8:
        yield wrong("connections", words, "Raise max_connections, or put a pooler in front (session mode).")
    else:
        yield ok("connections", words)


def clock() -> Iterator[Finding]:
    """SQLite has none of its own."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXTRACT(EPOCH FROM clock_timestamp())")
        apart = float(cursor.fetchone()[0]) - datetime.now(UTC).timestamp()
    if abs(apart) > CLOCK_APART:
        words = f"the database is {apart:+.1f} s apart from this machine"
        yield wrong("clock", words, "Let both follow a time server (NTP).")
    else:
        yield ok("clock", f"{abs(apart) * 1000:.0f} ms apart from the database's")


def lost_runs() -> Iterator[Finding]:
    stuck = Run.objects.filter(state__in=Run.ACTIVE, owner="").count()
    if stuck:
        yield look(
            "runs",
            f"{stuck} wait to be recovered",
            "A running server does it within seconds; is one running?",
        )
    else:
        yield ok("runs", f"{Run.objects.filter(state__in=Run.ACTIVE).count()} at work, none left behind")


def room() -> Iterator[Finding]:
    free = shutil.disk_usage(settings.DATA_DIR).free
    words = f"{free / 1e9:.1f} GB free where DATA_DIR is"
    if free < ROOM:
        yield wrong("disk", words, "Make room: a full disk ends runs, and nothing more is kept.")
    else:
        yield ok("disk", words)
