"""What lasts: `python -m bench.lasting [--database-url postgres://...]`.

    size        the database per 1,000 answers: as the token path leaves it, folded, pruned. Of two kinds: a markdown
                answer of 2.7 KB in 400 deltas over 8 s, and a three-turn run with two tools at full speed. Unused
                pages are given back before each look (VACUUM), and what an empty database has is taken off
    recovery    1,000 lost runs: from the start of the next server until all of them have their end. A server is
                killed in the middle of 50 runs of 10 deltas a second, each 12 s old, and what it left is copied

With `--database-url` the same on PostgreSQL: the named database is used, and should be empty.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import uvloop

from bench.client import ask, chat_request
from bench.common import (
    HEALTH,
    add_user,
    free_port,
    machine,
    manage,
    module,
    print_table,
    process,
    site_environment,
    wait_for,
)

ANSWERS = 1_000
AT_ONCE = {"answer": 250, "tools": 64}
KINDS = {"answer": "2.7 KB of text in 8 s", "tools": "two tools, three turns"}
LOST = 1_000
KILLED, BEGIN_WITHIN, KILLED_AFTER = 50, 2.0, 12.0
BRIEF = "0.000001"
"""Days: what has ended is old at once."""


class Site:
    """A site that is started and ended again on the same data."""

    def __init__(self, folder: Path, model_port: int, database_url: str) -> None:
        self.database_url = database_url
        self.port = free_port()
        self.env = site_environment(
            folder,
            "uvicorn",
            self.port,
            OPENAI_BASE_URL=f"http://127.0.0.1:{model_port}",
            OPENAI_MODELS="answer,tools,paced-900",
            **({"DATABASE_URL": database_url} if database_url else {}),
        )
        self.env["LOG_LEVEL"] = "ERROR"  # a thousand lost runs are a thousand warnings
        self.file = folder / "db.sqlite3"
        self.has_user = False

    @contextlib.contextmanager
    def served(self) -> Iterator[subprocess.Popen[bytes]]:
        with process("manage.py", "serve", env=self.env) as child:
            wait_for(self.port, child, HEALTH)
            if not self.has_user:
                add_user(self.env)
                self.has_user = True
            yield child

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        if self.database_url:
            with psycopg.connect(self.database_url, autocommit=True) as connection:
                cursor = connection.execute(statement)
                return cursor.fetchall() if cursor.description else []
        with contextlib.closing(sqlite3.connect(self.file, isolation_level=None, timeout=60)) as connection:
            return connection.execute(statement).fetchall()

    def size(self) -> float:
        """MB, without what is unused."""
        if self.database_url:
            self.sql("VACUUM FULL")
            return float(self.sql("SELECT pg_database_size(current_database())")[0][0]) / 1e6
        self.sql("VACUUM")
        self.sql("PRAGMA wal_checkpoint(TRUNCATE)")
        return self.file.stat().st_size / 1e6

    def events(self) -> int:
        return int(self.sql("SELECT count(*) FROM chat_runevent")[0][0])

    def active(self, up_to: int) -> int:
        active = f"SELECT count(*) FROM chat_run WHERE id <= {up_to} AND state IN ('queued', 'running')"
        return int(self.sql(active)[0][0])


# -- size ----------------------------------------------------------------------------------------------------


async def answers(site: Site, model: str, count: int) -> None:
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await ask(site.port, chat_request(model))

    await asyncio.gather(*(work() for _ in range(min(count, AT_ONCE[model]))))


def sizes(site: Site, model: str, count: int) -> list[str]:
    """MB and rows of the log per 1,000 answers of this kind, on top of what is there."""
    empty, rows = site.size(), site.events()
    with site.served():
        uvloop.run(answers(site, model, count))
    cells = [KINDS[model]]
    for keep in ("", "36500", BRIEF):
        if keep:
            manage("upkeep", env={**site.env, "EVENTS_KEEP_DAYS": keep})
        megabytes, events = site.size() - empty, site.events() - rows
        cells.append(f"{megabytes * 1000 / count:.2f} MB, {events * 1000 // count:,} rows")
    return cells


# -- recovery ------------------------------------------------------------------------------------------------


async def kill_in_the_middle(site: Site, child: subprocess.Popen[bytes], **props: str) -> None:
    """`KILLED` runs under way, and their server killed."""

    async def begin(number: int) -> None:
        await asyncio.sleep(BEGIN_WITHIN * number / KILLED)
        with contextlib.suppress(SystemExit):  # its server died before it answered
            await ask(site.port, chat_request("paced-900", **props))

    tasks = [asyncio.ensure_future(begin(number)) for number in range(KILLED)]
    await asyncio.sleep(KILLED_AFTER)
    child.kill()
    await asyncio.gather(*tasks, return_exceptions=True)


def recovery(site: Site, count: int, goes_on: bool) -> list[str]:
    props = {"onDisconnect": "continue"} if goes_on else {}
    with site.served() as child:
        uvloop.run(kill_in_the_middle(site, child, **props))
    manage("shell", "-c", f"from bench.lost import multiply; multiply({count})", env=site.env)
    last = int(site.sql("SELECT max(id) FROM chat_run")[0][0])
    lost, rows = site.active(last), site.events()
    began = time.monotonic()
    with process("manage.py", "serve", env=site.env) as child:
        wait_for(site.port, child, HEALTH)
        answers_after = time.monotonic() - began
        while site.active(last):
            time.sleep(0.05)
        ended = time.monotonic() - began
        child.kill()
    what = "and gone on with" if goes_on else "closed"
    return [f"{lost:,} lost runs {what} ({rows:,} rows)", f"{answers_after:.1f} s", f"{ended:.1f} s"]


def main() -> None:
    parser = argparse.ArgumentParser(description="What lasts: size and recovery.")
    parser.add_argument("--quick", action="store_true", help="a tenth of it: a look, no figures")
    parser.add_argument("--database-url", default="", help="an empty PostgreSQL database, instead of SQLite")
    parser.add_argument("--only", choices=["size", "recovery"])
    options = parser.parse_args()
    part = 10 if options.quick else 1
    print(f"{machine()}\n", flush=True)
    with module("model") as model, tempfile.TemporaryDirectory(prefix="threadloom-bench-") as folder:
        site = Site(Path(folder), model.port, options.database_url)
        with site.served():
            pass  # makes the database
        if options.only != "recovery":
            rows = [sizes(site, kind, ANSWERS // part) for kind in KINDS]
            print_table(["per 1,000 answers", "as written", "folded", "pruned"], rows)
        if options.only != "size":
            rows = [recovery(site, LOST // part, goes_on) for goes_on in (False, True)]
            print_table(["", "the server answers", "all have their end"], rows)


if __name__ == "__main__":
    sys.exit(main())
