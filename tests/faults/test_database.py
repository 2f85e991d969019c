"""The database refuses, waits, or is gone: what was told as kept is there, and a run goes on or ends honestly.

Text is told at once and kept within a quarter of a second; while the database is away it is told all the same, and
kept when it is back. The end of a run is told when all of it is kept, so whoever heard the end has the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.faults.sites import Site, Told
from tests.server import Server
from tests.site.processes import held_port
from tests.site.test_several_processes import missing
from tests.standin import Say, StandIn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TEXT = "".join(f"word {n}, " for n in range(400))
SLOW = Say(TEXT, pieces=10, delay=0.02)  # about nine seconds
on_sqlite = pytest.mark.skipif(
    os.environ.get("DATABASE_URL", "").startswith("postgres"),
    reason="the disk is SQLite's; PostgreSQL has its own",
)


def stored(site: Site, told: Told) -> str:
    rows = site.rows(
        "SELECT m.text FROM chat_message m JOIN chat_thread t ON t.id = m.thread_id"
        f" WHERE t.public_id = '{told.thread}' AND m.role = 'assistant' ORDER BY m.id"
    )
    return "".join(text for (text,) in rows)


async def refused(site: Site, server: Server) -> Told:
    """A message that cannot be kept: no run, and a sentence that says what to do."""
    async with site.run(server, "And this?") as told:
        async with asyncio.timeout(100):
            await told.over.wait()
    assert told.status == 503, told.body
    error = json.loads(told.body)["error"]
    assert error["code"] == "database_unavailable"
    assert "try again" in error["message"]
    return told


async def usable_again(site: Site, server: Server, told: Told, standin: StandIn) -> None:
    standin.forget()
    async with site.run(server, "And now?", told.thread) as again:
        assert (await again.ends())["type"] == "RUN_FINISHED"
    assert again.text.endswith("And now?")
    await asyncio.to_thread(site.all_runs_end)


# -- disk full -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """No file of this process may grow any more: what a full disk is to it, without filling the machine's."""
    assert server.process is not None
    before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)


@on_sqlite
async def test_a_disk_that_is_full_for_a_moment_costs_nothing(site: Site, standin: StandIn):
    standin.play(SLOW)
    with site.server() as server:
        async with site.run(server, "Hello") as told:
            await told.hears(300)
            with full_disk(server):
                await asyncio.sleep(1.5)
            assert (await told.ends())["type"] == "RUN_FINISHED"
        assert told.text == TEXT == stored(site, told)


@on_sqlite
async def test_a_disk_that_stays_full_is_said_in_words_and_the_run_ends_honestly(
    site: Site, standin: StandIn
):
    standin.play(Say(TEXT[:600], pieces=10, delay=0.02))
    with site.server() as server:
        async with site.run(server, "Hello") as told:
            await told.hears(100)
            with full_disk(server):
                refusal = await refused(site, server)
                await told.until(lambda told: len(told.text) >= 600, "the whole text")
                await asyncio.sleep(3)
                assert told.end is None, "an end is told when it is kept"
            end = await told.ends()
        kept = stored(site, told)
        assert told.text.startswith(kept)
        assert kept == TEXT[:600] if end["type"] == "RUN_FINISHED" else end["message"]
        assert site.rows(f"SELECT 1 FROM chat_thread WHERE public_id = '{refusal.thread}'") == []
        await usable_again(site, server, told, standin)


# -- locked --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def locked(site: Site) -> Iterator[None]:
    """Another process holds what every writer needs."""
    if "DATABASE_URL" in site.database:
        with psycopg.connect(site.database["DATABASE_URL"]) as connection:
            connection.execute("LOCK TABLE chat_run, chat_runevent, chat_message IN ACCESS EXCLUSIVE MODE")
            yield
        return
    connection = sqlite3.connect(site.sqlite, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


async def test_a_database_that_is_locked_for_five_seconds_is_waited_for(site: Site, standin: StandIn):
    standin.play(SLOW)
    with site.server() as server:
        site.person(server)
        async with site.run(server, "Hello") as told:
            await told.hears(300)
            heard = len(told.text)
            with locked(site):
                async with site.run(server, "And this?") as waiting:
                    await asyncio.sleep(5)
                    assert len(told.text) > heard + 100, "text needs no database"
                    assert waiting.end is None
            assert (await told.ends())["type"] == "RUN_FINISHED"
        assert told.text == TEXT == stored(site, told)
        await usable_again(site, server, told, standin)


async def test_no_tool_starts_before_it_is_kept_that_it_may(site: Site, standin: StandIn):
    letter = [("c1", "post_letter", {"to": "Ada"})]
    standin.play(Say(TEXT[:300], letter, pieces=10, delay=0.02), Say("It is posted."))
    with site.server() as server:
        async with site.run(server, "Write to her") as told:
            await told.hears(50)
            with locked(site):
                await told.until(lambda told: len(told.text) >= 300, "the whole text")
                await asyncio.sleep(2)
                assert site.counted() == []
                assert told.of("TOOL_CALL_END", "TOOL_CALL_RESULT") == []
            assert (await told.ends())["type"] == "RUN_FINISHED"
        assert site.counted() == ["post_letter Ada"]
        assert site.rows("SELECT state FROM chat_toolcall") == [("done",)]


# -- gone ----------------------------------------------------------------------------------------------------


class Postgres:
    """A server of the test's own, to be killed. Runs as PostgreSQL's user where the test runs as root.

    It waits for no disk: what it wrote outlives its processes, and a slow disk is not what is away here.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held = held_port()
        self.port = self._held.getsockname()[1]
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        self.bin = found[-1].parent if found else Path(shutil.which("initdb") or "/nowhere/initdb").parent
        if not (self.bin / "initdb").exists():
            missing("there is no PostgreSQL here to be killed")

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.bin / program), "-D", str(self.folder / "pg"), *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=100, cwd="/")

    def make(self) -> None:
        (self.folder / "pg").mkdir()
        if os.getuid() == 0:
            shutil.chown(self.folder / "pg", "postgres")
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "pg" / "log"), "-o", options, "start")

    def die(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")

    def forget(self) -> None:
        self._held.close()
        shutil.rmtree(self.folder)


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """Not in pytest's folder, which only its own user may enter."""
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o711)
    postgres = Postgres(folder)
    postgres.make()
    postgres.start()
    yield postgres
    with contextlib.suppress(subprocess.CalledProcessError):
        postgres.die()
    postgres.forget()


async def test_a_database_that_is_gone_for_ten_seconds_loses_nothing_that_was_kept(
    postgres: Postgres, tmp_path, standin: StandIn
):
    site = Site(tmp_path, standin, {"DATABASE_URL": postgres.url})
    with site.server() as server:
        site.person(server)
        async with site.run(server, "Hello") as early:
            await early.ends()
        standin.play(Say(TEXT * 2, pieces=10, delay=0.02))
        async with site.run(server, "Tell me more") as told:
            await told.hears(500)
            heard = len(told.text)
            postgres.die()
            gone_at = time.monotonic()
            await refused(site, server)
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
                assert (await client.get("/healthz")).status_code == 503
                client.cookies.set("threadloom_session", site.person(server).session)
                page = await client.get(f"/threads/{told.thread}/")
                assert page.status_code == 503
                assert "try again" in page.text.lower()
            await asyncio.sleep(10 - (time.monotonic() - gone_at))
            assert len(told.text) > heard + 200, "text needs no database"
            postgres.start()
            assert (await told.ends())["type"] == "RUN_FINISHED"
        assert told.text == TEXT * 2 == stored(site, told)
        assert stored(site, early) == early.text
        await usable_again(site, server, told, standin)
