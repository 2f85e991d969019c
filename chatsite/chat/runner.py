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
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.db import DatabaseError
from django.db.models import Q

from agent import AbortSignal, RunContext, ToolSpec, run_agent
from agent.approvals import Resolution
from agent.closing import calls_left
from agent.errors import AgentError
from agent.events import RunError, RunStarted
from agent.messages import Message, ToolResultPart, Transcript
from agent.wire.parts import load_parts
from chatsite.chat import db, keeping, policy, questions, recovery, store
from chatsite.chat.actions import Begun
from chatsite.chat.agents import agents
from chatsite.chat.eventlog import Channel, LiveRun, channel_of
from chatsite.chat.keeping import CallChange, RunTaken
from chatsite.chat.models import Run
from chatsite.chat.problems import Problem
from chatsite.chat.recorder import Recorder
from chatsite.chat.state import ThreadState

log = logging.getLogger(__name__)

CLOSE_AGAIN_AFTER = (0.5, 1, 2, 4, 8, 15, 30, 60)
"""Seconds between tries to keep the end of a run that broke."""

BROKE = "The server failed while answering. What you wrote is kept; try again."


@dataclass(slots=True)
class Running:
    run_pk: int
    thread_pk: int
    abort: AbortSignal
    channel: Channel
    task: asyncio.Task[None] | None = None


_running: dict[int, Running] = {}


def running_here() -> list[Running]:
    return list(_running.values())


def start(begun: Begun, user: Any) -> None:
    """Make the task of a run that `actions` began, on the running loop."""
    run, thread = begun.run, begun.thread
    work = Running(run.pk, thread.pk, AbortSignal(), channel_of(thread.pk))
    work.channel.begun = run.pk
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


def stop_thread(thread_pk: int, reason: str = "stopped") -> None:
    """Stop whatever run of the thread is here."""
    for work in running_here():
        if work.thread_pk == thread_pk:
            work.abort.abort(reason)


async def _work(work: Running, begun: Begun, user: Any) -> None:
    run = begun.run
    async with ThreadSensitiveContext():
        try:
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
            if work.channel.begun == run.pk:
                work.channel.begun = None
            if work.channel.active is not None and work.channel.active.run_pk == run.pk:
                work.channel.live = None  # its end is in the rows, or comes there by `recovery`
            work.channel.tell()


async def _close_at_last(run: Run) -> None:
    """The end of a run that broke, as soon as the database takes it; after the last try `recovery` has it."""
    for pause in CLOSE_AGAIN_AFTER:
        try:
            await db.write(recovery.close_run, run.pk, code="internal_error", message=BROKE)
            return
        except DatabaseError as error:
            log.warning("run %s: its end could not be kept: %s", run.public_id, error)
        await asyncio.sleep(pause)


async def _record_run(work: Running, begun: Begun, user: Any) -> None:
    run, thread = begun.run, begun.thread
    opening = await _opening_of(begun)
    earlier = store.transcript_of(opening.before)
    live = LiveRun(
        run_pk=run.pk,
        view=store.view_of(run),
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
    )
    try:
        agent = await agents().agent_for(run.model, opening.client_tools)
    except (AgentError, Problem) as error:
        started = RunStarted(
            thread_id=ctx.thread_id, run_id=ctx.run_id, parent_run_id=ctx.parent_run_id, input=opening.asked
        )
        await recorder.record(started)
        await recorder.record(RunError(message=str(error), code=error.code))
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
            await recorder.record(event)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a run begins with.

    `before` is what stood in its thread, `asked` the user messages it answers, `waiting` the ledger's rows of calls
    that were left open, `resolutions` and `client_results` what has been answered about those.
    """

    before: ThreadState
    asked: tuple[Message, ...] = ()
    parent_id: str | None = None
    client_tools: tuple[ToolSpec, ...] = ()
    waiting: Mapping[str, CallChange] = field(default_factory=dict)
    resolutions: tuple[Resolution, ...] = ()
    client_results: tuple[ToolResultPart, ...] = ()


async def _opening_of(begun: Begun) -> Opening:
    if begun.first is None:
        return await db.read(_opening, begun.run.pk)
    return Opening(
        ThreadState(begun.thread.public_id, begun.thread.title),
        (begun.first,),
        client_tools=_client_tools(begun.run),
    )


def _opening(run_pk: int) -> Opening:
    run = Run.objects.select_related("thread", "parent").get(pk=run_pk)
    state = store.load_state(run.thread)
    before = replace(state, segments=state.segments[:-1], cursor="")
    open_ids = [call.id for call in calls_left(store.transcript_of(before))[0]]
    # Also those of calls within a subagent, which the transcript does not show.
    ours = Q(tool_call_id__in=open_ids) | Q(resumed_by=run)
    answered = list(run.thread.interrupts.filter(ours).exclude(status="open").order_by("pk"))
    return Opening(
        before=before,
        asked=state.segments[-1].messages,
        parent_id=run.parent.public_id if run.parent else None,
        client_tools=_client_tools(run),
        waiting=keeping.known_calls(run.thread_id, {*open_ids, *(row.tool_call_id for row in answered)}),
        resolutions=tuple(map(questions.resolution_of, answered)),
        client_results=tuple(load_parts(run.given.get("clientResults", ()))),
    )


def _client_tools(run: Run) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(**spec) for spec in run.given.get("clientTools", ()))
