"""What goes on in calls that have no result yet, as readers see it. Pure.

The transcript leaves it out (`reducer.py`), since it is news and no memory: progress is gone when its call has a
result, and what a subagent said is kept beside that result, or, while it waits, in the message that made the call.

    event                              what it does
    Custom {toolCallId, value}         the newest progress of that call
    SubagentStarted                    a run begins behind its call; one that resumes goes on with what was said
    one with a subagent_run_id         does to that run's transcript what it would do to the outer one
    SubagentFinished, SubagentError    that run is over
    ToolCallResult                     so is the call, and nothing of it is news any more
    Custom subagent_state              the run behind the call waits; its message has what was said
    RunFinished, RunError              nothing goes on
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent import events as ev
from agent.messages import Transcript
from agent.nesting import states_of
from agent.reducer import apply_inner
from agent.wire.agui_messages import decode_messages


@dataclass(frozen=True, slots=True, eq=False)
class Inner:
    """A run behind a call, as far as it was told; `parent` is the inner run that made the call, if one did.

    Each event makes another one, also of those around it, so the same object says the same.
    """

    run_id: str
    call_id: str
    transcript: Transcript
    parent: str = ""
    over: bool = False


@dataclass(frozen=True, slots=True)
class Underway:
    """`progress` by call id, `inner` by run id. Calls inside of an inner run are among the calls."""

    progress: Mapping[str, Any] = field(default_factory=dict)
    inner: Mapping[str, Inner] = field(default_factory=dict)

    def behind(self, call_id: str) -> Inner | None:
        return next((run for run in self.inner.values() if run.call_id == call_id), None)


NOTHING = Underway()


def take(underway: Underway, event: ev.Event, transcript: Transcript) -> Underway:
    """With the event, which `transcript` holds already."""
    if event.subagent_run_id is None and type(event) not in _NEWS:
        return underway
    match event:
        case ev.RunFinished() | ev.RunError():
            return NOTHING
        case ev.SubagentStarted():
            return _begun(underway, event, transcript)
        case ev.SubagentFinished(subagent_run_id=run_id) | ev.SubagentError(subagent_run_id=run_id):
            return _changed(underway, run_id, over=True)
    if (run := underway.inner.get(event.subagent_run_id or "")) is not None:
        underway = _changed(underway, run.run_id, transcript=apply_inner(run.transcript, event))
    match event:
        case ev.ToolCallResult(tool_call_id=call_id):
            return _without(underway, call_id)
        case ev.Custom(name="subagent_state", value={"toolCallId": str(call_id)}):
            return _without(underway, call_id)
        case ev.Custom(value={"toolCallId": str(call_id), "value": value}):
            return replace(underway, progress={**underway.progress, call_id: value})
    return underway


_NEWS = frozenset(
    {
        ev.Custom,
        ev.ToolCallResult,
        ev.SubagentStarted,
        ev.SubagentFinished,
        ev.SubagentError,
        ev.RunFinished,
        ev.RunError,
    }
)


def _begun(underway: Underway, event: ev.SubagentStarted, transcript: Transcript) -> Underway:
    run_id, call_id = event.subagent_run_id, event.parent_tool_call_id or ""
    outer = underway.inner.get(event.parent_subagent_run_id or "")
    said: Transcript = Transcript()
    if "resumes" in (event.metadata or {}):
        for message in reversed(outer.transcript if outer is not None else transcript):
            if (state := states_of(message).get(call_id)) is not None:
                said = Transcript(decode_messages(state["messages"]))
                break
    inner = Inner(run_id, call_id, said, event.parent_subagent_run_id or "")
    return replace(underway, inner={**_without(underway, call_id).inner, run_id: inner})


def _changed(underway: Underway, run_id: str, **fields: Any) -> Underway:
    inner, run = dict(underway.inner), underway.inner.get(run_id)
    while run is not None:
        inner[run.run_id] = replace(run, **fields)
        run, fields = inner.get(run.parent), {}
    return replace(underway, inner=inner)


def _without(underway: Underway, call_id: str) -> Underway:
    progress = {id: value for id, value in underway.progress.items() if id != call_id}
    inner = {id: run for id, run in underway.inner.items() if run.call_id != call_id}
    return Underway(progress, inner)
