"""Fragments: the HTML of a thread, whole or as the difference between two states of it.

Rule 1: one path. A page is what the fragments of its history would have made of an empty page.
Rule 2: text of users, models and tools is escaped or cleaned, and stands inside `hx-ignore`.
Rule 3: applying a fragment twice changes nothing the second time (`swaps.py` says how).

    fragments     what the views call             transcript    runs and messages as HTML, and their changes
    swaps         the elements of a fragment      growing       a text that streams in
    blocks        its settled blocks and tail     markdown      markdown to clean HTML
    cards, ends   tool calls; how a run ended     words         the tables of plain words
"""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.safestring import SafeString, mark_safe

from chatsite.chat.render.ends import spoken
from chatsite.chat.render.swaps import live, live_html, status, title_html, up
from chatsite.chat.render.transcript import Writer
from chatsite.chat.state import ThreadState

__all__ = ["FragmentWriter", "live_html", "render_full", "render_transcript"]


def render_transcript(state: ThreadState) -> SafeString:
    """The whole transcript as the page shows it."""
    return mark_safe(Writer().whole(state))  # noqa: S308 - every text in it is escaped or cleaned


def render_full(state: ThreadState) -> str:
    """A fragment that puts the whole transcript in the place of whatever the page shows."""
    writer = Writer()
    return f'<hx-partial hx-target="#log" hx-swap="innerHTML">{writer.whole(state)}</hx-partial>' + "".join(
        [live(state), status(spoken(state)), title_html(state)]
    )


class FragmentWriter:
    """Brings a page that shows one state to the next one. One for each follower."""

    def __init__(self, state: ThreadState) -> None:
        self._state = state
        self._writer = Writer()
        self._writer.whole(state)

    def update(self, state: ThreadState) -> str:
        """The fragments from the last state to this one; "" when nothing changed."""
        before, self._state = self._state, state
        common = _common_runs(before, state)
        if before.segments and not common:
            self._writer = Writer()
            self._writer.whole(state)
            return render_full(state)
        return "".join(self._changes(before, state, common))

    def _changes(self, before: ThreadState, state: ThreadState, common: int) -> Iterable[str]:
        for gone in before.segments[common:]:  # a retry takes the place of a run
            yield self._writer.without(gone)
        for old, segment in zip(before.segments[:common], state.segments, strict=False):
            if old is not segment:
                yield from self._writer.segment_changes(old, segment)
        for segment in state.segments[common:]:
            yield up("log", self._writer.segment(segment))
        if (before.active_run is None) != (state.active_run is None):
            yield live(state)
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
