"""How a process goes when it is told to (SIGTERM, Ctrl+C), whichever server runs it.

    1  nothing begins any more (`draining`)
    2  runs at work get some seconds; readers hear them to the end
    3  what still runs is cut off in good order: its model's connection closed, all that was told kept, its heartbeat
       given up, so that the next process takes it up at once. It gets no terminal event: it has not ended
    4  readers are sent away: whoever follows comes back with its cursor
    5  tool servers are taken leave of, and their commands end: they may need as long as the process has left

A second signal (`hurry`) skips what is left of 2.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from django.db import DatabaseError

from chatsite.chat import db, eventlog, recovery, runner
from chatsite.chat.process import draining
from chatsite.chat.tools import remote

log = logging.getLogger(__name__)

LOOK_EVERY = 0.05
CUT_OFF_WITHIN = 8.0
"""Seconds for what was told to be kept, also by a database that is slow just now."""
READERS_GONE_WITHIN = 1.0


async def depart(seconds: float, hurry: asyncio.Event) -> None:
    """All of it. Returns when the server may end; bounded, whatever hangs."""
    draining.drain()
    if at_work := len(runner.running_here()):
        log.info("stopping: %s at work, up to %g s for it; once more ends it at once", at_work, seconds)
    await _wait_for_runs(seconds, hurry)
    await _cut_off()
    draining.leave()
    eventlog.wake_all()
    await _until(
        lambda: not any(channel.readers for channel in eventlog.open_channels()), READERS_GONE_WITHIN
    )
    remote.leave()


async def _wait_for_runs(seconds: float, hurry: asyncio.Event) -> None:
    await _until(
        lambda: hurry.is_set() or not (runner.running_here() or draining.begins_now()),
        max(seconds, LOOK_EVERY),
    )


async def _cut_off() -> None:
    left = runner.running_here()
    if not left:
        return
    tasks = [work.task for work in left if work.task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=CUT_OFF_WITHIN)
    try:
        async with asyncio.timeout(CUT_OFF_WITHIN):
            await db.write(recovery.give_up, [work.run_pk for work in left])
    except (DatabaseError, TimeoutError) as error:
        log.warning("%s run(s) keep their heartbeat, so they are found later: %s", len(left), error)
    log.info("left %s run(s) for the next process", len(left))


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - many things
        await asyncio.sleep(LOOK_EVERY)
