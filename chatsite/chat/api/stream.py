"""A run's events for a program, and what its leaving means.

Closing the connection is these clients' only Stop: when nobody else reads the thread within `GRACE` seconds the
run is stopped, unless `forwardedProps.onDisconnect` is `continue` or the run was begun from the page. A new message
in that time is not made to wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Container
from contextlib import aclosing

from django.db import DatabaseError

from agent.events import Event, RunError, RunStarted, Terminal, ToolCallResult
from agent.wire.agui import RunInput, encode_event_json, load_parts
from agent.wire.sse import encode_sse
from chatsite.chat import actions, db, eventlog, runner
from chatsite.chat.api.exchange import DOOR, Asked, Reply
from chatsite.chat.models import Run, Thread
from chatsite.chat.problems import Unanswerable
from chatsite.chat.process import draining, news
from chatsite.chat.readers import cursors, following
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.readers.stream import HEADERS, Frames, Recheck, guarded, in_pieces

log = logging.getLogger(__name__)

GRACE = 2.0
NOTICED = 0.2
"""Seconds in which a client's leaving is noticed: its next request may come on another connection, and be faster."""
STOPPED = 2.0
"""Seconds in which a run that is stopped has its end."""
CONTINUE = "continue"


def stream_of(thread: Thread, run: Run, asked: Asked) -> Reply:
    after = cursors.parse_cursor(asked.headers.get("last-event-id", ""))
    number = after.number if after is not None and after.run_id == run.public_id else 0
    frames = guarded(_events_of(thread, run, number), Recheck(asked.credential, thread.public_id))
    return Reply(200, frames, HEADERS)


async def refused_run(wanted: RunInput, problem: Unanswerable) -> AsyncIterator[bytes]:
    started = RunStarted(thread_id=wanted.thread_id, run_id=wanted.run_id, parent_run_id=wanted.parent_run_id)
    for event in (started, RunError(message=str(problem), code=problem.code)):
        yield encode_sse(encode_event_json(event))


async def _events_of(thread: Thread, run: Run, after: int) -> Frames:
    channel = eventlog.channel_of(thread.pk)
    stays = run.door != DOOR or run.given.get("onDisconnect") == CONTINUE
    brought = {part.tool_call_id for part in load_parts(run.given.get("clientResults", ()))}
    finished = over = False
    try:
        async with aclosing(
            following.follow_run(channel, run.pk, run.public_id, after, first=True)
        ) as batches:
            async for heard in batches:
                if not heard.events:
                    yield None
                for frame in in_pieces(
                    encode_sse(
                        encode_event_json(event, echo_input=False), id=str(Cursor(run.public_id, number))
                    )
                    for number, event in heard.events
                    if not _is_brought(event, brought)
                ):
                    yield frame
                over = bool(heard.events) and isinstance(heard.events[-1][1], Terminal)
        if draining.is_leaving() and not over:
            # These clients take a stream that merely ends for a run that went well: the server's end cuts it.
            await asyncio.Event().wait()
        finished = True
    finally:
        if not finished and not stays and not draining.is_leaving():
            task = asyncio.ensure_future(stop_if_alone(channel, thread, run))
            _leaving[task] = run.pk
            task.add_done_callback(_leaving.pop)


def _is_brought(event: Event, brought: Container[str]) -> bool:
    """A result that came with the run's own request. Its client has it, and AG-UI's would have it twice."""
    return isinstance(event, ToolCallResult) and event.tool_call_id in brought


_leaving: dict[asyncio.Task[None], int] = {}
"""Keys of runs whose reader went away just now, by the task that waits whether it comes back."""


async def stop_if_alone(channel: eventlog.Channel, thread: Thread, run: Run) -> None:
    await asyncio.sleep(GRACE)
    if channel.readers > 0 or runner.stop(run.pk, "the client went away"):
        return
    # It runs in another process, if it runs.
    try:
        # This one, and not whatever its thread does by now.
        await db.write(actions.request_stop, thread=thread, run_pk=run.pk)
    except DatabaseError as error:
        log.warning("run %s: nobody reads it, and it could not be stopped: %s", run.public_id, error)
    news.stop_run(run.pk)


async def stop_what_was_left(thread: Thread) -> bool:
    """Stop the thread's run if nobody reads it any more; True when it is over.

    Whoever stopped it did so by leaving, and asks for something else now.
    """
    channel = eventlog.channel_of(thread.pk)
    for _ in range(10):
        left = [work for work in runner.running_here() if work.run_pk in _leaving.values()]
        tasks = [work.task for work in left if work.thread_pk == thread.pk and work.task is not None]
        if tasks and channel.readers == 0:
            runner.stop_thread(thread.pk, "the client went away")
            await asyncio.wait(tasks, timeout=STOPPED)
            return all(task.done() for task in tasks)
        await asyncio.sleep(NOTICED / 10)
    return False
