"""A thread's log as Server-Sent Events: JSON for programs, HTML for the page. One frame a batch, never one a token.

    format=json     `id: <cursor>` + the AG-UI event, one frame an event
    format=html     `id: <cursor>` + the fragments that bring the page to the thread's newest state

A reader that is behind gets the newest state (html) or a longer batch (json): nothing is queued for it here.
A server that goes ends the stream, and says in `retry` when to come back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from django.db import DatabaseError

from agent.events import Event
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


PIECE = 8 * 1024
"""Bytes after which frames that are there together go out in another write."""

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
            if not heard.events:
                yield None
            for frame in in_pieces(
                encode_sse(encode_event_json(event), id=str(Cursor(heard.run_id, number)))
                for number, event in heard.events
            ):
                yield frame
    yield b"retry: %d\n\n" % draining.back_after_ms()


def in_pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """The frames, several at once as long as that is little: what is not taken is all that is held for a reader."""
    piece: list[bytes] = []
    size = 0
    for frame in frames:
        piece.append(frame)
        size += len(frame)
        if size >= PIECE:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def numbered_json(run_id: str, number: int, event: Event) -> str:
    """An event with its cursor, where no frame has a place for it."""
    return f'{{"cursor":{json.dumps(str(Cursor(run_id, number)))},"event":{encode_event_json(event)}}}'


@dataclass(frozen=True, slots=True)
class Change:
    """Fragments that bring a page to the state behind `cursor`."""

    html: str
    cursor: str


async def html_frames(thread: Thread, after: Cursor | None) -> Frames:
    # By this event a page learns that its stream gets through.
    yield b"event: loom:here\ndata:\n\n"
    async with aclosing(html_changes(thread, after)) as changes:
        async for change in changes:
            yield encode_sse(change.html, id=change.cursor) if change is not None else None
    # As an event: htmx looks at `retry` only where there is one.
    yield b"event: loom:restart\nretry: %d\ndata:\n\n" % draining.back_after_ms()


async def html_changes(thread: Thread, after: Cursor | None) -> AsyncIterator[Change | None]:
    """What changes for a page that shows the state at `after`. None: nothing came, look up."""
    channel = eventlog.channel_of(thread.pk)
    shown: ThreadState | None = None
    writer: FragmentWriter | None = None
    told_at = 0.0
    async with aclosing(eventlog.follow_states(thread)) as states:
        async for state in states:
            if state is None:
                # The time to answer a question may have run out: nobody says so, but the page shows it.
                html = writer.update(shown) if writer and shown and shown.open_interrupts else ""
                yield Change(html, shown.cursor) if shown and html else None
                continue
            if shown is None and after is not None:
                if state.cursor == str(after):
                    shown = state  # as most who come back: rendered only once something changes
                    writer = FragmentWriter(state) if state.open_interrupts else None
                    continue
                shown = await eventlog.state_at(channel, thread, after)
            if shown is None:
                html = render_full(state)
            else:
                writer = writer or FragmentWriter(shown)
                html = writer.update(state)
            shown = state
            if state.open_interrupts:
                writer = writer or FragmentWriter(state)
            if html:
                yield Change(html, state.cursor)
            pause = FRAME_EVERY - (time.monotonic() - told_at)
            if pause > 0 and state.active_run is not None:
                await asyncio.sleep(pause)
            told_at = time.monotonic()
