"""Several rounds as one stream of chat completion chunks. Bytes in, bytes out, no I/O.

Rule 1: text and thoughts go out at once, in the first round in the bytes they came in.
Rule 2: from the first piece of a call, and from the finish reason on, everything is held until the hooks have looked.
A round that is kept then goes out in its own bytes, so a hook that says no changes nothing.
Rule 3: the stream has one id, one role, one finish reason, one usage (the sum) and one end mark. Calls that were
fulfilled here are not in it; those that are left count from 0.

`feed` the events of a round as they come, then say what becomes of it: `keep`, `strip`, `rerun` or `answer`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from typing import Any

from agent.events import (
    ReasoningMessageContent,
    TextMessageContent,
    ToolCallArgs,
    ToolCallStart,
    TurnEnd,
    TurnEvent,
)
from agent.messages import Usage
from agent.wire.jsontext import dump
from agent.wire.openai_chat.answer import encode_usage
from agent.wire.openai_chat.stream import StreamDecoder
from agent.wire.raw_events import RawEvent, RawEvents
from agent.wire.sse import COMMENT, ServerSentEvent

Json = dict[str, Any]

PING = COMMENT
_WITH_CALLS = frozenset({"stop", "tool_calls", "function_call", "tool_call", "tool_use"})
"""Reasons that servers give to a turn with calls."""
DONE = b"data: [DONE]\n\n"
_HEAD = ("id", "created", "model", "system_fingerprint", "service_tier")


class JoinedStream:
    """`holds` is as for the other dialect; here every call is held, since pieces of several may come mixed.
    `include_usage`: the caller wants a usage chunk."""

    def __init__(self, holds: Collection[str] | None, *, include_usage: bool = False) -> None:
        self.failed = False
        """The endpoint has told of an error; nothing may follow it."""
        self._include_usage = include_usage
        self._events = RawEvents()
        self._round = 1
        self._held: list[RawEvent] = []
        self._holding = False
        self._head: Json = {}
        self._said = False
        self._has_role = False

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._take(event) for event in self._events.feed(data))

    def keep(self, usage: Usage) -> bytes:
        """The rest of this round. It is the last."""
        held = self._end_round()
        if self._round == 1:
            return b"".join(event.raw for event in held)
        return b"".join(self._told(event, usage) for event in held)

    def strip(self, calls: Collection[int], usage: Usage, text: str = "") -> bytes:
        """The same without these calls (their places among the round's calls); `text` when nothing else is left."""
        out, kept, reason = self._without(self._end_round(), calls)
        if not self._said and not kept and text:
            out += self._chunk({"content": text})
        if reason in _WITH_CALLS:
            reason = "tool_calls" if kept else "stop"
        return out + self._end(reason, usage)

    def rerun(self) -> bytes:
        """What this round said beside its calls. Another round follows."""
        out, _, _ = self._without(self._end_round(), None)
        self._round += 1
        return out

    def answer(self, response: Json, usage: Usage) -> bytes:
        """This answer in the place of what is held."""
        self._end_round()
        choices = response.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        message = choice.get("message")
        delta = {key: value for key, value in (message if isinstance(message, dict) else {}).items() if value}
        delta.pop("role", None)
        if isinstance(calls := delta.get("tool_calls"), list):
            delta["tool_calls"] = [
                {"index": n, **call} for n, call in enumerate(calls) if isinstance(call, dict)
            ]
        out = self._chunk(delta) if delta else b""
        return out + self._end(str(choice.get("finish_reason") or "stop"), usage)

    # -- events ----------------------------------------------------------------------------------------------

    def _take(self, event: RawEvent) -> bytes:
        value = event.value
        if value is not None and value.get("error"):
            self.failed = True
            self._held.clear()
            return event.raw
        if not self._holding:
            self._holding = _must_wait(event)
        if self._holding:
            self._held.append(event)
            return b""
        if self._round == 1:
            self._note(event)
            return event.raw
        return self._told(event, Usage())

    def _note(self, event: RawEvent) -> None:
        if event.value is None:
            return
        self._has_role = True  # or the server says none at all
        if not self._head:
            self._head = {key: event.value[key] for key in _HEAD if key in event.value}
        self._said = self._said or any(_delta(choice).get("content") for choice in _choices(event))

    def _end_round(self) -> list[RawEvent]:
        self._held += self._events.finish()
        held, self._held, self._holding = self._held, [], False
        for event in held:
            if self._head:
                break
            self._head = {key: event.value[key] for key in _HEAD if event.value and key in event.value}
        return held

    def _told(self, event: RawEvent, usage: Usage) -> bytes:
        """An event of a later round, as the stream has it."""
        if event.value is None:
            return event.raw
        value = {**event.value, **self._head}
        choices = _choices(event)
        if choices:
            value["choices"] = told = [_without_role(choice) for choice in choices]
            if not any(_delta(choice) or choice.get("finish_reason") for choice in told) and not value.get(
                "usage"
            ):
                return b""
            self._said = self._said or any(_delta(choice).get("content") for choice in told)
            told[0]["delta"] = self._with_role(told[0]["delta"])
        if isinstance(counts := value.get("usage"), dict):
            value["usage"] = {**counts, **encode_usage(usage)}
        return _frame(value)

    def _without(self, held: list[RawEvent], gone: Collection[int] | None) -> tuple[bytes, int, str]:
        """What is held, written anew without these calls (None: without any); how many stay; the reason it ends for.

        It goes through the decoder, since not every server tells its calls apart by index or id.
        """
        decoder = StreamDecoder("held", _new_id)
        out, kept, calls, reason = b"", 0, list[list[str]](), "stop"
        for event in (*_decoded(decoder, held), *decoder.finish()):
            match event:
                case TextMessageContent(delta=text):
                    out += self._chunk({"content": text})
                case ReasoningMessageContent(delta=thought):
                    out += self._chunk({"reasoning_content": thought})
                case ToolCallStart(tool_call_id=id, tool_call_name=name):
                    calls.append([id, name])
                case ToolCallArgs(tool_call_id=id, delta=piece):
                    next(call for call in calls if call[0] == id).append(piece)
                case TurnEnd(provider_reason=str(said)):
                    reason = said
        for place, (id, name, *pieces) in enumerate(calls):
            if gone is not None and place not in gone:
                out += self._chunk({"tool_calls": [_whole_call(kept, id, name, "".join(pieces))]})
                kept += 1
        return out, kept, reason

    def _with_role(self, delta: Json) -> Json:
        """Once, where the chunk that had it was held back."""
        had, self._has_role = self._has_role, True
        return delta if had else {"role": "assistant", **delta}

    def _chunk(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": self._with_role(delta), "logprobs": None, "finish_reason": reason}
        self._said = self._said or bool(delta.get("content"))
        return _frame({"object": "chat.completion.chunk", **self._head, "choices": [choice]})

    def _end(self, reason: str, usage: Usage) -> bytes:
        out = self._chunk({}, reason)
        if self._include_usage:
            counts = {"choices": [], "usage": encode_usage(usage)}
            out += _frame({"object": "chat.completion.chunk", **self._head, **counts})
        return out + DONE


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex}"


def _decoded(decoder: StreamDecoder, held: list[RawEvent]) -> Iterator[TurnEvent | TurnEnd]:
    for event in held:
        if event.value is not None:
            yield from decoder.feed(ServerSentEvent(dump(event.value)))


def _whole_call(index: int, id: str, name: str, arguments: str) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": id, "type": "function", "function": function}


def _must_wait(event: RawEvent) -> bool:
    if event.value is None:
        return b"[DONE]" in event.raw
    choices = _choices(event)
    if not choices:
        return bool(event.value.get("usage"))
    return any(choice.get("finish_reason") or _has_call(_delta(choice)) for choice in choices)


def _has_call(delta: Json) -> bool:
    return bool(delta.get("tool_calls") or delta.get("function_call"))


def _choices(event: RawEvent) -> list[Json]:
    choices = event.value.get("choices") if event.value else None
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _delta(choice: Json) -> Json:
    delta = choice.get("delta")
    return delta if isinstance(delta, dict) else {}


def _without_role(choice: Json) -> Json:
    delta = {key: value for key, value in _delta(choice).items() if key != "role"}
    if delta.get("content") == "":
        del delta["content"]
    return {**choice, "delta": delta}


def _frame(value: Json) -> bytes:
    return f"data: {dump(value)}\n\n".encode()
