"""Readers of a thread: its events behind a cursor, its state now or as it was, wherever the run is or was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from agent.events import Event, Terminal
from chatsite.chat import db, store
from chatsite.chat.eventlog import Channel, channel_of
from chatsite.chat.models import Run, Thread
from chatsite.chat.process import draining
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.rows import kept_log
from chatsite.chat.runs.liverun import AT_ONCE, FOLD_AT_MOST
from chatsite.chat.state import ThreadState


@dataclass(frozen=True, slots=True)
class Heard:
    """Some events of one run, each with its number. Empty: nothing came for `LOOK_UP` seconds."""

    run_id: str = ""
    events: tuple[tuple[int, Event], ...] = ()

    @property
    def cursor(self) -> Cursor | None:
        return Cursor(self.run_id, self.events[-1][0]) if self.events else None


async def follow_run(
    channel: Channel, run_pk: int, run_id: str, after: int = 0, *, first: bool = False
) -> AsyncIterator[Heard]:
    """A run's events behind `after`, until its terminal one. Wherever the run is: here, elsewhere, long over.

    Like all readers it ends before that when this process leaves. Who was told by a server that died what was never
    kept is told all messages as they were kept.
    """
    with channel.reading():
        while not draining.is_leaving():
            seen = channel.version
            live = channel.live
            if live is not None and live.run_pk == run_pk:
                found = live.read(after)
                over = live.over
            elif channel.begun == run_pk:
                found, over = [], False
            else:
                over = not await db.read(_is_active, run_pk)  # asked first: what ended has its end in the log
                found = await db.read(kept_log.events_after, run_pk, after, at_most=AT_ONCE)
                if found and 0 < after < found[0][0] - 1:
                    told_to_no_avail = await db.read(kept_log.snapshot_in_gap, run_pk, after)
                    found = [(found[0][0] - 1, each) for each in told_to_no_avail] + found
            if found:
                after = found[-1][0]
                yield Heard(run_id, tuple(found))
                if isinstance(found[-1][1], Terminal):
                    return
            elif over and after > await db.read(kept_log.last_number, run_pk):
                after = 0  # a place that this log never had: tell it from the start
            elif over:
                return
            elif not await channel.changed(seen, first=first):
                yield Heard()


async def follow_events(thread: Thread, after: Cursor | None) -> AsyncIterator[Heard]:
    """The thread's events behind a cursor, run after run, for as long as the reader likes.

    Without a cursor (or with one of a run that is not the thread's) it begins with the newest run.
    """
    channel = channel_of(thread.pk)
    with channel.reading():
        run = await db.read(_run_to_follow, thread.pk, after)
        number = (
            after.number if after is not None and run is not None and run.public_id == after.run_id else 0
        )
        while not draining.is_leaving():
            if run is not None:
                async with aclosing(follow_run(channel, run.pk, run.public_id, number)) as batches:
                    async for heard in batches:
                        number = heard.events[-1][0] if heard.events else number
                        yield heard
            seen = channel.version
            following = await db.read(kept_log.next_run, thread.pk, run.pk if run is not None else 0)
            if following is not None:
                run, number = following, 0
            elif not await channel.changed(seen):
                yield Heard()


async def state_now(channel: Channel, thread: Thread) -> ThreadState:
    """From memory while the newest run is one of this process, else from the rows."""
    if channel.live is not None:
        return channel.live.state()
    now = await db.read(_look_at, thread.pk, channel.seen)
    if channel.seen is None or now.state != channel.seen.state:
        channel.seen = now
    return channel.seen.state


async def state_at(channel: Channel, thread: Thread, cursor: Cursor) -> ThreadState | None:
    """What a reader saw who has read up to `cursor`; None when nobody here can tell.

    A run of this process knows it even before its log is kept.
    """
    if channel.live is not None and channel.live.run_id == cursor.run_id:
        same = channel.live.base.branch == cursor.branch
        return channel.live.state_at(cursor.number) if same else None
    state = await db.read(_state_until, thread.pk, cursor)
    return state if state is not None and state.cursor == str(cursor) else None


def _look_at(thread_pk: int, seen: store.Look | None) -> store.Look:
    thread = Thread.objects.get(pk=thread_pk)
    return store.look(thread) if seen is None else store.look_again(thread, seen)


def _state_until(thread_pk: int, cursor: Cursor) -> ThreadState | None:
    """Most readers who come back have read all there is: that state needs no log."""
    thread = Thread.objects.get(pk=thread_pk)
    newest = thread.runs.order_by("-pk").first()
    ended = newest is not None and newest.public_id == cursor.run_id and newest.state not in Run.ACTIVE
    if newest is not None and ended and cursor.number == kept_log.last_number(newest.pk):
        return store.load_state(thread)
    return store.load_state(thread, cursor) if cursor.number <= FOLD_AT_MOST else None


def _is_active(run_pk: int) -> bool:
    return Run.objects.filter(pk=run_pk, state__in=Run.ACTIVE).exists()


def _run_to_follow(thread_pk: int, cursor: Cursor | None) -> Run | None:
    runs = Run.objects.filter(thread_id=thread_pk)
    named = runs.filter(public_id=cursor.run_id).first() if cursor is not None else None
    return named or runs.order_by("-pk").first()
