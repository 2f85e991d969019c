"""The events of one turn, in good order, whatever order a wire has them in.

Rule 1: text and thoughts follow one another, so at most one of them is open; tool calls may stay open beside
anything, since servers interleave them.
Rule 2: what was opened is closed, once. `close_all` is safe at any moment.
Rule 3: adjacent deltas of one thing may be folded into one (`merge_deltas`); nothing else may be moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

from agent.events import (
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    TurnEnd,
    TurnEvent,
    reasoning_id,
)
from agent.wire.jsonload import is_whole_call

NewId = Callable[[], str]
Out = list[TurnEvent | TurnEnd]


@dataclass(slots=True)
class OpenCall:
    """A call as its turn has it so far. `id` is ours: unique in the transcript. It is open once it has
    begun."""

    id: str
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    begun: bool = False
    ended: bool = False
    provider_executed: bool = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        return bool(self.name) and is_whole_call(self.arguments)


class TurnWriter:
    """Turns a wire's blocks into events. Each method appends to `out`, which `take` hands over."""

    def __init__(self, message_id: str, new_id: NewId) -> None:
        self.message_id = message_id
        self.calls: list[OpenCall] = []
        self._new_id = new_id
        self._taken: set[str] = set()
        self._out: Out = []
        self._in_text = False
        self._thought: str | None = None
        self._thoughts = 0

    def take(self) -> Out:
        out, self._out = self._out, []
        return out

    def text(self, delta: str) -> None:
        if not self._in_text:
            self.end_thought()
            self._in_text = True
            self._out.append(TextMessageStart(self.message_id))
        self._out.append(TextMessageContent(self.message_id, delta))

    def end_text(self) -> None:
        if self._in_text:
            self._in_text = False
            self._out.append(TextMessageEnd(self.message_id))

    def thought(self, delta: str) -> None:
        id = self.begin_thought()
        self._out.append(ReasoningMessageContent(id, delta))

    def begin_thought(self) -> str:
        if self._thought is None:
            self.end_text()
            self._thoughts += 1
            self._thought = reasoning_id(self.message_id, self._thoughts)
            self._out += (ReasoningStart(self._thought), ReasoningMessageStart(self._thought))
        return self._thought

    def sign_thought(self, value: str, *, redacted: bool = False) -> None:
        id = self.begin_thought()
        metadata = {"redacted": True} if redacted else None
        self._out.append(ReasoningEncryptedValue("message", id, value, metadata=metadata))

    def end_thought(self) -> None:
        if self._thought is not None:
            id, self._thought = self._thought, None
            self._out += (ReasoningMessageEnd(id), ReasoningEnd(id))

    def call(self, id: str | None, *, provider_executed: bool = False) -> OpenCall:
        """A new call. An id that is missing, or that this turn has had already, is replaced."""
        if not id or id in self._taken:
            id = self._new_id()
        self._taken.add(id)
        call = OpenCall(id, provider_executed=provider_executed)
        self.calls.append(call)
        return call

    def begin_call(self, call: OpenCall) -> None:
        """Tells the call, with whatever arguments came before its name did."""
        self.end_text()
        self.end_thought()
        call.begun = True
        self._out.append(
            ToolCallStart(call.id, call.name, self.message_id, provider_executed=call.provider_executed)
        )
        if call.pieces:
            self._out.append(ToolCallArgs(call.id, call.arguments))

    def arguments(self, call: OpenCall, delta: str) -> None:
        if call.ended:
            return
        call.pieces.append(delta)
        if call.begun:
            self._out.append(ToolCallArgs(call.id, delta))

    def end_call(self, call: OpenCall) -> None:
        if call.begun and not call.ended:
            call.ended = True
            self._out.append(ToolCallEnd(call.id))

    def event(self, event: TurnEvent) -> None:
        self._out.append(event)

    def close_all(self) -> None:
        self.end_text()
        self.end_thought()
        for call in self.calls:
            if not call.begun and (call.name or call.pieces):
                self.begin_call(call)
            self.end_call(call)

    def end(self, end: TurnEnd) -> None:
        self.close_all()
        self._out.append(end)

    @property
    def holds_whole_calls(self) -> bool:
        """There are calls to run here, and all of them are complete."""
        ours = [call for call in self.calls if call.begun and not call.provider_executed]
        return bool(ours) and all(call.is_whole for call in ours)


def merge_deltas(events: Iterable[TurnEvent | TurnEnd]) -> Out:
    """The same turn with adjacent deltas of one text, thought or call folded into one event."""
    merged: Out = []
    pieces: list[str] = []
    kind: type[object] | None = None
    id = ""

    def flush() -> None:
        if len(pieces) > 1:
            delta_type = cast("type[TextMessageContent]", kind)
            merged[-1] = delta_type(id, "".join(pieces))
        pieces.clear()

    for event in events:
        this = type(event)
        if this is TextMessageContent or this is ReasoningMessageContent:
            event_id = cast("TextMessageContent", event).message_id
        elif this is ToolCallArgs:
            event_id = cast("ToolCallArgs", event).tool_call_id
        else:
            flush()
            kind = None
            merged.append(event)
            continue
        if this is not kind or event_id != id:
            flush()
            kind, id = this, event_id
            merged.append(event)
        pieces.append(cast("TextMessageContent", event).delta)
    flush()
    return merged
