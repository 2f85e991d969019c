"""Folds of the events of calls, of their results, and of what is kept beside a call (`reducer` has the table)."""

from __future__ import annotations

from typing import Any

from agent import events
from agent.live import locate, noted, opened, put_part
from agent.messages import Message, ToolCallPart, ToolResultPart, Transcript


def open_call(transcript: Transcript, event: events.ToolCallStart) -> Transcript:
    # Without a parent the call gets a message of its own, as AG-UI's clients build it.
    transcript, at = opened(transcript, event.parent_message_id or event.tool_call_id, "assistant")
    parts = transcript.live[at].parts
    if any(isinstance(part, ToolCallPart) and part.id == event.tool_call_id for part in parts):
        return transcript
    call = ToolCallPart(event.tool_call_id, event.tool_call_name, "", event.provider_executed)
    return put_part(transcript, at, len(parts), call)


def grow_arguments(transcript: Transcript, event: events.ToolCallArgs) -> Transcript:
    return _argued(transcript, event.tool_call_id, event.delta)


def call_chunk(transcript: Transcript, event: events.ToolCallChunk) -> Transcript:
    call_id = event.tool_call_id
    if call_id is None:
        call_id = next(
            (call.id for message in reversed(transcript.live) for call in reversed(message.tool_calls)), ""
        )
    elif event.tool_call_name is not None:
        start = events.ToolCallStart(call_id, event.tool_call_name, event.parent_message_id)
        transcript = open_call(transcript, start)
    return _argued(transcript, call_id, event.delta or "")


def _argued(transcript: Transcript, call_id: str, delta: str) -> Transcript:
    if not delta:
        return transcript
    # Calls may interleave, so the one that grows is not always the last part.
    for at in range(len(transcript.live) - 1, -1, -1):
        parts = transcript.live[at].parts
        for index in range(len(parts) - 1, -1, -1):
            part = parts[index]
            if type(part) is ToolCallPart and part.id == call_id:
                return put_part(transcript, at, index, part.grow(delta))
    caller = next((m for m in reversed(transcript.settled) if _asks(m, call_id)), None)
    return transcript if caller is None else _argued(locate(transcript, caller.id)[0], call_id, delta)


def _asks(message: Message, call_id: str) -> bool:
    return any(type(part) is ToolCallPart and part.id == call_id for part in message.parts)


def answer(transcript: Transcript, event: events.ToolCallResult) -> Transcript:
    behind = _behind_call(transcript, event.tool_call_id)
    if behind < 0:
        return transcript
    result = ToolResultPart(event.tool_call_id, event.content, event.error, event.duration_ms)
    message = Message(event.message_id, "tool", (result,), None, dict(event.metadata or {}))
    transcript = _settle_caller(transcript, event.tool_call_id, message.metadata)
    if behind == len(transcript):
        return transcript.append(message)
    # Somebody spoke before the call was answered: its result still stands behind its call.
    messages = transcript.messages
    return Transcript(messages[:behind], live=(message, *messages[behind:]))


def _settle_caller(transcript: Transcript, call_id: str, beside: events.Metadata) -> Transcript:
    """What a result does to the message that made the call: edited arguments come, a subagent's state goes."""
    caller = next(message for message in reversed(transcript) if _asks(message, call_id))
    edited, states = beside.get("editedArguments"), caller.metadata.get("subagents", {})
    if not isinstance(edited, str) and call_id not in states:
        return transcript
    transcript, at = locate(transcript, caller.id)
    if call_id in states:
        left = {id: state for id, state in states.items() if id != call_id}
        metadata = {key: value for key, value in caller.metadata.items() if key != "subagents"}
        transcript = noted(transcript, at, metadata | ({"subagents": left} if left else {}))
    if isinstance(edited, str):
        for index, part in enumerate(caller.parts):
            if type(part) is ToolCallPart and part.id == call_id:
                return put_part(transcript, at, index, part.with_edit(edited))
    return transcript


def keep(transcript: Transcript, event: events.Custom) -> Transcript:
    match event:
        case events.Custom(
            name="provider_result", value={"messageId": str(id), "toolCallId": str(call_id), "block": block}
        ):
            return _keep_beside(transcript, id, "providerResults", call_id, block)
        case events.Custom(name="subagent_state", value={"toolCallId": str(call_id), **state}):
            caller = next((message for message in reversed(transcript) if _asks(message, call_id)), None)
            return _keep_beside(transcript, caller.id, "subagents", call_id, state) if caller else transcript
    return transcript  # an application's own event, also one of those names


def _keep_beside(transcript: Transcript, id: str, key: str, call_id: str, value: Any) -> Transcript:
    transcript, at = locate(transcript, id)
    if at < 0:
        return transcript
    kept = transcript.live[at].metadata
    return noted(transcript, at, {**kept, key: {**kept.get(key, {}), call_id: value}})


def _behind_call(transcript: Transcript, call_id: str) -> int:
    """The place behind the call's message and its results so far; -1 if unknown, or answered already."""
    place = behind = len(transcript)
    for message in reversed(transcript):
        if any(part.tool_call_id == call_id for part in message.tool_results):
            return -1
        if _asks(message, call_id):
            return behind
        place -= 1
        if message.role != "tool":
            behind = place
    return -1
