"""What a reader of a thread sees, as values: the page, the stream and the API render this and nothing else.

    ThreadState            thread, cursor, segments
      Segment              one run and the messages it holds, in order: the user's first, if it brought one
        RunView            how the run stands or ended
        Message...         `agent.messages`

A cursor is `<run id>:<number of the last event seen>`, or "" before the first run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.messages import Message, Usage

ACTIVE_STATES: frozenset[str] = frozenset({"queued", "running"})


@dataclass(frozen=True, slots=True)
class RunView:
    """`state` is one of queued, running, finished, interrupted, cancelled, failed, lost.

    `stop_reason` is RunFinished's; `error` is a sentence for people and `error_code` its code (failed, lost).
    """

    id: str
    state: str
    stop_reason: str = ""
    error: str = ""
    error_code: str = ""
    model: str = ""
    usage: Usage = Usage()
    duration_ms: int | None = None

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES


@dataclass(frozen=True, slots=True)
class Segment:
    run: RunView
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadState:
    """`older` is True when the thread has segments before the first one here."""

    thread_id: str
    title: str = ""
    segments: tuple[Segment, ...] = field(default_factory=tuple)
    cursor: str = ""
    older: bool = False

    @property
    def active_run(self) -> RunView | None:
        last = self.segments[-1].run if self.segments else None
        return last if last is not None and last.active else None
