"""The events that are more than their fields in camelCase, and what is done about each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent import events
from agent.messages import Usage
from agent.wire.agui_messages import (
    decode_messages,
    decode_result_content,
    encode_messages,
    encode_result_content,
    merge_metadata,
    result_metadata,
    take_result_metadata,
    take_tanstack,
)
from agent.wire.parts import Json, without_none

PROTOCOL_VERSION = "1.0"


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

Encode = Callable[[Any, Json], None]
Decode = Callable[[Mapping[str, Any], Json, Json], None]

# Event: (what is done to the JSON, what is done to the values, fields that only these two may touch)
EXTRAS: dict[type, tuple[Encode | None, Decode | None, frozenset[str]]] = {
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
