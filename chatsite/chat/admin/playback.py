"""How far a run was replayed, so that the next step reads what is new and no more.

Rule 1: a step forward reads the log from the last place on, a step back goes on from a place in front of it. Only the
first look reads all of it, and the first in each process, or after `KEPT_FOR`.
Rule 2: what is kept here asks nobody who may see it: whoever calls has asked (`adminkit.reading`).
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock

from agent.messages import Transcript
from agent.underway import NOTHING
from chatsite.chat import store
from chatsite.chat.models import Message, Run, RunEvent
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.rows import kept_log, packing, values
from chatsite.chat.state import Segment, ThreadState
from chatsite.chat.store import Look, Played

MOST_RUNS = 4
MOST_PLACES = 16
"""Places of one run from which it can go on."""
KEPT_FOR = 300.0


@dataclass(frozen=True, slots=True)
class Moment:
    number: int
    type: str
    ms: int
    """Since the run began."""

    @property
    def since(self) -> str:
        return f"{self.ms / 1000:+.3f} s"


class Playback:
    """One run. `moments` are all that its log has; they grow with it."""

    def __init__(self, run: Run) -> None:
        self.log = run.log
        self.until = time.monotonic() + KEPT_FOR
        self.moments: list[Moment] = []
        self._start = _start_of(run)
        self._places: list[Played] = []

    def look(self, run: Run) -> None:
        """Read which moments there are, behind those that are known."""
        began = round(run.created_at.timestamp() * 1000)
        last = self.moments[-1] if self.moments else None
        rows = RunEvent.objects.filter(run=run, number__gt=last.number if last else 0).order_by("number")
        for row in rows.iterator():
            for number, at in _marks(row):
                # Where no time is known, it was not before the event in front of it.
                ms = max(at - began if at is not None else 0, last.ms if last else 0)
                if last is None or number > last.number:
                    last = Moment(number, row.type, ms)
                    self.moments.append(last)

    def at(self, run: Run, number: int) -> ThreadState:
        """What a reader saw of this run behind that event."""
        assert self._start.played is not None
        place = bisect_right(self._places, number, key=lambda each: each.number)
        before = self._places[place - 1] if place else self._start.played
        played = before
        if before.number < number:
            played = store.play_on(run, before, kept_log.events_after(run.pk, before.number, number))
            self._places.insert(place, played)
            if len(self._places) > MOST_PLACES:
                del self._places[0 if place > MOST_PLACES // 2 else -1]
        earlier = sum(len(segment.messages) for segment in self._start.state.segments[:-1])
        return replace(self._start.state, segments=(store.segment_of(replace(played, run=run), earlier),))


_kept: OrderedDict[tuple[int, str], Playback] = OrderedDict()
_lock = Lock()


@contextmanager
def playback_of(run: Run) -> Iterator[Playback]:
    """The run as far as it was read before, with what its log has now. Nobody else has it meanwhile."""
    key = run.pk, run.public_id
    with _lock:
        found = _kept.pop(key, None)
    if found is None or found.log != run.log or found.until < time.monotonic():
        found = Playback(run)
    found.look(run)
    yield found
    with _lock:
        _kept[key] = found
        while len(_kept) > MOST_RUNS:
            _kept.popitem(last=False)


def _start_of(run: Run) -> Look:
    """What its reader saw before its first event, on its own branch, whichever the thread shows now."""
    thread = run.thread
    thread.head_id = _end_of(run)
    found = store.look(thread, Cursor(run.public_id, 0))
    if found.played is not None:
        return found
    state = replace(found.state, segments=(Segment(values.view_of(run), ()),))
    return Look(state, (run.pk,), Played(run, 0, Transcript(), NOTHING))


def _end_of(run: Run) -> int | None:
    """The last of its messages on their branch, where a result may stand in front of older ones."""
    own = dict(Message.objects.filter(run=run).values_list("pk", "parent_id"))
    return max(own.keys() - set(own.values()), default=None)


def _marks(row: RunEvent) -> Iterator[tuple[int, int | None]]:
    if "delta" not in row.data:
        yield row.number, row.data.get("timestamp")
        return
    number = row.first - 1
    for count, at in packing.batches_of(row.data):
        number += count
        yield number, at
