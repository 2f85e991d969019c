"""A thread's log as Server-Sent Events: JSON for programs, HTML for the page. One frame a batch, never one a token.

    format=json     `id: <cursor>` + the AG-UI event, one frame an event
    format=html     `id: <cursor>` + the fragments that bring the page to the thread's newest state

A reader that is behind gets the newest state (html) or a longer batch (json): nothing is queued for it here.
A server that goes ends the stream, and says in `retry` when to come back.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import aclosing

from django.db import DatabaseError

from agent.wire.agui import encode_event_json
from agent.wire.sse import encode_sse
from chatsite.chat import access, db, draining, eventlog
from chatsite.chat.access import Credential
from chatsite.chat.models import Thread
from chatsite.chat.render.fragments import FragmentWriter, render_full
from chatsite.chat.state import ThreadState
from chatsite.chat.store import Cursor

log = logging.getLogger(__name__)

ALIVE = b": keep-alive\n\n"
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}

FRAME_EVERY = 0.2
"""Seconds between two frames for a page: people do not read faster, and each costs a layout."""


HEARTBEAT = 15.0
"""Seconds of silence after which a connection gets a sign of life."""

Frames = AsyncIterator[bytes | None]
"""Frames of a stream; None: nothing came, look up."""


class Recheck:
    """Asks every few seconds whether who opened a stream may still read it."""

    def __init__(self, credential: Credential, thread_id: str) -> None:
        self._credential, self._thread_id = credential, thread_id
        self._due = _soon()

    async def holds(self) -> bool:
        if time.monotonic() < self._due:
            return True
        self._due = _soon()
        try:
            return await db.read(access.may_still_read, self._credential, self._thread_id)
        except DatabaseError as error:
            # Asked again in a moment; a database that is away lets nobody in either.
            log.warning("an open stream could not be checked: %s", error)
            return True


def _soon() -> float:
    """Within `LOOK_UP`, and not with everybody else: streams that began together would ask together for ever."""
    return time.monotonic() + eventlog.LOOK_UP * random.uniform(0.4, 1)


async def guarded(frames: Frames, recheck: Recheck) -> AsyncIterator[bytes]:
    """The frames, with a sign of life in long silences, for as long as the reader may have them."""
    told_at = time.monotonic()
    async with aclosing(frames):  # type: ignore[type-var]
        async for frame in frames:
            if not await recheck.holds():
                return
            if frame is None and time.monotonic() - told_at < HEARTBEAT:
                continue
            told_at = time.monotonic()
            yield frame or ALIVE


async def json_frames(thread: Thread, after: Cursor | None) -> Frames:
    # The head goes out with the first bytes, so a proxy and a client know at once that the stream stands.
    yield ALIVE
    async with aclosing(eventlog.follow_events(thread, after)) as batches:
        async for heard in batches:
            yield (
                b"".join(
                    encode_sse(encode_event_json(event), id=str(Cursor(heard.run_id, number)))
                    for number, event in heard.events
                )
                or None
            )
    yield b"retry: %d\n\n" % draining.back_after_ms()


async def html_frames(thread: Thread, after: Cursor | None) -> AsyncIterator[bytes]:
    yield ALIVE
    channel = eventlog.channel_of(thread.pk)
    before = await eventlog.state_at(channel, thread, after) if after is not None else None
    writer = FragmentWriter(before) if before is not None else None
    told_at = 0.0
    async with aclosing(eventlog.follow_states(thread)) as states:
        async for state in states:
            if state is None:
                yield None
                continue
            html, writer = _fragments(writer, state)
            if html:
                yield encode_sse(html, id=state.cursor)
            pause = FRAME_EVERY - (time.monotonic() - told_at)
            if pause > 0 and state.active_run is not None:
                await asyncio.sleep(pause)
            told_at = time.monotonic()
    # As an event: htmx looks at `retry` only where there is one.
    yield b"event: restart\nretry: %d\ndata:\n\n" % draining.back_after_ms()


def _fragments(writer: FragmentWriter | None, state: ThreadState) -> tuple[str, FragmentWriter]:
    """What brings the page from where the writer left it to `state`; all of it for a page nobody knows."""
    if writer is None:
        return render_full(state), FragmentWriter(state)
    return writer.update(state), writer
