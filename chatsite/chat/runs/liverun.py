"""A run of this process as it stands in memory: what was told of it, and what a reader saw at any place in it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from agent.events import Event, Terminal
from agent.messages import Transcript
from agent.reducer import apply
from agent.underway import NOTHING, Underway, take
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.state import InterruptView, RunView, Segment, ThreadState, refilled

AT_ONCE = 64
"""Events that one reader gets in one batch: a client that does not read holds no more than that here."""

FOLD_AT_MOST = 2000
"""Events that are folded to find out what one reader saw; one who would cost more gets the whole newest state."""


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
