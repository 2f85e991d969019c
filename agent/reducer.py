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
from agent.fold_calls import answer, call_chunk, grow_arguments, keep, open_call
from agent.fold_thoughts import end_thought, grow_thought, open_thought, seal_thought, thought_chunk
from agent.live import locate, opened, put, put_part
from agent.messages import FINISH_REASONS, FinishReason, Message, TextPart, Transcript

TURN_METADATA = ("model", "provider", "usage", "durationMs", "providerReason", "paused")
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
    transcript, at = locate(transcript, str(facts.get("messageId", "")))
    if at < 0:
        return transcript
    message = transcript.live[at]
    kept = {key: facts[key] for key in TURN_METADATA if key in facts}
    reason = _true_reason(facts)
    return put(
        transcript,
        at,
        Message(message.id, message.role, message.parts, reason, {**message.metadata, **kept}),
    )


def _true_reason(facts: events.Metadata) -> FinishReason | None:
    reason = facts.get("storedFinishReason", facts.get("finishReason"))
    return reason if reason in FINISH_REASONS else None


def _replace_all(transcript: Transcript, event: events.MessagesSnapshot) -> Transcript:
    return Transcript(event.messages)


def _open_message(transcript: Transcript, event: events.TextMessageStart) -> Transcript:
    return opened(transcript, event.message_id, event.role)[0]


def _grow_text(transcript: Transcript, event: events.TextMessageContent) -> Transcript:
    transcript, at = locate(transcript, event.message_id)
    return _said(transcript, at, event.delta)


def _text_chunk(transcript: Transcript, event: events.TextMessageChunk) -> Transcript:
    if event.message_id is None:
        at = len(transcript.live) - 1
    else:
        transcript, at = opened(transcript, event.message_id, event.role or "assistant")
    return _said(transcript, at, event.delta or "")


def _said(transcript: Transcript, at: int, delta: str) -> Transcript:
    if at < 0 or not delta:
        return transcript
    message = transcript.live[at]
    last = message.parts[-1] if message.parts else None
    if isinstance(last, TextPart):
        return put_part(transcript, at, len(message.parts) - 1, last.grow(delta))
    return put_part(transcript, at, len(message.parts), TextPart(delta))


_FOLDS: dict[type[events.Event], Callable[[Transcript, Any], Transcript]] = {
    events.RunStarted: _take_input,
    events.StepStarted: _settle,
    events.StepFinished: _end_turn,
    events.TextMessageStart: _open_message,
    events.TextMessageContent: _grow_text,
    events.TextMessageChunk: _text_chunk,
    events.ReasoningMessageStart: open_thought,
    events.ReasoningMessageContent: grow_thought,
    events.ReasoningMessageEnd: end_thought,
    events.ReasoningMessageChunk: thought_chunk,
    events.ReasoningEncryptedValue: seal_thought,
    events.ToolCallStart: open_call,
    events.ToolCallArgs: grow_arguments,
    events.ToolCallChunk: call_chunk,
    events.ToolCallResult: answer,
    events.Custom: keep,
    events.MessagesSnapshot: _replace_all,
}
