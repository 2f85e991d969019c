"""What each process does every second, beside its requests: one task on the server's loop.

    every second     stop runs whose stop came in by another process; wake readers here of runs elsewhere
    every 10 s       beat for the runs of this process; recover the runs whose process is gone
    every minute     fold and prune the logs of runs that have ended (`upkeep`)

`serve` starts it with the server (`begin`), so that lost runs go on though nobody asks for a page. For servers that
are started otherwise (there is no lifespan under daphne) the first request, socket or run does.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
import weakref

from django.db import DatabaseError
from django.db.models import Max

from chatsite.chat import db, eventlog, recovery, runner
from chatsite.chat.care import upkeep
from chatsite.chat.counting import watched
from chatsite.chat.models import Run, RunEvent
from chatsite.chat.problems import Restarting
from chatsite.chat.process import draining, news
from chatsite.chat.process.heartbeat import BEAT_EVERY, PROCESS, Watch
from chatsite.chat.tools import remote
from chatsite.watch.counters import Gauge

log = logging.getLogger(__name__)

ROUND_EVERY = 1.0
FIRST_BEAT_AFTER = 0.0
"""Seconds. At once: what an earlier process left is recovered before anybody waits for it."""

_tasks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[asyncio.Task[None]]] = (
    weakref.WeakKeyDictionary()
)

_lateness = 0.0
Gauge(
    "threadloom_loop_lateness_seconds",
    "How late the last round came: how busy the loop is.",
    lambda: _lateness,
)


def begin() -> None:
    """Start the rounds on this loop, and listen to other processes, if that is not on its way."""
    loop = asyncio.get_running_loop()
    if loop not in _tasks:
        remote.begin()
        _tasks[loop] = [
            loop.create_task(_rounds(), name="rounds", context=contextvars.Context()),
            loop.create_task(_beats(), name="beats", context=contextvars.Context()),
            loop.create_task(_listen(), name="news", context=contextvars.Context()),
            loop.create_task(upkeep.keep_house(), name="upkeep", context=contextvars.Context()),
        ]


async def _rounds() -> None:
    global _lateness
    loop = asyncio.get_running_loop()
    seen: dict[int, Latest] = {}
    while True:
        try:
            await _hear_stops()
            seen = await _wake_readers(seen)
        except Exception:
            # The rounds must outlive whatever one of them met, a database that is away above all.
            log.warning("a round failed; the next is tried in %s s", ROUND_EVERY, exc_info=True)
        due = loop.time() + ROUND_EVERY
        await asyncio.sleep(ROUND_EVERY)
        _lateness = loop.time() - due


async def _beats() -> None:
    """Two tasks, since a thousand lost runs take a while, and the living ones must not miss a beat over them."""
    watch, recovering = Watch(), None
    await asyncio.sleep(FIRST_BEAT_AFTER)
    while True:
        try:
            await _beat()
            if recovering is None or recovering.done():
                recovering = asyncio.create_task(_recover_quietly(watch), name="recovery")
        except Exception:
            # As above.
            log.warning("a beat failed; the next is tried in %s s", BEAT_EVERY, exc_info=True)
        await asyncio.sleep(BEAT_EVERY)


async def _listen() -> None:
    """Do at once what the next round would do."""
    async for piece in news.heard():
        if "stop" in piece:
            runner.stop(piece["stop"])
        channel = eventlog.open_channel(piece.get("thread"))
        if channel is not None and channel.active is None:
            channel.look_into_rows()


async def _hear_stops() -> None:
    here = [work.run_pk for work in runner.running_here()]
    if here:
        for run_pk in await db.read(_stops_among, here):
            runner.stop(run_pk)


async def _wake_readers(seen: dict[int, Latest]) -> dict[int, Latest]:
    """Readers of a thread with no run here hear of one elsewhere by what its rows say now."""
    waiting = {channel.thread_pk: channel for channel in eventlog.open_channels() if channel.active is None}
    if not waiting:
        return {}
    now = await db.read(_news_of, list(waiting))
    for thread_pk, latest in now.items():
        if seen.get(thread_pk) != latest:
            channel = waiting[thread_pk]
            live = channel.live
            if live is not None and (live.run_pk, live.base.branch) == (latest[0], latest[3]):
                channel.tell()
            else:
                channel.look_into_rows()  # the thread went on elsewhere
    return now


async def _beat() -> None:
    here = [work.run_pk for work in runner.running_here()]
    if here:
        await db.write(recovery.beat_for, here)


async def recover_lost(watch: Watch) -> list[recovery.Recovered]:
    """Recover what is lost by now, and start here what goes on with it.

    Each run is a transaction of its own: between two of them the writer serves whoever else waits.
    """
    beats = await db.read(recovery.active_runs)
    recovered = []
    for seen in watch.look(beats, time.monotonic()):
        if seen.owner == PROCESS and runner.is_here(seen.run_pk):
            continue
        await remote.ready()  # a call may run again whose tool another server has
        try:
            with draining.beginning():
                done = await db.write(recovery.recover, seen)
                if done is not None:
                    recovered.append(done)
                    _go_on(done)
        except Restarting:
            break  # this process goes itself
        except DatabaseError as error:
            log.warning("run %s: it could not be recovered yet: %s", seen.run_pk, error)
    return recovered


def _go_on(done: recovery.Recovered) -> None:
    log.warning("a run of thread %s had lost its process: %s", done.thread_pk, done.fate)
    watched.RECOVERED.add(done.fate)
    if done.begun is not None:
        runner.start(done.begun, done.user)
    channel = eventlog.open_channel(done.thread_pk)
    if channel is not None:
        channel.look_into_rows()
    news.thread_changed(done.thread_pk)


async def _recover_quietly(watch: Watch) -> None:
    try:
        await recover_lost(watch)
    except Exception:
        # As above; the next beat tries it again.
        log.warning("lost runs could not be looked for", exc_info=True)


def _stops_among(run_pks: list[int]) -> list[int]:
    return list(Run.objects.filter(pk__in=run_pks, stop_requested=True).values_list("pk", flat=True))


Latest = tuple[int, str, int, int]
"""Of a thread: its newest run, that run's state, that run's last kept event, how often another branch was shown."""


def _news_of(thread_pks: list[int]) -> dict[int, Latest]:
    newest = Run.objects.filter(thread_id__in=thread_pks).values("thread_id").annotate(newest=Max("pk"))
    found = Run.objects.filter(pk__in=[row["newest"] for row in newest])
    runs = found.select_related("thread").only("pk", "thread_id", "state", "thread__branch")
    states = {run.pk: run for run in runs}
    numbers = RunEvent.objects.filter(run_id__in=states).values("run_id").annotate(last=Max("number"))
    last = {row["run_id"]: row["last"] for row in numbers}
    return {
        run.thread_id: (run.pk, run.state, last.get(run.pk, 0), run.thread.branch) for run in states.values()
    }
