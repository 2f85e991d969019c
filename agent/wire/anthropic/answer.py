"""A turn as a messages answer, streamed or in one piece.

The protocol has one block open at a time; other providers keep several calls open at once. So an event of
another thing than the open one waits until that one ends: a second call's arguments then come late, but never
mixed. A turn that broke off gets no `message_delta` and no `message_stop`, so that no caller takes it for
whole.
"""

from __future__ import annotations

from typing import Any

from agent.errors import AgentError
from agent.events import (
    Custom,
    ReasoningEncryptedValue,
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    TextMessageContent,
    TextMessageEnd,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    TurnEnd,
    TurnEvent,
)
from agent.messages import Message, TextPart, ThinkingPart, ToolCallPart, Usage
from agent.wire.jsonload import call_object
from agent.wire.jsontext import dump

Json = dict[str, Any]

_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


class StreamEncoder:
    """`feed` each event, then `finish` once with how the turn ended (or `error`)."""

    def __init__(self, *, id: str, model: str, input_tokens: int = 0) -> None:
        self._start = _head(id, model) | {"usage": {"input_tokens": input_tokens, "output_tokens": 0}}
        self._begun = False
        self._index = -1
        self._open: str | None = None
        self._waiting: list[TurnEvent] = []
        self._out: list[bytes] = []

    def feed(self, event: TurnEvent) -> bytes:
        if self._must_wait(event):
            self._waiting.append(event)
            return b""
        self._write(event)
        self._write_waiting()
        return self._take()

    def finish(self, end: TurnEnd) -> bytes:
        if end.finish_reason is None:
            return b""
        self._begin()
        self._close()
        self._write_waiting()
        self._close()
        delta = {"stop_reason": stop_reason(end), "stop_sequence": None}
        self._frame("message_delta", delta=delta, usage=encode_usage(end.usage))
        self._frame("message_stop")
        return self._take()

    def error(self, error: AgentError) -> bytes:
        """An error where a stream has begun already; nothing follows it."""
        self._frame("error", error={"type": "api_error", "message": str(error)})
        return self._take()

    def ping(self) -> bytes:
        self._begin()
        self._frame("ping")
        return self._take()

    def _must_wait(self, event: TurnEvent) -> bool:
        return self._open is not None and _key(event) != self._open

    def _write_waiting(self) -> None:
        while self._open is None and self._waiting:
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                if self._must_wait(event):
                    self._waiting.append(event)
                else:
                    self._write(event)

    def _write(self, event: TurnEvent) -> None:
        match event:
            case TextMessageContent(delta=text):
                self._open_block(event, {"type": "text", "text": ""})
                self._delta({"type": "text_delta", "text": text})
            case ReasoningMessageContent(delta=thinking):
                self._open_block(event, {"type": "thinking", "thinking": "", "signature": ""})
                self._delta({"type": "thinking_delta", "thinking": thinking})
            case ReasoningEncryptedValue(subtype="message", encrypted_value=value):
                self._sign(event, value)
            case ToolCallStart(tool_call_id=id, tool_call_name=name, provider_executed=theirs):
                kind = "server_tool_use" if theirs else "tool_use"
                self._open_block(event, {"type": kind, "id": id, "name": name, "input": {}})
            case ToolCallArgs(delta=delta):
                self._delta({"type": "input_json_delta", "partial_json": delta})
            case TextMessageEnd() | ReasoningMessageEnd() | ToolCallEnd():
                self._close()
            case Custom(name="provider_result", value=value):
                self._open_block(event, value["block"])
                self._close()

    def _sign(self, event: ReasoningEncryptedValue, value: str) -> None:
        if event.metadata and event.metadata.get("redacted"):
            self._open_block(event, {"type": "redacted_thinking", "data": value})
        else:
            self._open_block(event, {"type": "thinking", "thinking": "", "signature": ""})
            self._delta({"type": "signature_delta", "signature": value})

    def _open_block(self, event: TurnEvent, block: Json) -> None:
        if self._open is None:
            self._begin()
            self._index += 1
            self._open = _key(event)
            self._frame("content_block_start", index=self._index, content_block=block)

    def _delta(self, delta: Json) -> None:
        if self._open is not None:
            self._frame("content_block_delta", index=self._index, delta=delta)

    def _close(self) -> None:
        if self._open is not None:
            self._open = None
            self._frame("content_block_stop", index=self._index)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._frame("message_start", message=self._start)

    def _frame(self, type: str, **fields: Any) -> None:
        self._out.append(f"event: {type}\ndata: {dump({'type': type, **fields})}\n\n".encode())

    def _take(self) -> bytes:
        out, self._out = b"".join(self._out), []
        return out


def _key(event: TurnEvent) -> str:
    """What an event belongs to."""
    match event:
        case ToolCallStart() | ToolCallArgs() | ToolCallEnd():
            return f"call {event.tool_call_id}"
        case ReasoningEncryptedValue():
            return f"thought {event.entity_id}"
        case ReasoningStart() | ReasoningMessageStart() | ReasoningMessageContent():
            return f"thought {event.message_id}"
        case ReasoningMessageEnd() | ReasoningEnd():
            return f"thought {event.message_id}"
        case Custom():
            return "custom"
    return "text"


def encode_response(message: Message, end: TurnEnd, *, id: str, model: str, created: int) -> Json:
    """`created` is for the other protocol; this one has no such field."""
    kept = message.metadata.get("providerResults") or {}
    content: list[Json] = []
    for part in message.parts:
        match part:
            case TextPart() if part.text:
                content.append({"type": "text", "text": part.text})
            case ThinkingPart(redacted=str(data)):
                content.append({"type": "redacted_thinking", "data": data})
            case ThinkingPart():
                thought = {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
                content.append(thought)
            case ToolCallPart():
                kind = "server_tool_use" if part.provider_executed else "tool_use"
                arguments = call_object(part.arguments)
                content.append({"type": kind, "id": part.id, "name": part.name, "input": arguments})
                if part.id in kept:
                    content.append(kept[part.id])
    return _head(id, model) | {
        "content": content,
        "stop_reason": stop_reason(end),
        "usage": encode_usage(end.usage),
    }


def _head(id: str, model: str) -> Json:
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def stop_reason(end: TurnEnd) -> str | None:
    if end.finish_reason is None:
        return None
    return "pause_turn" if end.paused else _REASONS[end.finish_reason]


def encode_usage(usage: Usage) -> Json:
    """Here the input does not include what the cache held or took."""
    cached, written = usage.cached_input_tokens, usage.cache_write_input_tokens
    return {
        "input_tokens": max(0, usage.input_tokens - cached - written),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
