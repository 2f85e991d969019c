"""A run as it was seen: what the page showed behind each event of its log, and when.

    moment    an event, or the deltas of a text that were kept together; `number` is its (last) event's
    shown     the chat's own renderer of the thread's state at that number, this run alone of it

The time of an event is its own; deltas have none, and go by when their batch was kept. A log that was pruned holds its
end alone: then there is the beginning, what was said, and the end, and the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from agent.messages import Transcript
from agent.reducer import apply
from chatsite.chat import kept_log, logrows, row_values, store
from chatsite.chat.cursors import Cursor
from chatsite.chat.models import Message, Run, RunEvent
from chatsite.chat.render.fragments import render_runs
from chatsite.chat.state import Segment, ThreadState

AROUND = 12
"""Moments before and behind the one that is shown, of which the page has a list."""


@dataclass(frozen=True, slots=True)
class Moment:
    number: int
    type: str
    ms: int
    """Since the run began."""

    @property
    def since(self) -> str:
        return f"{self.ms / 1000:+.3f} s"


def page_of(run: Run, asked: str | None) -> dict[str, Any]:
    moments = moments_of(run)
    place = _place_of(moments, asked)
    now = moments[place] if moments else None
    behind = moments[place + 1] if place + 1 < len(moments) else None
    return {
        "run": run,
        "moments": moments[max(0, place - AROUND) : place + AROUND + 1],
        "now": now,
        "before": moments[place - 1] if place else None,
        "behind": behind,
        "wait": behind.ms - now.ms if now and behind else 0,
        "count": len(moments),
        "place": place + 1,
        "last": moments[-1] if moments else None,
        "html": html_at(run, now.number) if now else "",
        "note": _note(run),
    }


def moments_of(run: Run) -> list[Moment]:
    began = round(run.created_at.timestamp() * 1000)
    found: list[Moment] = []
    for row in RunEvent.objects.filter(run=run).order_by("number"):
        for number, at in _marks(row):
            # Where no time is known, it was not before the event in front of it.
            ms = at - began if at is not None else 0
            found.append(Moment(number, row.type, max(ms, found[-1].ms if found else 0)))
    return found


def html_at(run: Run, number: int) -> SafeString | str:
    """What the page showed of this run behind that event."""
    state = _state_at(run, number)
    return render_runs(replace(state, segments=state.segments[-1:]))[-1]


def _state_at(run: Run, number: int) -> ThreadState:
    thread = run.thread
    thread.head_id = _end_of(run)  # its own branch, whichever the thread shows now
    state = store.load_state(thread, Cursor(run.public_id, number))
    if state.segments:
        return state
    events = (event for _number, event in kept_log.events_after(run.pk, 0, number))
    return replace(
        state, segments=(Segment(row_values.view_of(run), reduce(apply, events, Transcript()).messages),)
    )


def _end_of(run: Run) -> int | None:
    """The last of its messages on their branch, where a result may stand in front of older ones."""
    own = dict(Message.objects.filter(run=run).values_list("pk", "parent_id"))
    return max(own.keys() - set(own.values()), default=None)


def _marks(row: RunEvent) -> Iterator[tuple[int, int | None]]:
    if "delta" not in row.data:
        yield row.number, row.data.get("timestamp")
        return
    number = row.first - 1
    for count, at in logrows.batches_of(row.data):
        number += count
        yield number, at


def _place_of(moments: Sequence[Moment], asked: str | None) -> int:
    """The last moment up to the event one asked for; without one, the first."""
    number = int(asked) if asked and asked.isascii() and asked.isdecimal() and len(asked) < 10 else 0
    return max(0, sum(moment.number <= number for moment in moments) - 1)


def _note(run: Run) -> str:
    if run.log == Run.Log.PRUNED:
        return _("The log of this run was pruned: what it said is here, but no longer when it said what.")
    if run.state in Run.ACTIVE:
        return _("This run is at work; what is here is what was kept of it so far.")
    return ""
