"""What a reader of a thread sees, as values: the page, the stream and the API render this and nothing else.

    ThreadState            thread, cursor, segments, questions, standing rules
      InterruptView        a question to a person, open or answered
      Segment              one run and the messages it holds, in order: the user's first, if it brought one
        RunView            how the run stands or ended
        Message...         `agent.messages`

A cursor is `<run id>:<number of the last event seen>`, or "" before the first run. Once another branch was shown
`.<how often>` stands behind it: whoever comes back from before that sees it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.messages import Message, Usage
from agent.underway import NOTHING, Underway

ACTIVE_STATES: frozenset[str] = frozenset({"queued", "running"})


@dataclass(frozen=True, slots=True)
class RunView:
    """`state` is one of queued, running, finished, interrupted, cancelled, failed, lost.

    `stop_reason` is RunFinished's; `error` is a sentence for people and `error_code` its code (failed, lost); of
    one that a middleware aborted, `error` is the reason that it gave.
    `cost` is what that usage costs, in the money of MODEL_PRICES; None where no price is set.
    `resumes` is the id of the lost run that this one goes on with; `receipt` what a stopped one had done
    (`agent.receipts`).
    """

    id: str
    state: str
    stop_reason: str = ""
    error: str = ""
    error_code: str = ""
    model: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    duration_ms: int | None = None
    resumes: str = ""
    receipt: Mapping[str, Any] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES


@dataclass(frozen=True, slots=True)
class Segment:
    """`underway` is what goes on in open calls, whichever run asked for them: of the active run only."""

    run: RunView
    messages: tuple[Message, ...] = ()
    underway: Underway = NOTHING


@dataclass(frozen=True, slots=True)
class InterruptView:
    """A question to a person about one call, and the answer once there is one.

    `status` is one of open, approved, denied, cancelled. `input` are the arguments as the model wrote them,
    `schema` the tool's JSON Schema for them, `edited` what the person put in their place. Times are ISO 8601.
    """

    id: str
    run_id: str
    tool_call_id: str
    tool_name: str
    message: str = ""
    input: Any = None
    schema: Mapping[str, Any] = field(default_factory=dict)
    expires_at: str | None = None
    status: str = "open"
    edited: Mapping[str, Any] | None = None
    reason: str = ""
    answered_by: str = ""
    answered_at: str = ""

    @property
    def open(self) -> bool:
        return self.status == "open"


@dataclass(frozen=True, slots=True)
class ThreadState:
    """`interrupts` are those of the runs here, in the order in which they were asked; `always_allowed` the tools that a
    standing rule of this thread allows.

    `branch` counts how often another branch was shown. `forks` are the places where the thread has more than the branch
    that is shown: by the id of a message ("" for the beginning) those that stand behind it, the oldest first. The
    newest may not be among them yet, while it is written.
    """

    thread_id: str
    title: str = ""
    segments: tuple[Segment, ...] = field(default_factory=tuple)
    cursor: str = ""
    interrupts: tuple[InterruptView, ...] = ()
    always_allowed: tuple[str, ...] = ()
    branch: int = 0
    forks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def open_interrupts(self) -> tuple[InterruptView, ...]:
        return tuple(interrupt for interrupt in self.interrupts if interrupt.open)

    @property
    def active_run(self) -> RunView | None:
        last = self.segments[-1].run if self.segments else None
        return last if last is not None and last.active else None


def refilled(segments: tuple[Segment, ...], messages: tuple[Message, ...]) -> tuple[Segment, ...]:
    """The segments with their messages as they are now: a call further up may have got edited arguments."""
    filled: list[Segment] = []
    at = 0
    for segment in segments:
        now = messages[at : at + len(segment.messages)]
        at += len(segment.messages)
        same = all(new is old for new, old in zip(now, segment.messages, strict=True))
        filled.append(segment if same else Segment(segment.run, now))
    return tuple(filled)
