"""What each process does every second, beside its requests: one task on the server's loop.

    every second     stop runs whose stop came in by another process; wake readers here of runs elsewhere
    every 10 s       beat for the runs of this process; close the runs whose process is gone
    every minute     fold and prune the logs of runs that have ended (`upkeep`)

There is no lifespan under daphne, so the first request, socket or run starts it (`begin`).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
import weakref

from django.db.models import Max
from django.utils import timezone

from chatsite.chat import db, eventlog, news, recovery, runner, upkeep
from chatsite.chat.models import Run, RunEvent

log = logging.getLogger(__name__)

ROUND_EVERY = 1.0
BEAT_EVERY = 10.0
FIRST_BEAT_AFTER = 0.0
"""Seconds. At once: what an earlier process left is closed before anybody waits for it."""

_tasks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[asyncio.Task[None]]] = (
    weakref.WeakKeyDictionary()
)


def begin() -> None:
    """Start the rounds on this loop, and listen to other processes, if that is not on its way."""
    loop = asyncio.get_running_loop()
    if loop not in _tasks:
        _tasks[loop] = [
            loop.create_task(_rounds(), name="rounds", context=contextvars.Context()),
            loop.create_task(_listen(), name="news", context=contextvars.Context()),
            loop.create_task(upkeep.keep_house(), name="upkeep", context=contextvars.Context()),
        ]


async def _rounds() -> None:
    seen: dict[int, tuple[int, str, int]] = {}
    beat_at = time.monotonic() + FIRST_BEAT_AFTER
    while True:
        try:
            await _hear_stops()
            seen = await _wake_readers(seen)
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT_EVERY
                await _beat()
        except Exception:
            # The rounds must outlive whatever one of them met, a database that is away above all.
            log.warning("a round failed; the next is tried in %s s", ROUND_EVERY, exc_info=True)
        await asyncio.sleep(ROUND_EVERY)


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


async def _wake_readers(seen: dict[int, tuple[int, str, int]]) -> dict[int, tuple[int, str, int]]:
    """Readers of a thread with no run here hear of one elsewhere by what its rows say now."""
    waiting = {channel.thread_pk: channel for channel in eventlog.open_channels() if channel.active is None}
    if not waiting:
        return {}
    now = await db.read(_news_of, list(waiting))
    for thread_pk, latest in now.items():
        if seen.get(thread_pk) != latest:
            channel = waiting[thread_pk]
            if channel.live is not None and channel.live.run_pk == latest[0]:
                channel.tell()
            else:
                channel.look_into_rows()  # the thread went on elsewhere
    return now


async def _beat() -> None:
    here = [work.run_pk for work in runner.running_here()]
    if here:
        await db.write(_beat_for, here)
    lost = await db.write(recovery.close_lost_runs)
    if lost:
        log.warning("closed %s lost run(s)", lost)
        for channel in eventlog.open_channels():
            channel.tell()


def _stops_among(run_pks: list[int]) -> list[int]:
    return list(Run.objects.filter(pk__in=run_pks, stop_requested=True).values_list("pk", flat=True))


def _news_of(thread_pks: list[int]) -> dict[int, tuple[int, str, int]]:
    """Thread -> (its newest run, that run's state, that run's last kept event)."""
    newest = Run.objects.filter(thread_id__in=thread_pks).values("thread_id").annotate(newest=Max("pk"))
    runs = Run.objects.filter(pk__in=[row["newest"] for row in newest]).only("pk", "thread_id", "state")
    states = {run.pk: run for run in runs}
    numbers = RunEvent.objects.filter(run_id__in=states).values("run_id").annotate(last=Max("number"))
    last = {row["run_id"]: row["last"] for row in numbers}
    return {run.thread_id: (run.pk, run.state, last.get(run.pk, 0)) for run in states.values()}


def _beat_for(run_pks: list[int]) -> None:
    Run.objects.filter(pk__in=run_pks, owner=recovery.PROCESS).update(heartbeat_at=timezone.now())
