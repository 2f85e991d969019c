"""A thread's log as Server-Sent Events: JSON for programs, HTML for the page. One frame a batch, never one a token.

    format=json     `id: <cursor>` + the AG-UI event, one frame an event
    format=html     `id: <cursor>` + the fragments that bring the page to the thread's newest state

A reader that is behind gets the newest state (html) or a longer batch (json): nothing is queued for it here.
A server that goes ends the stream, and says in `retry` when to come back.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

from django.db import DatabaseError

from agent.events import Event
from agent.wire.agui import encode_event_json
from agent.wire.sse import encode_sse
from chatsite.chat import access, db, eventlog
from chatsite.chat.access import Credential
from chatsite.chat.models import Thread
from chatsite.chat.process import draining
from chatsite.chat.readers import following
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.readers.screens import Change, Place, Screen, screen_of

T = TypeVar("T", str, bytes)

log = logging.getLogger(__name__)

ALIVE = b": keep-alive\n\n"
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}

PIECE = 8 * 1024
"""Bytes after which frames that are there together go out in another write."""

HEARTBEAT = 15.0
"""Most seconds of silence on a connection: before the look-up behind which it would be longer, a sign of life."""

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
    """Behind one look-up and before the second: 1.1 and the 1 until the next look-up are 5 seconds at most."""
    return time.monotonic() + eventlog.LOOK_UP * random.uniform(0.8, 1.1)


async def guarded(frames: Frames, recheck: Recheck) -> AsyncIterator[bytes]:
    """The frames, with a sign of life in long silences, for as long as the reader may have them."""
    told_at = time.monotonic()
    async with aclosing(frames):
        async for frame in frames:
            if not await recheck.holds():
                return
            if frame is None and time.monotonic() + eventlog.LOOK_UP - told_at < HEARTBEAT:
                continue
            told_at = time.monotonic()
            yield frame or ALIVE


async def json_frames(thread: Thread, after: Cursor | None) -> Frames:
    # The head goes out with the first bytes, so a proxy and a client know at once that the stream stands.
    yield ALIVE
    async with aclosing(following.follow_events(thread, after)) as batches:
        async for heard in batches:
            if not heard.events:
                yield None
            for frame in in_pieces(
                _shared(event, _as_frame, heard.run_id, number) for number, event in heard.events
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
    return _shared(event, _as_json, run_id, number)


def _as_frame(event: Event, run_id: str, number: int) -> bytes:
    return encode_sse(encode_event_json(event), id=str(Cursor(run_id, number)))


def _as_json(event: Event, run_id: str, number: int) -> str:
    return f'{{"cursor":{json.dumps(str(Cursor(run_id, number)))},"event":{encode_event_json(event)}}}'


MOST_SHARED = 256
"""Events whose text is kept for the other readers of their thread, who ask for it within the same moment."""

_told: dict[tuple[int, Callable[..., Any]], tuple[Event, Any]] = {}


def _shared(event: Event, encode: Callable[[Event, str, int], T], run_id: str, number: int) -> T:
    """`encode(event, run_id, number)`, once for all who follow the run in this process: they hear the same object."""
    key = (id(event), encode)
    known = _told.get(key)
    if known is not None and known[0] is event:
        return known[1]
    text = encode(event, run_id, number)
    if len(text) <= PIECE:
        if len(_told) >= MOST_SHARED:
            _told.clear()
        _told[key] = (event, text)
    return text


def html_frames(thread: Thread, after: Cursor | None) -> Frames:
    """In the language that is spoken now: a frame is asked for later, when the request is over for Django."""
    return _as_frames(html_changes(thread, after, opened=True))


async def _as_frames(told: AsyncIterator[Change | None]) -> Frames:
    # By this event a page learns that its stream gets through.
    yield b"event: loom:here\ndata:\n\n"
    async with aclosing(told) as changes:
        async for change in changes:
            if change is None:
                yield None
                continue
            for begin in range(0, len(change.frame), PIECE):
                yield change.frame[begin : begin + PIECE]
    # As an event: htmx looks at `retry` only where there is one.
    yield b"event: loom:restart\nretry: %d\ndata:\n\n" % draining.back_after_ms()


def html_changes(
    thread: Thread, after: Cursor | None, *, opened: bool = False
) -> AsyncIterator[Change | None]:
    """What changes for a page that shows the state at `after`. None: nothing came, look up.

    `opened`: it stays, and is told the thread's name at first, too.
    """
    return _changes(screen_of(thread), eventlog.channel_of(thread.pk), after, opened)


async def _changes(
    screen: Screen, channel: eventlog.Channel, after: Cursor | None, opened: bool
) -> AsyncIterator[Change | None]:
    with channel.reading():
        place: Place | None = None
        while not draining.is_leaving():
            seen = channel.version
            if place is None:
                place, first = await screen.come(after)
                if first is None and opened:
                    first = screen.named(place)
                changes = [] if first is None else [first]
            else:
                place, changes = await screen.go_on(place)
            for change in changes:
                yield change
            while not await channel.changed(seen):
                yield None
                place, changes = await screen.wait_on(place)
                for change in changes:
                    yield change
