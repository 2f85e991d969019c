"""AG-UI 1.0: events to its JSON and back. The event log keeps exactly this JSON.

Rule 1: `decode_event(encode_event(event)) == event`.
Rule 2: an optional field without a value is left out, never null; a value that may be anything may be null.
Rule 3: what AG-UI has no field for goes into `metadata`, beside what is there already:

    RUN_FINISHED       stopReason, tanstack.finishReason, tanstack.model
    TOOL_CALL_START    providerExecuted
    TOOL_CALL_RESULT   errorCode (with tanstack.state "output-error"), durationMs

Those keys belong to this file: metadata that an event brings must not use them, and empty metadata is none.

An event of a run inside this one carries `subagentRunId`. An event's fields are its dataclass fields in camelCase;
`_EXTRAS` names the events that need more. The bare deltas, which are nearly all of a stream, have a way of their
own in `encode_event_json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple, cast, get_args

from agent import events
from agent.errors import InvalidRequest
from agent.events import Event
from agent.messages import Usage
from agent.wire import jsontext
from agent.wire.agui_input import ResumeAnswer, RunInput, decode_run_input
from agent.wire.agui_messages import (
    decode_messages,
    decode_result_content,
    encode_message,
    encode_messages,
    encode_result_content,
    merge_metadata,
    result_metadata,
    take_result_metadata,
    take_tanstack,
)
from agent.wire.parts import Json, dump_parts, load_parts, without_none
from agent.wire.ui_messages import encode_ui_messages

__all__ = [
    "PROTOCOL_VERSION",
    "ResumeAnswer",
    "RunInput",
    "decode_event",
    "decode_interrupt",
    "decode_messages",
    "decode_run_input",
    "dump_parts",
    "encode_event",
    "encode_event_json",
    "encode_interrupt",
    "encode_message",
    "encode_messages",
    "encode_ui_messages",
    "load_parts",
]

PROTOCOL_VERSION = "1.0"


# -- events to JSON ------------------------------------------------------------------------------------------


def encode_event(event: Event, *, echo_input: bool = True) -> Json:
    """`echo_input=False` leaves out RUN_STARTED's input: its sender has it, and it may be long."""
    shape = _SHAPES[type(event)]
    wire: Json = {"type": shape.type}
    if event.timestamp is not None:
        wire["timestamp"] = event.timestamp
    for field in shape.fields:
        value = getattr(event, field.name)
        if value is not None or field.required:
            wire[field.wire_name] = value
    if event.subagent_run_id is not None:
        wire["subagentRunId"] = event.subagent_run_id
    for name in shape.open:
        if name in wire:
            wire[name] = jsontext.plain(wire[name])
    if event.metadata:
        wire["metadata"] = jsontext.plain(event.metadata)
    if shape.encode is not None:
        shape.encode(event, wire)
    if not echo_input and isinstance(event, events.RunStarted):
        wire.pop("input", None)
    return wire


def encode_event_json(event: Event, *, echo_input: bool = True) -> str:
    """The same as JSON text, fit for a `data:` line: no line break, no broken UTF-8."""
    if event.metadata is None and event.subagent_run_id is None:
        stamp = "" if event.timestamp is None else f'"timestamp":{event.timestamp},'
        if isinstance(event, events.TextMessageContent | events.ReasoningMessageContent):
            return (
                f'{{"type":"{_SHAPES[type(event)].type}",{stamp}"messageId":{jsontext.quote(event.message_id)},'
                f'"delta":{jsontext.quote(event.delta)}}}'
            )
        if isinstance(event, events.ToolCallArgs):
            return (
                f'{{"type":"TOOL_CALL_ARGS",{stamp}"toolCallId":{jsontext.quote(event.tool_call_id)},'
                f'"delta":{jsontext.quote(event.delta)}}}'
            )
    return jsontext.dump(encode_event(event, echo_input=echo_input))


# -- JSON to events ------------------------------------------------------------------------------------------


def decode_event(wire: Mapping[str, Any]) -> Event:
    """Raises InvalidRequest for what is no event; fields that we do not keep are dropped."""
    shape = _BY_TYPE.get(str(wire.get("type")))
    if shape is None:
        raise InvalidRequest(f"type: {str(wire.get('type'))[:60]!r} is no AG-UI event.")
    values: Json = {"timestamp": wire.get("timestamp"), "subagent_run_id": wire.get("subagentRunId")}
    metadata = dict(wire.get("metadata") or {})
    try:
        for field in shape.fields:
            if field.required or wire.get(field.wire_name) is not None:
                values[field.name] = wire[field.wire_name]
        if shape.decode is not None:
            shape.decode(wire, values, metadata)
    except KeyError as missing:
        raise InvalidRequest(f"{missing.args[0]}: {shape.type} needs it.") from missing
    return cast("Event", shape.event(**values, metadata=metadata or None))


# -- the events that need more than their fields in camelCase ------------------------------------------------


def _encode_run_started(event: events.RunStarted, wire: Json) -> None:
    wire["protocolVersion"] = PROTOCOL_VERSION
    if event.input:
        wire["input"] = {
            "threadId": event.thread_id,
            "runId": event.run_id,
            "state": {},
            "messages": encode_messages(event.input, exact=True),
            "tools": [],
            "context": [],
            "forwardedProps": {},
        }


def _decode_run_started(wire: Mapping[str, Any], values: Json, metadata: Json) -> None:
    values["input"] = decode_messages((wire.get("input") or {}).get("messages") or ())


def _encode_run_finished(event: events.RunFinished, wire: Json) -> None:
    wire["outcome"] = _encode_outcome(event.outcome)
    _encode_usage(event, wire)
    tanstack = without_none(finishReason=event.finish_reason, model=event.model)
    ours = {"stopReason": event.stop_reason} | ({"tanstack": tanstack} if tanstack else {})
    wire["metadata"] = merge_metadata(wire.get("metadata"), ours)


def _decode_run_finished(wire: Mapping[str, Any], values: Json, metadata: Json) -> None:
    values["outcome"] = _decode_outcome(wire.get("outcome") or {})
    _decode_usage(wire, values, metadata)
    values["stop_reason"] = metadata.pop("stopReason", "stop")
    values["finish_reason"], values["model"] = take_tanstack(metadata, "finishReason", "model")


def _encode_outcome(outcome: events.Outcome) -> Json:
    match outcome:
        case events.Success(pending_tool_call_ids=pending):
            return {"type": "success"} | ({"pendingToolCallIds": list(pending)} if pending else {})
        case events.Interrupted(interrupts=interrupts):
            return {"type": "interrupt", "interrupts": [encode_interrupt(each) for each in interrupts]}
        case events.Cancelled():
            return {"type": "cancelled"}


def _decode_outcome(wire: Mapping[str, Any]) -> events.Outcome:
    match wire.get("type", "success"):
        case "interrupt":
            return events.Interrupted(tuple(decode_interrupt(each) for each in wire["interrupts"]))
        case "cancelled":
            return events.Cancelled()
    return events.Success(tuple(wire.get("pendingToolCallIds") or ()))


def encode_interrupt(interrupt: events.Interrupt) -> Json:
    return without_none(**{wire: getattr(interrupt, name) for name, wire in _INTERRUPT.items()})


def decode_interrupt(wire: Mapping[str, Any]) -> events.Interrupt:
    values: Json = {name: wire.get(wire_name) for name, wire_name in _INTERRUPT.items()}
    return events.Interrupt(**values)


def _encode_usage(event: events.RunFinished | events.RunError, wire: Json) -> None:
    if event.usage:
        wire["usage"] = [_encode_model_usage(each) for each in event.usage]


def _encode_model_usage(each: events.ModelUsage) -> Json:
    usage = each.usage
    return without_none(
        provider=each.provider,
        model=each.model,
        inputTokens=usage.input_tokens,
        outputTokens=usage.output_tokens,
        totalTokens=usage.total_tokens,
        reasoningTokens=usage.reasoning_tokens or None,
        cachedInputTokens=usage.cached_input_tokens or None,
        cacheWriteInputTokens=usage.cache_write_input_tokens or None,
    )


def _decode_usage(wire: Mapping[str, Any], values: Json, metadata: Json) -> None:
    values["usage"] = tuple(_decode_model_usage(each) for each in wire.get("usage") or ())


def _decode_model_usage(wire: Mapping[str, Any]) -> events.ModelUsage:
    usage = Usage(*(wire.get(wire_name) or 0 for wire_name in _USAGE))
    return events.ModelUsage(wire.get("model") or "", usage, wire.get("provider"))


def _encode_call_start(event: events.ToolCallStart, wire: Json) -> None:
    if event.provider_executed:
        wire["metadata"] = merge_metadata(wire.get("metadata"), {"providerExecuted": True})


def _decode_call_start(wire: Mapping[str, Any], values: Json, metadata: Json) -> None:
    values["provider_executed"] = bool(metadata.pop("providerExecuted", False))


def _encode_result(event: events.ToolCallResult, wire: Json) -> None:
    wire["content"] = encode_result_content(event.content)
    wire["role"] = "tool"
    if ours := result_metadata(event.error, event.duration_ms):
        wire["metadata"] = merge_metadata(wire.get("metadata"), ours)


def _decode_result(wire: Mapping[str, Any], values: Json, metadata: Json) -> None:
    values["content"] = decode_result_content(wire["content"])
    values["error"], values["duration_ms"] = take_result_metadata(metadata)


def _encode_subagent_end(event: events.SubagentFinished, wire: Json) -> None:
    if event.suspended:
        wire["outcome"] = {"type": "suspended", "interruptIds": list(event.suspended)}


def _decode_subagent_end(wire: Mapping[str, Any], values: Json, metadata: Json) -> None:
    values["suspended"] = tuple((wire.get("outcome") or {}).get("interruptIds") or ())


def _encode_reasoning_start(event: events.ReasoningMessageStart, wire: Json) -> None:
    wire["role"] = "reasoning"


def _encode_snapshot(event: events.MessagesSnapshot, wire: Json) -> None:
    wire["messages"] = encode_messages(event.messages, exact=True)


def _decode_snapshot(wire: Mapping[str, Any], values: Json, metadata: Json) -> None:
    values["messages"] = decode_messages(wire["messages"])


def _decode_patch(wire: Mapping[str, Any], values: Json, metadata: Json) -> None:
    name = "delta" if wire["type"] == "STATE_DELTA" else "patch"
    values[name] = tuple(values[name])


_INTERRUPT = {
    "id": "id",
    "reason": "reason",
    "message": "message",
    "tool_call_id": "toolCallId",
    "response_schema": "responseSchema",
    "expires_at": "expiresAt",
    "metadata": "metadata",
}
_USAGE = ("inputTokens", "outputTokens", "reasoningTokens", "cachedInputTokens", "cacheWriteInputTokens")

_Encode = Callable[[Any, Json], None]
_Decode = Callable[[Mapping[str, Any], Json, Json], None]

# Event: (what is done to the JSON, what is done to the values, fields that only these two may touch)
_EXTRAS: dict[type, tuple[_Encode | None, _Decode | None, frozenset[str]]] = {
    events.RunStarted: (_encode_run_started, _decode_run_started, frozenset({"input"})),
    events.RunFinished: (
        _encode_run_finished,
        _decode_run_finished,
        frozenset({"outcome", "usage", "finish_reason", "stop_reason", "model"}),
    ),
    events.RunError: (_encode_usage, _decode_usage, frozenset({"usage"})),
    events.ToolCallStart: (_encode_call_start, _decode_call_start, frozenset({"provider_executed"})),
    events.ToolCallResult: (_encode_result, _decode_result, frozenset({"error", "duration_ms"})),
    events.SubagentFinished: (_encode_subagent_end, _decode_subagent_end, frozenset({"suspended"})),
    events.ReasoningMessageStart: (_encode_reasoning_start, None, frozenset()),
    events.MessagesSnapshot: (_encode_snapshot, _decode_snapshot, frozenset()),
    events.StateDelta: (None, _decode_patch, frozenset()),
    events.ActivityDelta: (None, _decode_patch, frozenset()),
}

# Fields whose value is whatever an application or a tool put there; it becomes plain JSON.
_OPEN: dict[type, frozenset[str]] = {
    events.RunFinished: frozenset({"result"}),
    events.SubagentFinished: frozenset({"result"}),
    events.StateSnapshot: frozenset({"snapshot"}),
    events.StateDelta: frozenset({"delta"}),
    events.ActivitySnapshot: frozenset({"content"}),
    events.ActivityDelta: frozenset({"patch"}),
    events.Raw: frozenset({"event"}),
    events.Custom: frozenset({"value"}),
}


# -- the table of shapes, read off the dataclasses -----------------------------------------------------------


class _Field(NamedTuple):
    name: str
    wire_name: str
    required: bool


class _Shape(NamedTuple):
    event: type
    type: str
    fields: tuple[_Field, ...]
    open: frozenset[str]
    encode: _Encode | None
    decode: _Decode | None


_EVERYWHERE = frozenset({"timestamp", "metadata", "subagent_run_id"})


def _shape(event: type) -> _Shape:
    encode, decode, theirs = _EXTRAS.get(event, (None, None, frozenset()))
    own = [field for field in fields(event) if field.name not in {*_EVERYWHERE, *theirs}]
    return _Shape(
        event,
        _upper_snake(event.__name__),
        tuple(_Field(field.name, _camel(field.name), field.default is MISSING) for field in own),
        _OPEN.get(event, frozenset()),
        encode,
        decode,
    )


def _upper_snake(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name).lstrip("_").upper()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_SHAPES: dict[type, _Shape] = {event: _shape(event) for event in get_args(Event)}
_BY_TYPE: dict[str, _Shape] = {shape.type: shape for shape in _SHAPES.values()}
