"""kill -9, at any moment and at the two worst ones: nothing told is lost, nothing happens twice, no thread is stuck."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.sites import Site, Told
from tests.live.api import said_by
from tests.server import Server
from tests.site.processes import wait_until
from tests.standin import Answer, Exchange, Say, StandIn, _last_user_text, _results_since_user

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

KILLS = 50
THREADS = 20
KEPT_WITHIN = 0.25
"""Seconds that told text may be ahead of what is kept: the promise."""
LATE_KILLS = 3
"""Of the fifty, at which the machine may have stood still without its being counted. What we keep too late is late at
most of them."""
AT_MOST = 1.0
"""Seconds, at those few."""
LOOKS_EVERY = 0.01
"""Seconds."""


def works(exchange: Exchange) -> Answer:
    """A model that writes, posts a letter, writes, posts another and looks something up, and says that it is done.

    How far it is it sees from the results, so an answer that is taken up again goes on and does not begin anew.
    """
    task = _last_user_text(exchange.json).split()[-1]
    done = len(_results_since_user(exchange.json))
    chance = random.Random(f"{task} {done}")
    words = "".join(f"{task}.{done}.{n} " for n in range(chance.randint(5, 25)))
    seconds = chance.choice([0.0, 0.05, 0.2, 0.4])
    letter = (f"call_{task}_{done}", "post_letter", {"to": f"{task}-{done}", "seconds": seconds})
    look = (f"look_{task}_{done}", "look_up", {"word": f"{task}-{done}", "seconds": 0.1})
    calls = {0: [letter], 1: [letter, look]}.get(done, [])
    return Say(words, calls, pieces=6, delay=0.02)


class Waiting:
    """How long a process's threads were ready to run and had no processor: the machine's lateness, and not ours.

    The system counts it for each thread (`schedstat`). A word is told by the loop's thread, which then has the writing
    one keep it: what the two waited that waited longest is what it may be late by.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._looks: list[tuple[float, dict[str, int]]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._over.wait(LOOKS_EVERY):
            waited = {}
            for task in self._those_there():
                with contextlib.suppress(OSError):  # it has ended since
                    waited[task] = int((self._tasks / task / "schedstat").read_text().split()[1])
            self._looks.append((time.monotonic(), waited))

    def _those_there(self) -> list[str]:
        try:
            return os.listdir(self._tasks)
        except OSError:
            return []  # it was killed

    def since(self, moment: float) -> float:
        """Seconds from the last look before that moment on, of the two threads that waited longest."""
        looks = [(at, waited) for at, waited in self._looks if waited]
        before = next((waited for at, waited in reversed(looks) if at <= moment), looks[0][1])
        last = looks[-1][1]
        return sum(sorted(last[task] - before.get(task, 0) for task in last)[-2:]) / 1e9


@dataclass(frozen=True)
class Killed:
    told: Told
    at: float
    waiting: Waiting


@pytest.mark.timeout(3000)
async def test_fifty_kills_over_twenty_threads_lose_nothing_and_do_nothing_twice(
    site: Site, standin: StandIn
):
    standin._default = works
    chance = random.Random(20261130)
    killed: list[Killed] = []
    server = site.server()
    for round in range(KILLS):
        server.settings["SERVER"] = ("uvicorn", "daphne")[round % 2]
        await asyncio.to_thread(server.start)
        site.person(server)
        killed += await threads_until_a_kill(site, server, round, chance.random() * 1.8)
    await asyncio.to_thread(server.start)
    await asyncio.to_thread(site.all_runs_end)

    every_run_has_one_end(site)
    nothing_told_is_lost(site, killed)
    no_letter_was_posted_twice(site)
    every_call_has_one_result(site)
    last = killed[-THREADS:]
    async with AsyncExitStack() as stack:
        again = [
            await stack.enter_async_context(site.run(server, f"Go on with again{n}", each.told.thread))
            for n, each in enumerate(last)
        ]
        for told in again:
            assert (await told.ends())["type"] == "RUN_FINISHED"
    assert "Traceback" not in server.output
    server.kill()


async def threads_until_a_kill(site: Site, server: Server, round: int, delay: float) -> list[Killed]:
    with Waiting(server.process.pid) as waiting:
        async with AsyncExitStack() as stack:
            all_told = [
                await stack.enter_async_context(site.run(server, f"Work on r{round}t{number}"))
                for number in range(THREADS)
            ]
            async with asyncio.timeout(100):
                for told in all_told:
                    await told.accepted.wait()
            assert {told.status for told in all_told} == {200}
            await asyncio.sleep(delay)
            at = time.monotonic()
            await asyncio.to_thread(server.kill)
            async with asyncio.timeout(60):
                for told in all_told:
                    await told.over.wait()
    return [Killed(told, at, waiting) for told in all_told]


def every_run_has_one_end(site: Site) -> None:
    runs = site.rows("SELECT id, state FROM chat_run")
    assert len(runs) >= KILLS * THREADS
    ends = site.rows("SELECT run_id FROM chat_runevent WHERE type IN ('RUN_FINISHED', 'RUN_ERROR')")
    assert Counter(run for (run,) in ends) == {run: 1 for run, _ in runs}
    assert {state for _, state in runs} <= {"finished", "lost"}


def nothing_told_is_lost(site: Site, killed: list[Killed]) -> None:
    stored = dict(site.rows("SELECT public_id, text FROM chat_message"))
    states = dict(site.rows("SELECT public_id, state FROM chat_run"))
    results = site.rows("SELECT call_id, state FROM chat_toolcall WHERE state = 'done'")
    done = {call for call, _ in results}
    ages: list[tuple[float, float, float]] = []
    for each in killed:
        for message, told in each.told.texts().items():
            text = stored.get(message, "")
            assert text.startswith(told) or told.startswith(text), (text, told)
            if not text.startswith(told):
                since = told_beyond(each.told, message, len(text))
                ages.append((each.at - since, each.waiting.since(since), each.at))
        for result in each.told.of("TOOL_CALL_RESULT"):
            assert result["toolCallId"] in done or "error" in result["content"], result
        if each.told.end is not None:
            assert states[each.told.run] == "finished", each.told.end
    # What is lost was told in the last moment, whichever kill it was. What the machine took besides is measured.
    assert ages, "no kill fell between a telling and its keeping, so this showed nothing"
    late = sorted((age - waited, age, waited, kill) for age, waited, kill in ages)
    over = [tuple(round(each, 3) for each in one) for one in late if one[0] > KEPT_WITHIN]
    assert len({kill for *_, kill in over}) <= LATE_KILLS, over
    assert late[-1][0] <= AT_MOST, over[-20:]


def told_beyond(told: Told, message: str, kept: int) -> float:
    """When the first character of a message came that is not among the `kept` ones."""
    size = 0
    for at, event in told.events:
        if event["type"] == "TEXT_MESSAGE_CONTENT" and event["messageId"] == message:
            size += len(event["delta"])
            if size > kept:
                return at
    raise AssertionError("all of it is kept")


def no_letter_was_posted_twice(site: Site) -> None:
    letters = Counter(line for line in site.counted() if line.startswith("post_letter"))
    assert len(letters) > KILLS
    assert {letter: times for letter, times in letters.items() if times > 1} == {}


def every_call_has_one_result(site: Site) -> None:
    ledger = Counter(site.rows("SELECT call_id, run_id FROM chat_toolcall"))
    assert set(ledger.values()) == {1}
    open_rows = "SELECT count(*) FROM chat_toolcall WHERE state IN ('proposed', 'waiting', 'claimed')"
    assert site.value(open_rows) == 0
    calls: dict[int, list[str]] = defaultdict(list)
    results: dict[int, list[str]] = defaultdict(list)
    for thread, parts in site.rows("SELECT thread_id, parts FROM chat_message"):
        for part in json.loads(parts) if isinstance(parts, str) else parts:
            if part["type"] == "tool-call":
                calls[thread].append(part["id"])
            if part["type"] == "tool-result":
                results[thread].append(part["toolCallId"])
    assert calls
    for thread, ids in calls.items():
        assert sorted(ids) == sorted(results[thread])


@pytest.mark.parametrize("kind", ["uvicorn", "daphne"])
@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
async def test_a_death_around_the_commit_of_a_result_leaves_exactly_one(
    place: str, kind: str, tmp_path, standin: StandIn, database: dict[str, str]
):
    """Before: it may have happened, and the result says so. After: the result is the tool's, told or not."""
    standin._default = works
    died = tmp_path / "died"
    site = Site(tmp_path, standin, database, PLANT_DEATH=place, PLANT_DIED=str(died), SERVER=kind)
    with site.server() as server:
        site.person(server)
        async with site.run(server, "Work on one") as told:
            await asyncio.to_thread(wait_until, died.exists, "the death")
            async with asyncio.timeout(60):
                await told.over.wait()
        assert told.of("TOOL_CALL_RESULT") == [], "it died before anybody was told"
        server.process.wait(60)
        await asyncio.to_thread(server.start)
        await asyncio.to_thread(site.all_runs_end)
        assert site.counted().count("post_letter one-0") == 1
        [(state, result)] = site.rows("SELECT state, result FROM chat_toolcall WHERE call_id = 'call_one_0'")
        if place == "before_commit":
            assert state == "unknown"
            assert "may have happened" in result
        else:
            assert (state, json.loads(result)) == ("done", {"posted": "one-0"})
        every_call_has_one_result(site)
        assert site.rows("SELECT state FROM chat_run ORDER BY id") == [("lost",), ("finished",)]
        # The page's followers come back with their place and hear of the end.
        async with site.follow(server, told.thread) as heard:
            await heard.ends()
        async with site.run(server, "Go on with two", told.thread) as told:
            assert (await told.ends())["type"] == "RUN_FINISHED"
        with server.client(site.person(server)) as client:
            read = client.get("/api/chat", params={"threadId": told.thread}).json()
        assert said_by(read, "user")[0] == "Work on one"
        assert "Traceback" not in server.output
