"""Whether this process still takes runs, and still keeps readers: what its doors and readers look at.

    serving     runs begin, readers stay
    draining    nothing begins any more (`Restarting` at every door); what is at work goes on, and is read
    leaving     readers are told to come back elsewhere; the process is about to end

`departure` moves it forward, never back.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from chatsite.chat.problems import Restarting

BACK_WITHIN_MS = (500, 3000)
"""When readers who are sent away come back: not at once, and not all together."""


class _Stage:
    draining = False
    leaving = False
    beginning = 0


_stage = _Stage()


def drain() -> None:
    _stage.draining = True


def leave() -> None:
    _stage.draining = _stage.leaving = True


def serve() -> None:
    """As at the start. Only a process of several servers one after the other needs it: the tests'."""
    _stage.draining = _stage.leaving = False


def is_draining() -> bool:
    return _stage.draining


def is_leaving() -> bool:
    return _stage.leaving


@contextmanager
def beginning() -> Iterator[None]:
    """Around whatever begins a run, from the first write until its task is made. Raises Restarting."""
    if _stage.draining:
        raise Restarting
    _stage.beginning += 1
    try:
        yield
    finally:
        _stage.beginning -= 1


def begins_now() -> bool:
    """A run is just being begun that nobody can see yet."""
    return _stage.beginning > 0


def back_after_ms() -> int:
    """Milliseconds until one reader may come back."""
    return random.randint(*BACK_WITHIN_MS)
