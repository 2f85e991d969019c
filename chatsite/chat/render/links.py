"""What the runs of a thread say of each other's calls.

A run that must wait ends. The run that takes it up brings the results of the calls that waited, and a question and
its answer are nobody's message. So the card of a call may change long after its run ended, as long as it is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from agent.messages import ToolResultPart
from agent.underway import NOTHING, Underway
from chatsite.chat.render import words
from chatsite.chat.render.steering import Pick, picks_of
from chatsite.chat.state import InterruptView, RunView, Segment, ThreadState


@dataclass(slots=True)
class Links:
    results: dict[str, ToolResultPart] = field(default_factory=dict)
    """By call id: those that stand in another run than their call."""
    beside: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """Of these: the metadata of their messages."""
    questions: dict[str, list[InterruptView]] = field(default_factory=dict)
    """By call id, in the order in which they were asked: a call whose work is another run may ask several."""
    resumed: set[str] = field(default_factory=set)
    """Ids of lost runs that another one goes on with."""
    segments: tuple[Segment, ...] = ()
    picks: dict[str, Pick] = field(default_factory=dict)
    """Of the messages that have siblings."""
    own: bool = True
    """Whoever reads may also steer."""
    underway: Underway = NOTHING
    """What goes on in open calls."""
    last: RunView | None = None
    open: tuple[InterruptView, ...] = ()
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    _open_calls: dict[str, str] = field(default_factory=dict)
    """Call id -> id of its run, for the calls that have no result in their own run."""
    _newly_resumed: set[str] = field(default_factory=set)

    def look(self, state: ThreadState, changed: Iterable[Segment]) -> set[str]:
        """Take in a state of which these segments are new. The ids of the runs that may look different by others."""
        for segment in changed:
            self._take(segment)
        self.segments = state.segments
        self.last = state.segments[-1].run if state.segments else None
        self.underway = state.segments[-1].underway if state.segments else NOTHING
        before, self.picks = self.picks, picks_of(state) if self.own else {}
        told = questions_told(state)
        self.questions = {}
        for question in told:
            self.questions.setdefault(question.tool_call_id, []).append(question)
        self.open = tuple(question for question in told if question.open)
        self.now = datetime.now(UTC)
        moved = {id for id in {*before, *self.picks} if before.get(id) != self.picks.get(id)}
        unsettled = set(self._open_calls.values()) | self._newly_resumed | _runs_with(moved, state)
        self._newly_resumed = set()
        self._open_calls = {call: run for call, run in self._open_calls.items() if call not in self.results}
        return unsettled

    def is_over(self, question: InterruptView) -> bool:
        """The time to answer it has passed."""
        until = words.moment_of(question.expires_at)
        return until is not None and until <= self.now

    def taken_up(self, run: RunView) -> str:
        """The state of the thread's last run, when that is another one: `active`, or how it ended."""
        if self.last is None or self.last.id == run.id:
            return ""
        return "active" if self.last.active else self.last.state

    def runs_of_answer(self, run: RunView) -> list[RunView]:
        """The run, and before it those that it took up: they waited, or were lost, and nobody has spoken since."""
        runs: list[RunView] = []
        for segment in reversed(self.segments):
            if runs:
                if not (words.waited(segment.run) or segment.run.id == runs[0].resumes):
                    break
                runs.insert(0, segment.run)
            elif segment.run.id == run.id:
                runs.append(run)
            if runs and any(message.role == "user" for message in segment.messages[:1]):
                break
        return runs or [run]

    def is_continued(self, run: RunView) -> bool:
        """Whether the run behind this one went on with its answer."""
        pairs = pairwise(self.segments)
        behind = next((after.run for before, after in pairs if before.run.id == run.id), None)
        return behind is not None and any(each.id == run.id for each in self.runs_of_answer(behind))

    def _take(self, segment: Segment) -> None:
        if segment.run.resumes and segment.run.resumes not in self.resumed:
            self.resumed.add(segment.run.resumes)
            self._newly_resumed.add(segment.run.resumes)
        calls = {call.id for message in segment.messages for call in message.tool_calls}
        for message in segment.messages:
            for result in message.tool_results:
                if result.tool_call_id in calls:
                    calls.discard(result.tool_call_id)
                    self._open_calls.pop(result.tool_call_id, None)
                else:
                    self.results[result.tool_call_id] = result
                    self.beside[result.tool_call_id] = message.metadata
        self._open_calls.update(dict.fromkeys(calls, segment.run.id))


def _runs_with(message_ids: set[str], state: ThreadState) -> set[str]:
    if not message_ids:
        return set()
    return {each.run.id for each in state.segments if any(said.id in message_ids for said in each.messages)}


def questions_told(state: ThreadState) -> tuple[InterruptView, ...]:
    """What a run asks is told with its end; until then nobody has seen the question."""
    active = state.active_run
    if active is None:
        return state.interrupts
    return tuple(question for question in state.interrupts if question.run_id != active.id)
