"""Folds of the events of thoughts (`reducer` has the table)."""

from __future__ import annotations

from agent import events
from agent.events import message_id_of_reasoning
from agent.live import locate, opened, put_part
from agent.messages import Message, ThinkingPart, Transcript


def open_thought(transcript: Transcript, event: events.ReasoningMessageStart) -> Transcript:
    transcript, at = opened(transcript, _thinker(event.message_id), "assistant")
    known = _thought(transcript.live[at], event.message_id) >= 0
    return transcript if known else _think(transcript, at, ThinkingPart())


def grow_thought(transcript: Transcript, event: events.ReasoningMessageContent) -> Transcript:
    transcript, at = locate(transcript, _thinker(event.message_id))
    return _thought_on(transcript, at, event.message_id, event.delta)


def thought_chunk(transcript: Transcript, event: events.ReasoningMessageChunk) -> Transcript:
    id = event.message_id
    if id is None:
        return _thought_on(transcript, len(transcript.live) - 1, "", event.delta or "")
    transcript = open_thought(transcript, events.ReasoningMessageStart(id))
    return grow_thought(transcript, events.ReasoningMessageContent(id, event.delta or ""))


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
    return put_part(transcript, at, index, part.grow(delta))


def end_thought(transcript: Transcript, event: events.ReasoningMessageEnd) -> Transcript:
    duration_ms = (event.metadata or {}).get("durationMs")
    transcript, at = locate(transcript, _thinker(event.message_id))
    index = _thought(transcript.live[at], event.message_id) if at >= 0 else -1
    if index < 0 or not isinstance(duration_ms, int):
        return transcript
    part = transcript.live[at].parts[index]
    assert isinstance(part, ThinkingPart)
    return put_part(transcript, at, index, part.timed(duration_ms))


def seal_thought(transcript: Transcript, event: events.ReasoningEncryptedValue) -> Transcript:
    # A signature of a tool call has no place in our values; no provider we speak to gives one.
    if event.subtype != "message":
        return transcript
    transcript, at = opened(transcript, _thinker(event.entity_id), "assistant")
    message = transcript.live[at]
    index = _thought(message, event.entity_id)
    part = message.parts[index] if index >= 0 else ThinkingPart()
    assert isinstance(part, ThinkingPart)
    if (event.metadata or {}).get("redacted"):
        sealed = ThinkingPart(part.text, part.signature, event.encrypted_value, part.duration_ms)
    else:
        sealed = part.signed(event.encrypted_value)
    return put_part(transcript, at, index if index >= 0 else len(message.parts), sealed)


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
    return put_part(transcript, at, len(transcript.live[at].parts), part)
