"""Stopping a run from outside, wherever in it somebody waits."""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import suppress
from types import TracebackType


class Aborted(Exception):
    """A wait was ended by an AbortSignal. Stays inside `agent/`."""


class AbortSignal:
    """Stops a run from outside, from any task or thread, as often as one likes: only the first time counts.

    It ends waits that were declared with `interrupts()` and nothing else. So whoever reads the run's events
    is never cancelled, though the run works in the same task between two of them.
    """

    def __init__(self) -> None:
        self._aborted = False
        self._waits: set[_Wait] = set()
        # References that are weak, in a plain list: a WeakSet for one child takes 0.9 KB, and every stream has one.
        self._children: list[weakref.ref[AbortSignal]] = []
        # One that may be taken again by who has it: a signal's handler or a finalizer may abort in the middle of it.
        self._once = threading.RLock()
        self.reason = ""

    @property
    def aborted(self) -> bool:
        return self._aborted

    def abort(self, reason: str = "") -> None:
        with self._once:
            if self._aborted:
                return
            self.reason = reason
            # The flag first, then the waits: one that begins in this very moment sees the flag.
            self._aborted = True
            children = [child for each in self._children if (child := each()) is not None]
        for wait in tuple(self._waits):
            wait.end_soon()
        for child in children:
            child.abort(reason)

    def child(self) -> AbortSignal:
        """A signal that is given with this one, and may be given alone."""
        child = AbortSignal()
        with self._once:
            self._children = [each for each in self._children if each() is not None]
            self._children.append(weakref.ref(child))
            too_late = self._aborted
        if too_late:
            child.abort(self.reason)
        return child

    def interrupts(self) -> _Wait:
        """`with signal.interrupts(): await ...` raises Aborted when the signal is, or was, given."""
        return _Wait(self)

    def check(self) -> None:
        if self._aborted:
            raise Aborted

    async def wait(self) -> None:
        """Returns when the signal is given."""
        with suppress(Aborted), self.interrupts():
            await asyncio.get_running_loop().create_future()


class _Wait:
    """One place that waits. May be entered again and again, since a stream waits for each of its events."""

    __slots__ = ("_before", "_ended", "_signal", "_task")

    def __init__(self, signal: AbortSignal) -> None:
        self._signal = signal

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._before, self._ended = task, task.cancelling(), False
        self._signal._waits.add(self)
        if self._signal._aborted:
            self._signal._waits.discard(self)
            raise Aborted

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signal._waits.discard(self)
        # When somebody else cancelled the task as well, theirs is the one that counts.
        if self._ended and self._task.uncancel() <= self._before:
            raise Aborted from error

    def end_soon(self) -> None:
        # Not at once: the task may be running now (it may be the one that aborts), and a cancellation asked
        # of a running task would hit whatever it waits for next. When the loop gets to this, the task either
        # waits in here or has left.
        self._task.get_loop().call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self in self._signal._waits and not self._ended:
            self._ended = True
            self._task.cancel()
