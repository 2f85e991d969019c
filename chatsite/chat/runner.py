"""Runs as tasks of their own.

Rule: a run belongs to its thread, never to the request or socket that asked for it. `start` returns at once; the
task has a fresh context (a request's executor is dead once its response is out), and this module holds it.

A task that is cancelled without a stop (the server goes down) writes no end: its heartbeat ends, and `recovery`
finds the run.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.db import DatabaseError

from agent import AbortSignal, Provider, RunContext, run_agent
from agent.abort import Aborted
from agent.closing import closing_answers
from agent.errors import AgentError
from agent.events import Event, RunError, RunStarted
from agent.messages import Transcript
from agent.result_events import result_event
from chatsite.chat import db, store
from chatsite.chat.actions.starting import Begun
from chatsite.chat.agents import agents
from chatsite.chat.conf import setting
from chatsite.chat.eventlog import Channel, channel_of
from chatsite.chat.files.attaching import Attaching
from chatsite.chat.limits import allowance, metering, policy
from chatsite.chat.models import Run
from chatsite.chat.problems import Problem
from chatsite.chat.rows import values
from chatsite.chat.runs import titles, unfinished
from chatsite.chat.runs.keeping import RunTaken
from chatsite.chat.runs.liverun import LiveRun
from chatsite.chat.runs.opening import Opening, opening_of
from chatsite.chat.runs.recorder import Recorder
from chatsite.chat.runs.requests import Noting
from chatsite.watch import ids
from chatsite.watch.counters import Gauge

log = logging.getLogger(__name__)

CLOSE_AGAIN_AFTER = (0.5, 1, 2, 4, 8, 15, 30, 60)
"""Seconds between tries to keep the end of a run that broke."""

CONTINUED_AT_ONCE = 50
"""Runs of this process that go on by themselves with lost ones; further ones wait for their turn."""

_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()

BROKE = "The server failed while answering. What you wrote is kept; try again."


@dataclass(slots=True)
class Running:
    run_pk: int
    run_id: str
    thread_pk: int
    abort: AbortSignal
    channel: Channel
    task: asyncio.Task[None] | None = None


_running: dict[int, Running] = {}

Gauge("threadloom_runs_at_work", "Runs that this process works on.", lambda: len(_running))


def running_here() -> list[Running]:
    return list(_running.values())


def start(begun: Begun, user: Any) -> None:
    """Make the task of a run that `actions` began, on the running loop."""
    run, thread = begun.run, begun.thread
    work = Running(run.pk, run.public_id, thread.pk, AbortSignal(), channel_of(thread.pk))
    work.channel.begun, work.channel.look_again = run.pk, False
    _running[run.pk] = work
    loop = asyncio.get_running_loop()
    work.task = loop.create_task(
        _work(work, begun, user), name=f"run {run.public_id}", context=contextvars.Context()
    )
    work.task.add_done_callback(lambda _: _running.pop(run.pk, None))


def is_here(run_pk: int) -> bool:
    return run_pk in _running


def stop(run_pk: int, reason: str = "stopped") -> bool:
    """Stop a run of this process. False when it does not run here."""
    work = _running.get(run_pk)
    if work is None:
        return False
    work.abort.abort(reason)
    return True


def stop_thread(thread_pk: int, reason: str = "stopped", *, run_id: str | None = None) -> int | None:
    """Stop the run of the thread that is here (the one of that id, if it is given); its key."""
    for work in running_here():
        if work.thread_pk == thread_pk and run_id in (None, work.run_id):
            work.abort.abort(reason)
            return work.run_pk
    return None


async def _work(work: Running, begun: Begun, user: Any) -> None:
    run = begun.run
    ids.begin_run(run.public_id, begun.thread.public_id)
    async with ThreadSensitiveContext():
        try:
            if run.state == Run.State.QUEUED:
                async with _turn_of(work):
                    await _take_up(run)
                    await _record_run(work, begun, user)
            else:
                await _record_run(work, begun, user)
        except asyncio.CancelledError:
            log.info("run %s: left unfinished, the server goes down", run.public_id)
            raise
        except RunTaken:
            log.warning(
                "run %s: was closed by another process meanwhile; nothing more is written", run.public_id
            )
        except Exception:
            # Whatever broke, nobody may wait for ever: the run gets its end as soon as the database takes it.
            log.exception("run %s: broke outside the loop", run.public_id)
            await _close_at_last(run)
        finally:
            work.channel.end(run.pk)


@asynccontextmanager
async def _turn_of(work: Running) -> AsyncIterator[None]:
    """Wait until fewer than `CONTINUED_AT_ONCE` others are at work; whoever is stopped waits no longer."""
    turns = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(CONTINUED_AT_ONCE))
    waited = False
    with suppress(Aborted), work.abort.interrupts():
        waited = await turns.acquire()
    try:
        yield
    finally:
        if waited:
            turns.release()


async def _take_up(run: Run) -> None:
    """From here on the run has begun. Raises RunTaken when another process took it over while it waited."""
    if not await db.write(_is_ours_to_begin, run):
        raise RunTaken(run.pk)
    run.state = Run.State.RUNNING


def _is_ours_to_begin(run: Run) -> bool:
    queued = Run.objects.filter(pk=run.pk, state=Run.State.QUEUED, owner=run.owner)
    return bool(queued.update(state=Run.State.RUNNING))


async def _close_at_last(run: Run) -> None:
    """The end of a run that broke, as soon as the database takes it; after the last try `recovery` has it."""
    for pause in CLOSE_AGAIN_AFTER:
        try:
            await db.write(unfinished.close_run, run.pk, code="internal_error", message=BROKE)
            return
        except DatabaseError as error:
            log.warning("run %s: its end could not be kept: %s", run.public_id, error)
        await asyncio.sleep(pause)


async def _record_run(work: Running, begun: Begun, user: Any) -> None:
    run, thread = begun.run, begun.thread
    opening = await opening_of(begun)
    earlier = store.transcript_of(opening.before)
    live = LiveRun(
        run_pk=run.pk,
        view=values.view_of(run),
        base=opening.before,
        transcript=Transcript(earlier.messages + opening.asked),
    )
    recorder = Recorder(
        live=live, channel=work.channel, run=run, head=thread.head_id, waiting=opening.waiting
    )
    work.channel.live = live
    work.channel.tell()
    try:
        await _say_all(work, begun, recorder, earlier, opening, user)
    finally:
        await recorder.close()
    titles.name_soon(thread, user, run.model, live.transcript)


async def _say_all(
    work: Running, begun: Begun, recorder: Recorder, earlier: Transcript, opening: Opening, user: Any
) -> None:
    run, thread = begun.run, begun.thread
    ctx = RunContext(
        thread_id=thread.public_id,
        run_id=run.public_id,
        parent_run_id=opening.parent_id,
        user=user,
        abort=work.abort,
        on_claim=recorder.claim,
        policy=policy.of_thread(user, thread.pk),
        before=opening.before_run,
    )
    try:
        allowed = await allowance.of(user)
        agent = await agents().agent_for(
            run.model, opening.client_tools, opening.choices, allowed, work.abort
        )
        agent = replace(agent, provider=_noted(Attaching(agent.provider, thread), recorder))
        if metering.is_metered(run):
            agent = metering.metered(agent, run, user)
    except (AgentError, Problem) as error:
        for event in _without_agent(ctx, earlier, opening, error):
            await recorder.record(_marked(event, run))
        return
    told = run_agent(
        agent,
        earlier,
        ctx,
        input=opening.asked,
        resolutions=opening.resolutions,
        client_results=opening.client_results,
    )
    async with aclosing(told) as events:
        async for event in events:
            await recorder.record(event if event.__class__ is not RunStarted else _marked(event, run))


def _noted(provider: Provider, recorder: Recorder) -> Provider:
    if not setting("KEEP_REQUESTS"):
        return provider
    return Noting(
        provider,
        branch=lambda: recorder.live.transcript,
        number=lambda: recorder.turns,
        note=recorder.note,
    )


def _without_agent(
    ctx: RunContext, earlier: Transcript, opening: Opening, error: Exception
) -> Iterator[Event]:
    """All there is to say of a run whose model is gone. What an earlier run left to it has its result all the same."""
    yield RunStarted(
        thread_id=ctx.thread_id, run_id=ctx.run_id, parent_run_id=ctx.parent_run_id, input=opening.asked
    )
    if not opening.asked:
        for result in closing_answers(earlier, "aborted", ctx.before.begun_calls):
            yield result_event(result, ctx)
    yield RunError(message=str(error), code=getattr(error, "code", None))


def _marked(event: Event, run: Run) -> Event:
    """The beginning of a run that goes on with a lost one says so."""
    if not run.continuation or not isinstance(event, RunStarted):
        return event
    return replace(event, metadata={**(event.metadata or {}), "continuation": run.continuation})
