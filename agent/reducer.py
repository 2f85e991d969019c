"""The one fold: a thread is its transcript, and a transcript is its events, applied in order.

Rule 1: `apply` is pure. The loop, the store and the tests use it, so what was shown, what is kept and what
the model reads next cannot differ.
Rule 2: a delta touches `Transcript.live` only, so its cost does not depend on what came before. The live
messages are settled when the next turn starts.

    event                          what it does
    RunStarted                     appends those of its input messages whose id is new
    StepStarted                    settles what is live
    StepFinished                   sets finish_reason and metadata of its turn's message, if there is one
    TextMessageStart               opens the message, if its id is new
    TextMessageContent             grows the last part of the message if that is text, else begins one
    ReasoningMessage*              begins and grows a thinking part of the turn's message; its end says how long it was
    ReasoningEncryptedValue        signs the thought, or stands for one that is not shown
    ToolCallStart                  adds a call to its parent message, opening that if needed
    ToolCallArgs                   grows that call, whatever else came in between
    ToolCallResult                 adds a tool message behind its call; a call's first result stays. Its metadata's
                                   editedArguments become the call's `edited`
    *Chunk                         a start (if the id is new) and a delta; without an id the newest goes on
    Custom provider_result         kept in the metadata of its message: what a provider's own tool gave
    Custom subagent_state          kept in the metadata of the message that made the call, until that has its result
    MessagesSnapshot               replaces everything
    all others                     leave the transcript alone

An event for something that is not in the transcript changes nothing. The loop never says one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agent import events
from agent.events import message_id_of_reasoning
from agent.messages import (
    FINISH_REASONS,
    FinishReason,
    Message,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
)

TURN_METADATA = ("model", "usage", "durationMs", "providerReason", "paused")
"""What a message keeps of its StepFinished's metadata, besides the finish reason."""


def apply(transcript: Transcript, event: events.Event) -> Transcript:
    fold = _FOLDS.get(type(event))
    # What a run inside this one says is in the transcript of that.
    return transcript if fold is None or event.subagent_run_id is not None else fold(transcript, event)


def apply_inner(transcript: Transcript, event: events.Event) -> Transcript:
    """The same for the transcript of the inner run that the event is of."""
    fold = _FOLDS.get(type(event))
    return transcript if fold is None else fold(transcript, event)


def apply_all(transcript: Transcript, stream: Iterable[events.Event]) -> Transcript:
    for event in stream:
        transcript = apply(transcript, event)
    return transcript


# -- the run and its turns -----------------------------------------------------------------------------------


def _take_input(transcript: Transcript, event: events.RunStarted) -> Transcript:
    if event.input:
        known = {message.id for message in transcript}
        for message in event.input:
            if message.id not in known:
                known.add(message.id)
                transcript = transcript.append(message)
    return transcript


def _settle(transcript: Transcript, event: events.StepStarted) -> Transcript:
    return transcript.settle()


def _end_turn(transcript: Transcript, event: events.StepFinished) -> Transcript:
    facts = event.metadata or {}
    transcript, at = _locate(transcript, str(facts.get("messageId", "")))
    if at < 0:
        return transcript
    message = transcript.live[at]
    kept = {key: facts[key] for key in TURN_METADATA if key in facts}
    reason = _true_reason(facts)
    return _put(
        transcript,
        at,
        Message(message.id, message.role, message.parts, reason, {**message.metadata, **kept}),
    )


def _true_reason(facts: events.Metadata) -> FinishReason | None:
    reason = facts.get("storedFinishReason", facts.get("finishReason"))
    return reason if reason in FINISH_REASONS else None


def _replace_all(transcript: Transcript, event: events.MessagesSnapshot) -> Transcript:
    return Transcript(event.messages)


# -- text ----------------------------------------------------------------------------------------------------


def _open_message(transcript: Transcript, event: events.TextMessageStart) -> Transcript:
    return _opened(transcript, event.message_id, event.role)[0]


def _grow_text(transcript: Transcript, event: events.TextMessageContent) -> Transcript:
    transcript, at = _locate(transcript, event.message_id)
    return _said(transcript, at, event.delta)


def _text_chunk(transcript: Transcript, event: events.TextMessageChunk) -> Transcript:
    if event.message_id is None:
        at = len(transcript.live) - 1
    else:
        transcript, at = _opened(transcript, event.message_id, event.role or "assistant")
    return _said(transcript, at, event.delta or "")


def _said(transcript: Transcript, at: int, delta: str) -> Transcript:
    if at < 0 or not delta:
        return transcript
    message = transcript.live[at]
    last = message.parts[-1] if message.parts else None
    if isinstance(last, TextPart):
        return _with_part(transcript, at, len(message.parts) - 1, last.grow(delta))
    return _with_part(transcript, at, len(message.parts), TextPart(delta))


# -- thoughts ------------------------------------------------------------------------------------------------


def _open_thought(transcript: Transcript, event: events.ReasoningMessageStart) -> Transcript:
    transcript, at = _opened(transcript, _thinker(event.message_id), "assistant")
    known = _thought(transcript.live[at], event.message_id) >= 0
    return transcript if known else _think(transcript, at, ThinkingPart())


def _grow_thought(transcript: Transcript, event: events.ReasoningMessageContent) -> Transcript:
    transcript, at = _locate(transcript, _thinker(event.message_id))
    return _thought_on(transcript, at, event.message_id, event.delta)


def _thought_chunk(transcript: Transcript, event: events.ReasoningMessageChunk) -> Transcript:
    id = event.message_id
    if id is None:
        return _thought_on(transcript, len(transcript.live) - 1, "", event.delta or "")
    transcript = _open_thought(transcript, events.ReasoningMessageStart(id))
    return _grow_thought(transcript, events.ReasoningMessageContent(id, event.delta or ""))


def _thought_on(transcript: Transcript, at: int, id: str, delta: str) -> Transcript:
    if at < 0 or not delta:
        return transcript
    message = transcript.live[at]
    index = _thought(message, id)
    if index < 0:
        # Whoever does not number thoughts from 1 on means the newest.
        index = _last_thought(message)
    if index < 0:
        return transcript
    part = message.parts[index]
    assert isinstance(part, ThinkingPart)
    return _with_part(transcript, at, index, part.grow(delta))


def _end_thought(transcript: Transcript, event: events.ReasoningMessageEnd) -> Transcript:
    duration_ms = (event.metadata or {}).get("durationMs")
    transcript, at = _locate(transcript, _thinker(event.message_id))
    index = _thought(transcript.live[at], event.message_id) if at >= 0 else -1
    if index < 0 or not isinstance(duration_ms, int):
        return transcript
    part = transcript.live[at].parts[index]
    assert isinstance(part, ThinkingPart)
    return _with_part(transcript, at, index, part.timed(duration_ms))


def _seal_thought(transcript: Transcript, event: events.ReasoningEncryptedValue) -> Transcript:
    # A signature of a tool call has no place in our values; no provider we speak to gives one.
    if event.subtype != "message":
        return transcript
    transcript, at = _opened(transcript, _thinker(event.entity_id), "assistant")
    message = transcript.live[at]
    index = _thought(message, event.entity_id)
    part = message.parts[index] if index >= 0 else ThinkingPart()
    assert isinstance(part, ThinkingPart)
    if (event.metadata or {}).get("redacted"):
        sealed = ThinkingPart(part.text, part.signature, event.encrypted_value, part.duration_ms)
    else:
        sealed = part.signed(event.encrypted_value)
    return _with_part(transcript, at, index if index >= 0 else len(message.parts), sealed)


def _thinker(id: str) -> str:
    """The message that a thought belongs to; one whose id is of another making has a message of its own."""
    return message_id_of_reasoning(id) or id


def _thought(message: Message, id: str) -> int:
    """Where the thought `<messageId>-reasoning-<n>` stands in its message, or -1."""
    number = id[len(message.id) + len("-reasoning-") :]
    left = int(number) if number.isdecimal() else 1
    for index, part in enumerate(message.parts):
        if isinstance(part, ThinkingPart):
            left -= 1
            if left == 0:
                return index
    return -1


def _last_thought(message: Message) -> int:
    parts = message.parts
    return next((i for i in range(len(parts) - 1, -1, -1) if isinstance(parts[i], ThinkingPart)), -1)


def _think(transcript: Transcript, at: int, part: ThinkingPart) -> Transcript:
    return _with_part(transcript, at, len(transcript.live[at].parts), part)


# -- calls and results ---------------------------------------------------------------------------------------


def _open_call(transcript: Transcript, event: events.ToolCallStart) -> Transcript:
    # Without a parent the call gets a message of its own, as AG-UI's clients build it.
    transcript, at = _opened(transcript, event.parent_message_id or event.tool_call_id, "assistant")
    parts = transcript.live[at].parts
    if any(isinstance(part, ToolCallPart) and part.id == event.tool_call_id for part in parts):
        return transcript
    call = ToolCallPart(event.tool_call_id, event.tool_call_name, "", event.provider_executed)
    return _with_part(transcript, at, len(parts), call)


def _grow_arguments(transcript: Transcript, event: events.ToolCallArgs) -> Transcript:
    return _argued(transcript, event.tool_call_id, event.delta)


def _call_chunk(transcript: Transcript, event: events.ToolCallChunk) -> Transcript:
    call_id = event.tool_call_id
    if call_id is None:
        call_id = next(
            (call.id for message in reversed(transcript.live) for call in reversed(message.tool_calls)), ""
        )
    elif event.tool_call_name is not None:
        start = events.ToolCallStart(call_id, event.tool_call_name, event.parent_message_id)
        transcript = _open_call(transcript, start)
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
                return _with_part(transcript, at, index, part.grow(delta))
    caller = next((m for m in reversed(transcript.settled) if _asks(m, call_id)), None)
    return transcript if caller is None else _argued(_locate(transcript, caller.id)[0], call_id, delta)


def _asks(message: Message, call_id: str) -> bool:
    return any(type(part) is ToolCallPart and part.id == call_id for part in message.parts)


def _answer(transcript: Transcript, event: events.ToolCallResult) -> Transcript:
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
    transcript, at = _locate(transcript, caller.id)
    if call_id in states:
        left = {id: state for id, state in states.items() if id != call_id}
        metadata = {key: value for key, value in caller.metadata.items() if key != "subagents"}
        transcript = _noted(transcript, at, metadata | ({"subagents": left} if left else {}))
    if isinstance(edited, str):
        for index, part in enumerate(caller.parts):
            if type(part) is ToolCallPart and part.id == call_id:
                return _with_part(transcript, at, index, part.with_edit(edited))
    return transcript


def _keep(transcript: Transcript, event: events.Custom) -> Transcript:
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
    transcript, at = _locate(transcript, id)
    if at < 0:
        return transcript
    kept = transcript.live[at].metadata
    return _noted(transcript, at, {**kept, key: {**kept.get(key, {}), call_id: value}})


def _noted(transcript: Transcript, at: int, metadata: events.Metadata) -> Transcript:
    message = transcript.live[at]
    return _put(
        transcript, at, Message(message.id, message.role, message.parts, message.finish_reason, metadata)
    )


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


# -- places --------------------------------------------------------------------------------------------------


def _locate(transcript: Transcript, id: str) -> tuple[Transcript, int]:
    """The place of the message among the live ones, or -1. One that has settled is made live again."""
    live = transcript.live
    for at in range(len(live) - 1, -1, -1):
        if live[at].id == id:
            return transcript, at
    settled = transcript.settled
    for place in range(len(settled) - 1, -1, -1):
        if settled[place].id == id:
            return Transcript(settled[:place], live=settled[place:] + live), 0
    return transcript, -1


def _opened(transcript: Transcript, id: str, role: Role) -> tuple[Transcript, int]:
    transcript, at = _locate(transcript, id)
    if at >= 0:
        return transcript, at
    return transcript.append(Message(id, role)), len(transcript.live)


def _with_part(transcript: Transcript, at: int, index: int, part: Part) -> Transcript:
    """Puts the part at the index of the live message; an index behind the last one appends."""
    message = transcript.live[at]
    parts = (*message.parts[:index], part, *message.parts[index + 1 :])
    return _put(
        transcript, at, Message(message.id, message.role, parts, message.finish_reason, message.metadata)
    )


def _put(transcript: Transcript, at: int, message: Message) -> Transcript:
    live = transcript.live
    return transcript.with_live((*live[:at], message, *live[at + 1 :]))


_FOLDS: dict[type[events.Event], Callable[[Transcript, Any], Transcript]] = {
    events.RunStarted: _take_input,
    events.StepStarted: _settle,
    events.StepFinished: _end_turn,
    events.TextMessageStart: _open_message,
    events.TextMessageContent: _grow_text,
    events.TextMessageChunk: _text_chunk,
    events.ReasoningMessageStart: _open_thought,
    events.ReasoningMessageContent: _grow_thought,
    events.ReasoningMessageEnd: _end_thought,
    events.ReasoningMessageChunk: _thought_chunk,
    events.ReasoningEncryptedValue: _seal_thought,
    events.ToolCallStart: _open_call,
    events.ToolCallArgs: _grow_arguments,
    events.ToolCallChunk: _call_chunk,
    events.ToolCallResult: _answer,
    events.Custom: _keep,
    events.MessagesSnapshot: _replace_all,
}
