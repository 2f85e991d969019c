"""Fragments: the HTML of a thread, whole or as the difference between two states of it.

Rule 1: one path. A page is what the fragments of its history would have made of an empty page.
Rule 2: text of users, models and tools is escaped or cleaned, and stands inside `hx-ignore`.
Rule 3: applying a fragment twice changes nothing the second time (`swaps.py` says how).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.utils.safestring import SafeString, mark_safe

from agent.messages import Message
from chatsite.chat.render.asking import standing_html
from chatsite.chat.render.context import Typed
from chatsite.chat.render.ends import spoken
from chatsite.chat.render.swaps import live, live_html, replace_shown, status, title_html, up
from chatsite.chat.render.transcript import Writer
from chatsite.chat.render.window import around, first_before, first_shown, newer_html, next_after, older_html
from chatsite.chat.state import RunView, Segment, ThreadState

__all__ = [
    "FragmentWriter",
    "has_been_told",
    "live_html",
    "render_after",
    "render_before",
    "render_full",
    "render_messages",
    "render_page",
    "render_runs",
    "render_transcript",
    "standing_html",
]


def render_transcript(state: ThreadState, typed: Typed | None = None, *, own: bool = True) -> SafeString:
    """The whole transcript as the page shows it; `typed` into a form that was refused stands in it again.

    With `own` False it is for readers who can do nothing with it.
    """
    return mark_safe(Writer(typed, own=own).whole(state))  # noqa: S308 - every text in it is escaped or cleaned


def render_page(state: ThreadState, typed: Typed | None = None, before: str = "", at: str = "") -> SafeString:
    """The newest runs, behind a link to the older ones; with the id of a run's element in `before` from further up,
    with that of a message in `at` also what stands around it."""
    found = first_before(state, before) if before else None
    first = min(first_shown(state), found[0]) if found else first_shown(state)
    begin, end = (around(state, at) if at else None) or (first, first)
    if end >= first:
        first = min(begin, first)
        return mark_safe(older_html(state, first) + Writer(typed).whole(state, first))  # noqa: S308 - as above
    there = older_html(state, begin) + Writer(typed).whole(state, begin, end) + newer_html(state, end, first)
    return mark_safe(there + Writer(typed).whole(state, first))  # noqa: S308 - as above


def render_before(state: ThreadState, before: str) -> SafeString | None:
    """What takes the place of the link to the older runs; None when the run of that element is not here any more."""
    found = first_before(state, before)
    if found is None:
        return None
    return mark_safe(older_html(state, found[0]) + Writer().whole(state, *found))  # noqa: S308 - as above


def render_after(state: ThreadState, after: str, until: str) -> SafeString | None:
    """What takes the place of the link to later runs; None when one of the two is not here any more."""
    found = next_after(state, after, until)
    if found is None:
        return None
    begin, end, last = found
    return mark_safe(Writer().whole(state, begin, end) + newer_html(state, end, last))  # noqa: S308 - as above


def render_runs(state: ThreadState) -> tuple[SafeString, ...]:
    """Each run of a thread by itself, for whoever only reads: what was answered is told, what is open is not asked."""
    told = replace(state, interrupts=tuple(each for each in state.interrupts if not each.open))
    writer = Writer(own=False)
    writer.look(told, told.segments)
    return tuple(mark_safe(writer.segment(segment)) for segment in told.segments)  # noqa: S308 - as above


def render_messages(messages: Sequence[Message], *, name: str) -> SafeString:
    """Messages that are no thread's, for whoever only reads. `name` is in every id, so that a page may hold several."""
    own = tuple(replace(message, id=f"{name}-{message.id}") for message in messages)
    segment = Segment(RunView(id=name, state="finished", stop_reason="stop"), own)
    return render_runs(ThreadState(thread_id=name, segments=(segment,)))[0]


def render_full(state: ThreadState) -> str:
    """A fragment that puts the transcript, as a page shows it, in the place of whatever is there."""
    return f'<hx-partial hx-target="#log" hx-swap="innerHTML">{render_page(state)}</hx-partial>' + "".join(
        [live(state), replace_shown(standing_html(state)), status(spoken(state)), title_html(state)]
    )


class FragmentWriter:
    """Brings a page that shows one state to the next one. One for each follower."""

    def __init__(self, state: ThreadState) -> None:
        self._state = _as_it_was_told(state)
        self._writer = Writer()
        self._writer.whole(self._state, first_shown(self._state))
        self._rules_told = False
        """A reader of long ago may have seen other standing rules than the state of that time says now."""

    def update(self, state: ThreadState) -> str:
        """The fragments from the last state to this one; "" when nothing changed."""
        before, self._state = self._state, state
        common = _common_runs(before, state)
        if before.segments and (not common or not state.segments):
            self._writer = Writer()
            self._writer.whole(state, first_shown(state))
            return render_full(state)
        changes = "".join(self._changes(before, state, common))
        if changes and not self._rules_told:
            self._rules_told = True
            changes = replace_shown(standing_html(state)) + changes
        return changes

    def _changes(self, before: ThreadState, state: ThreadState, common: int) -> Iterable[str]:
        pairs = list(zip(before.segments[:common], state.segments, strict=False))
        new = state.segments[common:]
        changed = [segment for old, segment in pairs if old is not segment]
        gone = before.segments[common:]  # a retry takes the place of a run
        unsettled = self._writer.look(state, [*changed, *new], anew=bool(gone))
        for segment in gone:
            yield self._writer.without(segment)
        for old, segment in pairs:
            if segment.run.id in unsettled or not _same(old, segment):
                yield from self._writer.segment_changes(old, segment)
        for segment in new:
            yield up("log", self._writer.segment(segment))
        if _active_id(before) != _active_id(state):
            yield live(state)
        if (standing := standing_html(state)) != standing_html(before):
            yield replace_shown(standing)
        if (said := spoken(state)) != spoken(before) and said:
            yield status(said)
        if before.title != state.title:
            yield title_html(state)


def _common_runs(before: ThreadState, state: ThreadState) -> int:
    """How many runs the two have in common, from the first on."""
    common = 0
    for old, new in zip(before.segments, state.segments, strict=False):
        if old is not new and old.run.id != new.run.id:
            break
        common += 1
    return common


def _active_id(state: ThreadState) -> str | None:
    return None if state.active_run is None else state.active_run.id


def _same(old: Segment, new: Segment) -> bool:
    if old is new:
        return True
    return (
        old.run == new.run
        and old.underway is new.underway
        and len(old.messages) == len(new.messages)
        and all(a is b for a, b in zip(old.messages, new.messages, strict=True))
    )


def has_been_told(state: ThreadState) -> bool:
    """Whether who has read as far as this state has seen all that it says, the questions of its last run too."""
    last = state.segments[-1].run.id if state.segments else None
    return all(each.open for each in state.interrupts if each.run_id == last)


def _as_it_was_told(state: ThreadState) -> ThreadState:
    """The state with the questions open that its last run asked.

    For a state of the past, the questions come as they stand now; but whoever has read no further than that run has
    seen them open, since an answer begins another.
    """
    if not state.segments:
        return state
    last = state.segments[-1].run.id
    return replace(
        state,
        interrupts=tuple(
            replace(each, status="open", edited=None, reason="", answered_by="", answered_at="")
            if each.run_id == last
            else each
            for each in state.interrupts
        ),
    )
