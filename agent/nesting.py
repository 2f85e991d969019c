"""What a run lends to a tool whose work is another run (`subagents.py`), and what it hears back.

The inner run's events are told under the outer one's, each with `subagent_run_id`; the outer transcript leaves them
out. Where the inner run must wait, the call stays open, and its state goes into the outer transcript, in the metadata
of the message that made the call: a run has no memory but its transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent import events as ev
from agent.approvals import BINDING, Resolutions
from agent.context import RunContext
from agent.events import Event, Interrupt, ModelUsage
from agent.messages import Message

SUBAGENTS = "subagents"
"""Where a message's metadata keeps the state of the runs behind its calls, by call id."""

State = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Nest:
    """`states` are those of runs that waited, `asked` the questions of those that wait now; both by call id."""

    ctx: RunContext
    resolutions: Resolutions
    charge: Callable[[tuple[ModelUsage, ...], float | None], None]
    states: Mapping[str, State] = field(default_factory=dict)
    asked: dict[str, tuple[Interrupt, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Berth:
    """A nest, for one call."""

    nest: Nest
    call_id: str
    tell: Callable[[Event], None]

    @property
    def state(self) -> State | None:
        return self.nest.states.get(self.call_id)


class Suspended(Exception):
    """The inner run waits for a person; so does the call."""

    def __init__(self, state: State, interrupts: tuple[Interrupt, ...]) -> None:
        super().__init__("waits for a person")
        self.state = state
        self.interrupts = interrupts

    def event(self, call_id: str) -> ev.Custom:
        return ev.Custom(name="subagent_state", value={"toolCallId": call_id, **self.state})


def states_of(turn: Message | None) -> Mapping[str, State]:
    kept = turn.metadata.get(SUBAGENTS) if turn is not None else None
    return kept if isinstance(kept, Mapping) else {}


def inner(event: Any, run_id: str) -> Event:
    """The event of an inner run as the outer one tells it. What is further in says so itself already."""
    if isinstance(event, ev.SubagentStarted):
        event = event if event.parent_subagent_run_id else replace(event, parent_subagent_run_id=run_id)
    elif event.subagent_run_id is None:
        event = replace(event, subagent_run_id=run_id)
    told: Event = event
    return told


def surfaced(interrupt: Interrupt, *, call: tuple[str, str], run_id: str, outer_run_id: str) -> Interrupt:
    """The question of an inner run, as one of the outer one's. `path` leads in, from the outermost call."""
    metadata = dict(interrupt.metadata or {})
    binding = {**metadata.get(BINDING, {}), "interruptedRunId": outer_run_id}
    path = [{"toolCallId": call[0], "toolName": call[1]}, *metadata.get("path", ())]
    inner_run = metadata.get("subagentRunId", run_id)
    return replace(
        interrupt, metadata={**metadata, BINDING: binding, "subagentRunId": inner_run, "path": path}
    )


_OPENS: dict[type, type] = {
    ev.TextMessageStart: ev.TextMessageEnd,
    ev.ReasoningStart: ev.ReasoningEnd,
    ev.ReasoningMessageStart: ev.ReasoningMessageEnd,
    ev.ToolCallStart: ev.ToolCallEnd,
    ev.StepStarted: ev.StepFinished,
    ev.SubagentStarted: ev.SubagentError,
}
_CLOSES = {**{end: end for end in _OPENS.values()}, ev.SubagentFinished: ev.SubagentError}


class OpenThings:
    """What an inner run has begun and not ended, for when it is cut off and can say no more."""

    def __init__(self) -> None:
        self._open: dict[tuple[type, str, str | None], None] = {}

    def hear(self, event: Any) -> None:
        kind = type(event)
        if kind in _OPENS:
            self._open[_OPENS[kind], _id(event), event.subagent_run_id] = None
        elif kind in _CLOSES:
            self._open.pop((_CLOSES[kind], _id(event), event.subagent_run_id), None)

    def closings(self) -> Iterator[Event]:
        while self._open:
            (end, id, run_id), _ = self._open.popitem()
            if end is ev.ToolCallEnd:
                yield ev.ToolCallEnd(tool_call_id=id, subagent_run_id=run_id)
            elif end is ev.StepFinished:
                yield ev.StepFinished(step_name=id, subagent_run_id=run_id)
            elif end is ev.SubagentError:
                yield ev.SubagentError(subagent_run_id=id, message="It was stopped.", code="aborted")
            else:
                yield end(message_id=id, subagent_run_id=run_id)


def _id(event: Any) -> str:
    for name in ("tool_call_id", "step_name", "message_id"):
        if (id := getattr(event, name, None)) is not None:
            return str(id)
    return str(event.subagent_run_id)
