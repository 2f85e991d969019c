"""What is said in a thread, as readers hear it.

Rule 1: a reader holds a cursor and reads; nobody pushes into a queue that can drop. A reader that is behind gets
more in one batch (events) or simply the newest state (pages), so memory does not depend on how slow it is.
Rule 2: only what may be told is visible. The recorder moves `shown` forward, for a hard event after its commit.
Rule 3: news travel as "something changed in thread T"; if one is lost, the next look finds it all the same.

    Channel        one for each thread somebody here writes or reads; wakes its readers
      LiveRun      the run of this process that is, or was last, active in it: its events, its folded transcript
"""

from __future__ import annotations

import asyncio
import random
import weakref
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace

from agent.events import Event, Terminal
from agent.messages import Transcript
from agent.reducer import apply
from agent.underway import NOTHING, Underway, take
from chatsite.chat import db, draining, kept_log, store
from chatsite.chat.cursors import Cursor
from chatsite.chat.models import Run, Thread
from chatsite.chat.state import InterruptView, RunView, Segment, ThreadState, refilled
from chatsite.watch.counters import Gauge

AT_ONCE = 64
"""Events that one reader gets in one batch: a client that does not read holds no more than that here."""

FOLD_AT_MOST = 2000
"""Events that are folded to find out what one reader saw; one who would cost more gets the whole newest state."""

AT_A_TIME = 5
"""Readers of one thread that are woken in one step of the loop: between two steps everybody else has a turn."""

LOOK_UP = 2.3
"""Most seconds of silence after which a reader looks up: to ask again whether it may still read, to say it is alive.

Whoever may not read any more is cut off within 5 seconds: an answer is good until `stream.Recheck` asks again, and it
can ask only when the reader looks up.
"""


class LiveRun:
    """A run's log in this process. Event number n is `events[n - 1]`."""

    def __init__(self, *, run_pk: int, view: RunView, base: ThreadState, transcript: Transcript) -> None:
        self.run_pk = run_pk
        self.base = base
        self.events: list[Event] = []
        self.shown = 0
        self.transcript = transcript
        self.underway = self._shown_underway = NOTHING
        self._earlier = sum(len(segment.messages) for segment in base.segments)
        self._shown_transcript = transcript
        self._first_view = self._view = view
        self._asked: tuple[InterruptView, ...] = ()
        self._seen = Checkpoints(transcript)

    @property
    def run_id(self) -> str:
        return self._view.id

    @property
    def over(self) -> bool:
        """The terminal event has been told."""
        return self.shown > 0 and isinstance(self.events[self.shown - 1], Terminal)

    def append(self, event: Event) -> None:
        self.events.append(event)
        self.transcript = apply(self.transcript, event)
        self.underway = take(self.underway, event, self.transcript)

    def show(
        self,
        number: int,
        transcript: Transcript,
        view: RunView | None = None,
        asked: tuple[InterruptView, ...] = (),
        underway: Underway = NOTHING,
    ) -> None:
        """Readers may have everything up to `number`; `transcript` and `underway` are the folds up to there.

        At the end `view` says how the run ended, and `asked` what it asks of a person.
        """
        self.shown = number
        self._shown_transcript, self._shown_underway = transcript, underway
        self._seen.note(number, transcript, underway)
        self._view = view or self._view
        self._asked = asked

    def read(self, after: int) -> list[tuple[int, Event]]:
        """The next events behind `after`, at most `AT_ONCE` of them."""
        return list(enumerate(self.events[after : min(self.shown, after + AT_ONCE)], start=after + 1))

    def state(self) -> ThreadState:
        return self._state(self._shown_transcript, self._shown_underway, self._view, self.shown)

    def state_at(self, number: int) -> ThreadState | None:
        """What a reader saw who has read up to `number`; None when that is not known, or costs too much to find out."""
        if number > self.shown:
            return None
        if number == self.shown:
            return self.state()
        begin, transcript, underway = self._seen.before(number)
        if number - begin > FOLD_AT_MOST:
            return None
        for event in self.events[begin:number]:
            transcript = apply(transcript, event)
            underway = take(underway, event, transcript)
        over = number > 0 and isinstance(self.events[number - 1], Terminal)
        return self._state(transcript, underway, self._view if over else self._first_view, number)

    def _state(self, transcript: Transcript, underway: Underway, view: RunView, number: int) -> ThreadState:
        messages = transcript.messages
        segment = Segment(view, messages[self._earlier :], underway)
        asked = self._asked if number == self.shown else ()
        return replace(
            self.base,
            segments=(*refilled(self.base.segments, messages), segment),
            cursor=str(Cursor(self.run_id, number, self.base.branch)),
            interrupts=(*self.base.interrupts, *asked),
        )


class Checkpoints:
    """Some of the transcripts that were shown, so that one in the middle is found without folding the whole log.

    At most `MOST`, which are thinned out: the longer a run is, the farther apart they are.
    """

    MOST = 16

    def __init__(self, first: Transcript) -> None:
        self._apart = 256
        self._kept: list[tuple[int, Transcript, Underway]] = [(0, first, NOTHING)]

    def note(self, number: int, transcript: Transcript, underway: Underway = NOTHING) -> None:
        if number < self._kept[-1][0] + self._apart:
            return
        self._kept.append((number, transcript, underway))
        if len(self._kept) > self.MOST:
            self._kept = self._kept[::2]
            self._apart *= 2

    def before(self, number: int) -> tuple[int, Transcript, Underway]:
        """The last one that was noted at `number` or earlier."""
        return self._kept[bisect_right(self._kept, number, key=lambda each: each[0]) - 1]


class Channel:
    """Wakes the readers of one thread. Belongs to the server's event loop."""

    def __init__(self, thread_pk: int) -> None:
        self.thread_pk = thread_pk
        self.version = 0
        self.begun: int | None = None
        """Key of a run that works here, known before its `live` is: nobody need ask the database for it."""
        self.look_again = False
        """The rows have changed since that run began."""
        self.live: LiveRun | None = None
        self.seen: store.Look | None = None
        """What the rows gave last: readers who see the same share it, and the next look goes on from it."""
        self.readers = 0
        self._asking: list[asyncio.Future[None]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._to_wake: list[asyncio.Future[None]] = []

    def forget_rule(self, tool_name: str) -> None:
        """An "always allow" was taken back: what stands in memory has it no more either."""
        if self.live is not None:
            left = tuple(name for name in self.live.base.always_allowed if name != tool_name)
            self.live.base = replace(self.live.base, always_allowed=left)
        self.tell()

    def retitle(self, title: str) -> None:
        """The thread has another name, also where it stands in memory."""
        if self.live is not None:
            self.live.base = replace(self.live.base, title=title)
        self.tell()

    def look_into_rows(self) -> None:
        """Something changed elsewhere: forget the last run of this process, unless one is at work here, and wake.

        What is at work may have its end in the rows already; then it is forgotten when it has gone (`end`).
        """
        if self.active is None and self.begun is None:
            self.live = None
        else:
            self.look_again = True
        self.tell()

    def end(self, run_pk: int) -> None:
        """The task of that run is over."""
        if self.begun == run_pk:
            self.begun = None
        if self.live is not None and self.live.run_pk == run_pk and (self.look_again or not self.live.over):
            self.live = None  # its end is in the rows, or comes there by `recovery`
        self.tell()

    def tell(self) -> None:
        self.version += 1
        asking, self._asking = self._asking, []
        _set(asking)
        is_waking = bool(self._to_wake)
        waiting, self._waiting = self._waiting, []
        self._to_wake += waiting
        if waiting and not is_waking:
            self._wake()

    def _wake(self) -> None:
        group, self._to_wake = self._to_wake[:AT_A_TIME], self._to_wake[AT_A_TIME:]
        _set(group)
        if self._to_wake:
            asyncio.get_running_loop().call_soon(self._wake)

    async def changed(self, seen: int, *, first: bool = False) -> bool:
        """Wait until the version is another than `seen`. False: nothing happened for about `LOOK_UP` seconds.

        `first`: who asked for the run hears of it before those who only follow.
        """
        if self.version != seen or draining.is_leaving():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._asking if first else self._waiting).append(future)
        try:
            # Not all at the same moment: readers that came together would look up together for ever.
            async with asyncio.timeout(LOOK_UP * random.uniform(0.9, 1)):
                await future
        except TimeoutError:
            return False
        finally:
            if not future.done() or future.cancelled():
                self._asking = [other for other in self._asking if other is not future]
                self._waiting = [other for other in self._waiting if other is not future]
        return True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Counts a reader for as long as it stays: a run whose last reader left may be one nobody wants."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1

    @property
    def active(self) -> LiveRun | None:
        return self.live if self.live is not None and not self.live.over else None


def _set(futures: Iterable[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


_channels: weakref.WeakValueDictionary[int, Channel] = weakref.WeakValueDictionary()


def channel_of(thread_pk: int) -> Channel:
    """The thread's channel in this process. It lives as long as somebody holds it."""
    channel = _channels.get(thread_pk)
    if channel is None:
        channel = _channels[thread_pk] = Channel(thread_pk)
    return channel


def open_channel(thread_pk: int | None) -> Channel | None:
    """The thread's channel, if somebody here reads or writes it."""
    return _channels.get(thread_pk) if thread_pk is not None else None


def open_channels() -> list[Channel]:
    return list(_channels.values())


Gauge(
    "threadloom_readers",
    "Open streams, sockets and long polls of threads.",
    lambda: sum(channel.readers for channel in open_channels()),
)


def wake_all() -> None:
    """Everybody looks up: this process is leaving, or whatever else concerns them all."""
    for channel in open_channels():
        channel.tell()


# -- readers -------------------------------------------------------------------------------------------------


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
