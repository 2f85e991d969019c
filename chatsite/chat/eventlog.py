"""What is said in a thread, as readers hear it.

Rule 1: a reader holds a cursor and reads; nobody pushes into a queue that can drop. A reader that is behind gets
more in one batch (events) or simply the newest state (pages), so memory does not depend on how slow it is.
Rule 2: only what may be told is visible. The recorder moves `shown` forward, for a hard event after its commit.
Rule 3: news travel as "something changed in thread T"; if one is lost, the next look finds it all the same.

    Channel              one for each thread somebody here writes or reads; wakes its readers
      liverun.LiveRun    the run of this process that is, or was last, active in it: its events, its folded transcript
    following            the readers
"""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from chatsite.chat import store
from chatsite.chat.process import draining
from chatsite.chat.runs.liverun import LiveRun
from chatsite.watch.counters import Gauge

AT_A_TIME = 5
"""Readers of one thread that are woken in one step of the loop: between two steps everybody else has a turn."""

LOOK_UP = 2.3
"""Most seconds of silence after which a reader looks up: to ask again whether it may still read, to say it is alive.

Whoever may not read any more is cut off within 5 seconds: an answer is good until `stream.Recheck` asks again, and it
can ask only when the reader looks up.
"""


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
        self._asking: list[asyncio.Future[bool]] = []
        self._waiting: list[asyncio.Future[bool]] = []
        self._to_wake: list[asyncio.Future[bool]] = []

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
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        (self._asking if first else self._waiting).append(future)
        # Not all at the same moment: readers that came together would look up together for ever.
        timer = loop.call_later(LOOK_UP * random.uniform(0.9, 1), _set, (future,), False)
        happened = False
        try:
            happened = await future
        finally:
            timer.cancel()
            if not happened:  # it is waited for no more: by its time, or because its reader left
                self._asking = [other for other in self._asking if other is not future]
                self._waiting = [other for other in self._waiting if other is not future]
        return happened

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


def _set(futures: Iterable[asyncio.Future[bool]], happened: bool = True) -> None:
    for future in futures:
        if not future.done():
            future.set_result(happened)


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
