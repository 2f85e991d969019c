"""AG-UI 1.0: events to its JSON and back. The event log keeps exactly this JSON.

Rule 1: `decode_event(encode_event(event)) == event`.
Rule 2: an optional field without a value is left out, never null; a value that may be anything may be null.
Rule 3: what AG-UI has no field for goes into `metadata`, beside what is there already:

    RUN_FINISHED       stopReason, tanstack.finishReason, tanstack.model
    TOOL_CALL_START    providerExecuted
    TOOL_CALL_RESULT   errorCode (with tanstack.state "output-error"), durationMs

Those keys belong to this codec: metadata that an event brings must not use them, and empty metadata is none.

An event of a run inside this one carries `subagentRunId`. An event's fields are its dataclass fields in camelCase;
`agui_extras` has the events that need more. The bare deltas, which are nearly all of a stream, have a way of their
own in `encode_event_json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from agent import events
from agent.errors import InvalidRequest
from agent.events import Event
from agent.wire import jsontext
from agent.wire.agui_extras import PROTOCOL_VERSION, decode_interrupt, encode_interrupt
from agent.wire.agui_input import ResumeAnswer, RunInput, decode_run_input
from agent.wire.agui_messages import decode_messages, encode_message, encode_messages
from agent.wire.agui_shapes import BY_TYPE, SHAPES
from agent.wire.parts import Json, dump_parts, load_parts
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


def encode_event(event: Event, *, echo_input: bool = True) -> Json:
    """`echo_input=False` leaves out RUN_STARTED's input: its sender has it, and it may be long."""
    shape = SHAPES[type(event)]
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
                f'{{"type":"{SHAPES[type(event)].type}",{stamp}"messageId":{jsontext.quote(event.message_id)},'
                f'"delta":{jsontext.quote(event.delta)}}}'
            )
        if isinstance(event, events.ToolCallArgs):
            return (
                f'{{"type":"TOOL_CALL_ARGS",{stamp}"toolCallId":{jsontext.quote(event.tool_call_id)},'
                f'"delta":{jsontext.quote(event.delta)}}}'
            )
    return jsontext.dump(encode_event(event, echo_input=echo_input))


def decode_event(wire: Mapping[str, Any]) -> Event:
    """Raises InvalidRequest for what is no event; fields that we do not keep are dropped."""
    shape = BY_TYPE.get(str(wire.get("type")))
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
