"""A transcript as TanStack AI's UIMessages, for a client that reads its thread back (`GET /api/chat`).

    ours          theirs
    system        one message of text parts (`developer` is `system` there)
    user          one message of text and media parts
    assistant     one message: thinking, text and tool-call in order, then a tool-result for each call
    tool          none of its own: its results stand in the assistant's message that asked

A call is `input-complete` while it is open (`approval-requested` when a person is asked about it), then `complete`
or `error`; `output` is the result as parsed JSON. `arguments` stay the model's, `input` is what the tool got.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from agent.events import Interrupt
from agent.messages import (
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from agent.wire.agui_messages import call_metadata, encode_source, error_text
from agent.wire.parts import Json, without_none

Results = Mapping[str, ToolResultPart]
Asked = Mapping[str | None, str]
"""The id of the open interrupt about a call, by the call's id."""


def encode_ui_messages(
    transcript: Iterable[Message],
    created_at: Mapping[str, str] | None = None,
    interrupts: Iterable[Interrupt] = (),
) -> list[Json]:
    """`created_at` gives a message's time (ISO 8601) by its id, for those that have one; `interrupts` are the open
    ones."""
    messages = list(transcript)
    asked = {interrupt.tool_call_id: interrupt.id for interrupt in interrupts}
    results = {result.tool_call_id: result for message in messages for result in message.tool_results}
    times = created_at or {}
    return [
        _encode(message, results, asked, times.get(message.id))
        for message in messages
        if message.role != "tool"
    ]


def _encode(message: Message, results: Results, asked: Asked, created_at: str | None) -> Json:
    model = message.metadata.get("model")
    metadata = without_none(finishReason=message.finish_reason, tanstack={"model": model} if model else None)
    return without_none(
        id=message.id,
        role="system" if message.role == "developer" else message.role,
        parts=[
            *(wire for part in message.parts for wire in _encode_part(part, results, asked)),
            *(_encode_result(results[call.id]) for call in message.tool_calls if call.id in results),
        ],
        createdAt=created_at,
        metadata=metadata or None,
    )


def _encode_part(part: Part, results: Results, asked: Asked) -> list[Json]:
    match part:
        case TextPart() | ImagePart() | FilePart():
            return [_encode_content(part)]
        case ThinkingPart():
            # A thought that the provider keeps to itself has nothing to show.
            return [{"type": "thinking", "content": part.text}] if part.text else []
        case ToolCallPart():
            return [_encode_call(part, results.get(part.id), asked.get(part.id))]
        case ToolResultPart():
            return []


def _encode_content(part: ContentPart) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "content": part.text}
        case ImagePart() | FilePart():
            kind = "image" if isinstance(part, ImagePart) else part.kind
            wire: Json = {"type": kind, "source": encode_source(part)}
            return wire | {"metadata": {"name": part.name}} if part.name is not None else wire


def _encode_call(call: ToolCallPart, result: ToolResultPart | None, interrupt_id: str | None) -> Json:
    wire: Json = {"type": "tool-call", "id": call.id, "name": call.name, "arguments": call.arguments}
    arguments = _parse(call.used_arguments or "{}")
    if not isinstance(arguments, str):
        wire["input"] = arguments
    if metadata := call_metadata(call):
        wire["metadata"] = metadata
    if result is None and interrupt_id is not None:
        return wire | {"state": "approval-requested", "approval": {"id": interrupt_id, "needsApproval": True}}
    if result is None:
        return wire | {"state": "input-complete"}
    return wire | {"state": _state(result), "output": _output(result)}


def _state(result: ToolResultPart) -> str:
    return "complete" if result.error is None else "error"


def _encode_result(result: ToolResultPart) -> Json:
    content: Any = result.content
    if not isinstance(content, str):
        content = [_encode_content(part) for part in content]
    return without_none(
        type="tool-result",
        toolCallId=result.tool_call_id,
        content=content,
        state=_state(result),
        error=None if result.error is None else error_text(result),
    )


def _output(result: ToolResultPart) -> Any:
    if isinstance(result.content, str):
        return _parse(result.content)
    return [_encode_content(part) for part in result.content]


def _parse(text: str) -> Any:
    """The JSON value, or the text itself where it is none (as `Infinity`, which models write)."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is too large")
    return number
