"""Runs as a killed process leaves them: their kept log, no end, an owner that lives no more."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from typing import Any

from django.db.models import F

from agent.providers.scripted import ScriptedProvider, Turn
from chatsite.chat import commands, db, runner
from chatsite.chat.commands.acting import Done
from chatsite.chat.commands.values import Send
from chatsite.chat.models import Run
from chatsite.chat.process.heartbeat import MACHINE
from chatsite.chat.rows import kept_log
from tests.chat.conftest import until


def dead_owner() -> str:
    process = subprocess.Popen(["true"])
    process.wait()
    return f"{MACHINE}:{process.pid}:x"


async def kill(run: Run) -> None:
    """As after `kill -9` and a start: nothing of the run is in memory, and its owner is a process that is gone."""
    for work in runner.running_here():
        if work.run_pk == run.pk:
            work.task.cancel()
            await asyncio.gather(work.task, return_exceptions=True)
    owner = dead_owner()
    await db.write(lambda: Run.objects.filter(pk=run.pk).update(owner=owner, beat=F("beat") + 1))


async def all_kept(run: Run) -> None:
    """What was told is kept within 250 ms."""
    [work] = [work for work in runner.running_here() if work.run_pk == run.pk]
    await until(lambda: work.channel.active and work.channel.active.shown)
    async with asyncio.timeout(20):
        live = work.channel.active
        while await db.read(kept_log.last_number, run.pk) < live.shown:  # noqa: ASYNC110 (it is in the rows)
            await asyncio.sleep(0.01)


async def killed_in_mid_answer(
    person: Any, plays: Any, *turns: Turn, then: Any = (), door: str = "page", given: Any = None
) -> tuple[Done, ScriptedProvider]:
    """Killed in front of the last delta of the last of these turns; `then` is played by whoever comes next."""
    held = asyncio.Event()
    last = replace(turns[-1], delta_size=4, gate=asyncio.Event(), held=held)
    provider = plays(*turns[:-1], last, *then)
    done = await commands.begin_thread(person, Send(text="Hello?"), door=door, given=given)
    async with asyncio.timeout(20):
        await held.wait()
    await all_kept(done.run)
    await kill(done.run)
    return done, provider
