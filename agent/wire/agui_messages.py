"""Messages as AG-UI has them.

One of our messages may be several of theirs: AG-UI keeps thoughts in messages of their own in front of the
assistant's, and has one tool message for each result.

    ours                      theirs
    system, developer, user   one message; content is text, or a list when there is more than one text part
    assistant                 reasoning..., then one assistant message with content and toolCalls
    tool                      one tool message for each result; the first has the message's id

The order of text, thoughts and calls inside a turn has no place in that shape. With `exact=True` a message
that would lose something is taken along whole under `metadata.exact`, so that `decode_messages` gives the
same value back. The event log uses that; clients do not need it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.events import reasoning_id
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
from agent.wire.parts import Json, dump_parts, load_parts, without_none

EXACT = "exact"
TAKEN_ALONG = frozenset(("role", "parts", "metadata"))
"""What stands under it at least. Anything else by that name is metadata of somebody's own."""
PART_OF = "partOf"


# -- ours to theirs ------------------------------------------------------------------------------------------


def encode_messages(transcript: Iterable[Message], *, exact: bool = False) -> list[Json]:
    return [wire for message in transcript for wire in encode_message(message, exact=exact)]


def encode_message(message: Message, *, exact: bool = False) -> list[Json]:
    wires = _ENCODERS.get(message.role, _encode_plain)(message)
    if exact and (EXACT in message.metadata or decode_messages(wires) != (message,)):
        _take_along(wires, message)
    return wires


def _encode_plain(message: Message) -> list[Json]:
    content: str | list[Json] = message.text
    if message.role == "user" and not _is_one_text(message.parts):
        content = encode_content(part for part in message.parts if isinstance(part, ContentPart))
    return [_with_metadata({"id": message.id, "role": message.role, "content": content}, message)]


def _is_one_text(parts: tuple[Part, ...]) -> bool:
    return len(parts) <= 1 and all(isinstance(part, TextPart) for part in parts)


def _encode_assistant(message: Message) -> list[Json]:
    thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
    wires = [
        _encode_thought(reasoning_id(message.id, number), part) for number, part in enumerate(thoughts, 1)
    ]
    wire: Json = {"id": message.id, "role": "assistant"}
    if message.text or not message.tool_calls:
        wire["content"] = message.text
    if message.tool_calls:
        wire["toolCalls"] = [_encode_call(call) for call in message.tool_calls]
    return [*wires, _with_metadata(wire, message)]


def _encode_thought(id: str, part: ThinkingPart) -> Json:
    wire = without_none(
        id=id, role="reasoning", content=part.text, encryptedValue=part.signature or part.redacted
    )
    redacted = True if part.redacted is not None else None
    metadata = without_none(redacted=redacted, durationMs=part.duration_ms)
    return wire | {"metadata": metadata} if metadata else wire


def _encode_call(call: ToolCallPart) -> Json:
    wire: Json = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    metadata = call_metadata(call)
    return wire | {"metadata": metadata} if metadata else wire


def call_metadata(call: ToolCallPart) -> Json:
    """`arguments` stay the model's; what a person made of them stands beside."""
    return without_none(providerExecuted=call.provider_executed or None, editedArguments=call.edited)


def _encode_tool(message: Message) -> list[Json]:
    wires = []
    for number, result in enumerate(message.tool_results, 1):
        wire: Json = {
            "id": message.id if number == 1 else f"{message.id}-{number}",
            "role": "tool",
            "toolCallId": result.tool_call_id,
            "content": encode_result_content(result.content),
        }
        if result.error is not None:
            wire["error"] = error_text(result)
        metadata = result_metadata(result.error, result.duration_ms)
        if number > 1:
            metadata[PART_OF] = message.id
        wires.append(_with_metadata(wire, message, metadata))
    return wires


def _take_along(wires: list[Json], message: Message) -> None:
    if not wires:  # a tool message without a result has no shape of theirs at all
        wires.append({"id": message.id, "role": "assistant", "content": ""})
    keeper = wires[0] if message.role == "tool" else wires[-1]
    exact = without_none(
        role=message.role,
        parts=dump_parts(message.parts),
        finishReason=message.finish_reason,
        metadata=dict(message.metadata),
    )
    keeper["metadata"] = {**keeper.get("metadata", {}), EXACT: exact}


def _with_metadata(wire: Json, message: Message, ours: Json | None = None) -> Json:
    metadata = merge_metadata(
        message.metadata, without_none(finishReason=message.finish_reason) | (ours or {})
    )
    return wire | {"metadata": metadata} if metadata else wire


def merge_metadata(theirs: Mapping[str, Any] | None, ours: Json) -> Json:
    """Both, ours winning; `tanstack` is merged one level deeper, for others may write there too."""
    merged = {**(theirs or {}), **ours}
    if "tanstack" in ours and theirs and isinstance(theirs.get("tanstack"), Mapping):
        merged["tanstack"] = {**theirs["tanstack"], **ours["tanstack"]}
    return merged


_ENCODERS = {"assistant": _encode_assistant, "tool": _encode_tool}


# -- content, shared with TOOL_CALL_RESULT -------------------------------------------------------------------


def encode_result_content(content: str | tuple[ContentPart, ...]) -> str | list[Json]:
    return content if isinstance(content, str) else encode_content(content)


def encode_content(parts: Iterable[ContentPart]) -> list[Json]:
    return [_encode_content_part(part) for part in parts]


def _encode_content_part(part: ContentPart) -> Json:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kind = "image" if isinstance(part, ImagePart) else part.kind
    wire: Json = {"type": kind, "source": encode_source(part)}
    if part.name is not None:
        wire["metadata"] = {"name": part.name}
    return wire


def encode_source(part: ImagePart | FilePart) -> Json:
    if part.data is not None:
        return {"type": "data", "value": part.data, "mimeType": part.mime_type or "application/octet-stream"}
    return without_none(type="url", value=part.url or "", mimeType=part.mime_type)


def decode_content(content: Any) -> tuple[ContentPart, ...]:
    """The parts of a content that AG-UI's types have taken already."""
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    return tuple(_decode_content_part(part) for part in content)


def _decode_content_part(wire: Mapping[str, Any]) -> ContentPart:
    if wire["type"] == "text":
        return TextPart(wire["text"])
    source = wire["source"]
    mime_type, value = source.get("mimeType"), source["value"]
    data, url = (value, None) if source["type"] == "data" else (None, value)
    name = (wire.get("metadata") or {}).get("name")
    if wire["type"] == "image":
        return ImagePart(mime_type, data, url, name)
    return FilePart(wire["type"], mime_type, data, url, name)


def decode_result_content(content: Any) -> str | tuple[ContentPart, ...]:
    return content if isinstance(content, str) else decode_content(content)


# -- a result's extras, shared with TOOL_CALL_RESULT ---------------------------------------------------------


def result_metadata(error: str | None, duration_ms: int | None) -> Json:
    metadata = without_none(errorCode=error, durationMs=duration_ms)
    return metadata | {"tanstack": {"state": "output-error"}} if error is not None else metadata


def error_text(result: ToolResultPart) -> str:
    """What went wrong, in words: the `error` of the result's JSON, or the result as it is, or its code."""
    if not isinstance(result.content, str):
        return result.error or "error"
    try:
        said = json.loads(result.content)["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        said = None
    return said if isinstance(said, str) and said else result.content or result.error or "error"


# -- theirs to ours ------------------------------------------------------------------------------------------


def decode_messages(wires: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """What `encode_messages(..., exact=True)` made, as it was. Activity messages are in no transcript."""
    messages: list[Message] = []
    thoughts: list[Part] = []
    for wire in wires:
        if wire["role"] == "reasoning":
            thoughts.append(_decode_thought(wire))
        elif wire["role"] != "activity" and PART_OF not in (wire.get("metadata") or {}):
            messages.append(_decode_message(wire, thoughts))
            thoughts = []
    return tuple(messages)


def _decode_thought(wire: Mapping[str, Any]) -> ThinkingPart:
    secret, metadata = wire.get("encryptedValue"), wire.get("metadata") or {}
    duration_ms = metadata.get("durationMs")
    if metadata.get("redacted"):
        return ThinkingPart(wire["content"], redacted=secret, duration_ms=duration_ms)
    return ThinkingPart(wire["content"], signature=secret, duration_ms=duration_ms)


def _decode_message(wire: Mapping[str, Any], thoughts: list[Part]) -> Message:
    metadata = dict(wire.get("metadata") or {})
    exact = metadata.get(EXACT)
    if isinstance(exact, Mapping) and exact.keys() >= TAKEN_ALONG:
        return Message(
            id=wire["id"],
            role=exact["role"],
            parts=load_parts(exact["parts"]),
            finish_reason=exact.get("finishReason"),
            metadata=exact["metadata"],
        )
    finish_reason = metadata.pop("finishReason", None)
    parts = _decode_parts(wire, metadata, thoughts)
    return Message(wire["id"], wire["role"], parts, finish_reason, metadata)


def _decode_parts(wire: Mapping[str, Any], metadata: Json, thoughts: list[Part]) -> tuple[Part, ...]:
    if wire["role"] == "tool":
        return (_decode_result(wire, metadata),)
    if wire["role"] == "assistant":
        calls = tuple(_decode_call(call) for call in wire.get("toolCalls") or ())
        return (*thoughts, *decode_content(wire.get("content") or ""), *calls)
    return decode_content(wire["content"])


def _decode_result(wire: Mapping[str, Any], metadata: Json) -> ToolResultPart:
    error, duration_ms = take_result_metadata(metadata)
    return ToolResultPart(wire["toolCallId"], decode_result_content(wire["content"]), error, duration_ms)


def take_result_metadata(metadata: Json) -> tuple[str | None, int | None]:
    """The error code and the duration, taken out of `metadata`, which keeps what is not ours."""
    error = metadata.pop("errorCode", None)
    if error is not None:
        take_tanstack(metadata, "state")
    return error, metadata.pop("durationMs", None)


def take_tanstack(metadata: Json, *keys: str) -> list[Any]:
    """Our `keys` of `metadata.tanstack`, taken out of it; what others wrote there stays."""
    theirs = dict(metadata.pop("tanstack", None) or {})
    taken = [theirs.pop(key, None) for key in keys]
    if theirs:
        metadata["tanstack"] = theirs
    return taken


def _decode_call(wire: Mapping[str, Any]) -> ToolCallPart:
    metadata, function = wire.get("metadata") or {}, wire["function"]
    executed, edited = bool(metadata.get("providerExecuted")), metadata.get("editedArguments")
    return ToolCallPart(wire["id"], function["name"], function["arguments"], executed, edited)
