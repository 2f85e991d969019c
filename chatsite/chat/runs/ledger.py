"""The ledger of one run while it runs: which of its calls changed, and how, since the rows were written last.

    a call is complete                    proposed
    its tool is about to start            claimed
    its result                            done, failed, skipped, ... (`STATE_OF_ERROR`)
    the run ends, and it has no result    waiting

A call within a subagent has its row too, though the transcript leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from django.utils import timezone

from agent.events import (
    Event,
    Interrupted,
    RunFinished,
    SubagentFinished,
    SubagentStarted,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallResult,
    ToolCallStart,
)
from agent.messages import ContentPart, Message, ToolCallPart, Transcript, open_calls
from agent.receipts import BEGUN
from agent.wire import jsontext
from agent.wire.parts import dump_parts
from chatsite.chat.models import ToolCall
from chatsite.chat.runs.ledger_rows import CallChange

State = ToolCall.State
STATE_OF_ERROR: Mapping[str | None, str] = {
    None: State.DONE,
    "aborted": State.CANCELLED,
    "max_tokens": State.SKIPPED,
    "not_executed": State.SKIPPED,
    "content_filter": State.SKIPPED,
    "incomplete_stream": State.SKIPPED,
    "unknown_tool": State.SKIPPED,
    "policy_failed": State.SKIPPED,
    "over_budget": State.SKIPPED,
    "not_answered": State.SKIPPED,
    "denied": State.DENIED,
    "cancelled": State.CANCELLED,
    "outcome_unknown": State.UNKNOWN,
}
"""A result's code -> its call's state; any other code is a failure."""


class Ledger:
    """See the head of this file. `waiting`: what the rows say of calls that earlier runs left open, by call id."""

    def __init__(self, waiting: Mapping[str, CallChange]) -> None:
        self._calls: dict[str, CallChange] = dict(waiting)
        self._changed: dict[str, CallChange] = {}
        self._inner_arguments: dict[str, list[str]] = {}  # of calls within a subagent, while they stream

    def changes(self) -> dict[str, CallChange]:
        """What no row has yet, by call id."""
        return dict(self._changed)

    def kept(self, changes: Mapping[str, CallChange]) -> None:
        """These have their rows now; what changed meanwhile is still to be kept."""
        self._changed = {id: change for id, change in self._changed.items() if change is not changes.get(id)}

    def claim(self, call: ToolCallPart) -> None:
        known = self._calls.get(call.id) or CallChange(call.id, call.name, call.arguments, State.PROPOSED)
        self._change(
            replace(known, state=State.CLAIMED, claimed_at=timezone.now(), edited_arguments=call.edited or "")
        )

    def note(self, event: Event, transcript: Transcript) -> None:
        """`transcript` is the run's, the event folded in."""
        if event.subagent_run_id is not None and not isinstance(event, SubagentStarted | SubagentFinished):
            self._note_inner(event)
            return
        match event:
            case ToolCallEnd(tool_call_id=call_id):
                call = _call_of(transcript.live, call_id)
                if call is not None and not call.provider_executed:
                    self._change(CallChange(call.id, call.name, call.arguments, State.PROPOSED))
            case ToolCallResult():
                self._settle(event, transcript)
            case RunFinished():
                self._wait_for(event, transcript)

    def _note_inner(self, event: Event) -> None:
        """An event of a run within this one: the transcript leaves it out, but its calls have their rows."""
        match event:
            case ToolCallStart(tool_call_id=call_id, tool_call_name=name):
                self._change(CallChange(call_id, name, "", State.PROPOSED))
            case ToolCallArgs(tool_call_id=call_id, delta=delta) if call_id in self._calls:
                self._inner_arguments.setdefault(call_id, []).append(delta)
            case ToolCallEnd(tool_call_id=call_id) if call_id in self._calls:
                arguments = "".join(self._inner_arguments.pop(call_id, ()))
                self._change(replace(self._calls[call_id], arguments=arguments))
            case ToolCallResult(tool_call_id=call_id, content=content) if call_id in self._calls:
                self._change(settled(self._calls[call_id], event, content))

    def _wait_for(self, event: RunFinished, transcript: Transcript) -> None:
        """Calls that the run leaves open wait for a person or a client."""
        waiting = {call.id for call in open_calls(transcript)}
        if isinstance(event.outcome, Interrupted):
            waiting |= {str(interrupt.tool_call_id) for interrupt in event.outcome.interrupts}
        for call_id in waiting:
            known = self._calls.get(call_id)
            if known is not None and known.state == State.PROPOSED:
                self._change(replace(known, state=State.WAITING))

    def _settle(self, result: ToolCallResult, transcript: Transcript) -> None:
        known = self._calls.get(result.tool_call_id)
        message = next((each for each in transcript.live if each.id == result.message_id), None)
        if known is None or message is None:
            return  # a provider's own tool, or a second result
        self._change(settled(known, result, message.tool_results[0].content))

    def _change(self, change: CallChange) -> None:
        self._calls[change.call_id] = self._changed[change.call_id] = change


def _call_of(messages: tuple[Message, ...], call_id: str) -> ToolCallPart | None:
    return next((call for message in messages for call in message.tool_calls if call.id == call_id), None)


def settled(call: CallChange, result: ToolCallResult, content: str | tuple[ContentPart, ...]) -> CallChange:
    state = STATE_OF_ERROR.get(result.error, State.FAILED)
    if (result.metadata or {}).get(BEGUN):
        state = State.UNKNOWN
    if state == State.DONE and call.state == State.PROPOSED:
        state = State.SKIPPED  # nobody claimed it: a middleware answered in its place
    return replace(
        call,
        state=state,
        result=content if isinstance(content, str) else jsontext.dump(dump_parts(content)),
        error_code=result.error or "",
        finished_at=timezone.now(),
        duration_ms=result.duration_ms,
    )
