"""A run as it was seen: what the page showed behind each event of its log, and when.

    moment    an event, or the deltas of a text that were kept together; `number` is its (last) event's
    shown     the chat's own renderer of the thread's state at that number, this run alone of it

The time of an event is its own; deltas have none, and go by when their batch was kept. A log that was pruned holds its
end alone: then there is the beginning, what was said, and the end, and the page says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from chatsite.chat.admin.playback import Moment, playback_of
from chatsite.chat.models import Run
from chatsite.chat.render.fragments import render_runs

AROUND = 12
"""Moments before and behind the one that is shown, of which the page has a list."""


def page_of(run: Run, asked: str | None) -> dict[str, Any]:
    with playback_of(run) as playback:
        moments = playback.moments
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
            "html": render_runs(playback.at(run, now.number))[-1] if now else "",
            "note": _note(run),
        }


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
