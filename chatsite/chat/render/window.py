"""How much of a long thread a page shows at once, and the link to what stands before it.

A page shows whole runs, so many that they hold `MESSAGES` messages, and whatever asks a person something. One that is
opened at a message shows what stands around that, too, and a link to what is left out between the two. What it does not
show is looked at all the same: runs hold things of each other's calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from django.utils.translation import gettext as _

from chatsite.chat.render.swaps import message_mark, short_id
from chatsite.chat.state import Segment, ThreadState
from chatsite.phrases import number

MESSAGES = 30


def section_id(segment: Segment) -> str:
    """The id of a run's element; messages that belong to no run go by the first of them."""
    return short_id("r", segment.run.id or (segment.messages[0].id if segment.messages else ""))


def first_shown(state: ThreadState) -> int:
    """The place of the first run that a page shows."""
    asked = {question.tool_call_id for question in state.open_interrupts}
    places = (place for place, segment in enumerate(state.segments) if asked and _asks(segment, asked))
    return min([_newest(state.segments), *places])


def first_before(state: ThreadState, id: str) -> tuple[int, int] | None:
    """From where to where the runs stand that come next before that element's; None when that one is not here."""
    ends = (place for place, segment in enumerate(state.segments) if section_id(segment) == id)
    end = next(ends, None)
    return None if end is None else (_newest(state.segments[:end]), end)


def around(state: ThreadState, message_id: str) -> tuple[int, int] | None:
    """From where to where the runs stand around the one that holds the message; None where no run does."""
    places = (
        place
        for place, each in enumerate(state.segments)
        if any(said.id == message_id for said in each.messages)
    )
    place = next(places, None)
    if place is None:
        return None
    half = MESSAGES // 2
    return _newest(state.segments[: place + 1], half), _oldest(state.segments, place, half)


def next_after(state: ThreadState, id: str, until: str) -> tuple[int, int, int] | None:
    """The runs that come next behind that element's: from where, to where, and where they stop at the latest."""
    places = {section_id(segment): place for place, segment in enumerate(state.segments)}
    if id not in places or until not in places:
        return None
    begin, last = places[id] + 1, places[until]
    return begin, min(_oldest(state.segments, begin, MESSAGES), last), last


def newer_html(state: ThreadState, first: int, last: int) -> str:
    """The link to the runs from one place up to another, which the page shows. Without JavaScript it leads to a page
    that is opened there."""
    if first >= last:
        return ""
    begins, ends = section_id(state.segments[first - 1]), section_id(state.segments[last])
    said = next((each.id for each in state.segments[first].messages if each.role != "tool"), "")
    count = sum(map(_shown, state.segments[first:last]))
    return (
        f'<p id=newer class=older><a href="?at={quote(said, safe="")}#{message_mark(said)}" '
        f'hx-get="?after={begins}&amp;until={ends}" hx-target="#newer" hx-swap=outerHTML hx-sync="this:drop">'
        f"{_('Show later messages')}</a> <small>({number(count)})</small></p>"
    )


def older_html(state: ThreadState, first: int) -> str:
    """The link to what stands before that place. Without JavaScript it leads to a page that begins further up."""
    if not first:
        return ""
    id, count = section_id(state.segments[first]), sum(map(_shown, state.segments[:first]))
    return (
        f'<p id=older class=older><a href="?before={id}#{id}" hx-get="?before={id}" hx-target="#older" '
        f'hx-swap=outerHTML hx-sync="this:drop">{_("Show earlier messages")}</a> <small>({number(count)})</small></p>'
    )


def _newest(segments: Sequence[Segment], left: int = MESSAGES) -> int:
    for place in range(len(segments) - 1, -1, -1):
        left -= _shown(segments[place])
        if left <= 0:
            return place
    return 0


def _oldest(segments: Sequence[Segment], first: int, left: int) -> int:
    """Behind which run so many messages have been shown, from the place `first` on."""
    for place in range(first, len(segments)):
        left -= _shown(segments[place])
        if left <= 0:
            return place + 1
    return len(segments)


def _shown(segment: Segment) -> int:
    """Its messages that have a place of their own: results stand in the cards of their calls."""
    return sum(message.role != "tool" for message in segment.messages)


def _asks(segment: Segment, asked: set[str]) -> bool:
    return any(call.id in asked for message in segment.messages for call in message.tool_calls)
