"""Several rounds as one messages stream. Bytes in, bytes out, no I/O.

Rule 1: what nobody will change goes out at once, in the bytes it came in: the first round's text and thinking.
Rule 2: from the first call that may be fulfilled here, and from the end of the message on, everything is held until
the hooks have looked. A round that is kept then goes out in its own bytes, so a hook that says no changes nothing.
Rule 3: the message has one start and one end. Blocks of later rounds get the next free indexes; calls that were
fulfilled here are not in it; the usage at its end is the sum.

`feed` the events of a round as they come, then say what becomes of it: `keep`, `strip`, `rerun` or `answer`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from agent.messages import Usage
from agent.wire.anthropic.answer import encode_usage
from agent.wire.jsontext import dump
from agent.wire.raw_events import RawEvent, RawEvents

Json = dict[str, Any]

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_END = frozenset({"message_delta", "message_stop"})


class JoinedStream:
    """`holds`: names of the tools whose calls may be fulfilled here; None: any tool's."""

    def __init__(self, holds: Collection[str] | None) -> None:
        self.failed = False
        """The endpoint has told of an error; nothing may follow it."""
        self._holds = holds
        self._events = RawEvents()
        self._round = 1
        self._held: list[RawEvent] = []
        self._holding = False
        self._next = 0  # the first index that the message has not used yet
        self._indexes: dict[Any, int] = {}  # this round's index -> the message's
        self._calls = 0  # calls of this round so far, in order

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
        held = self._end_round()
        blocks, ours = self._without(held, calls)
        out = b"".join(self._told(event, usage) for event in blocks)
        if not self._next and text:
            out += self._block({"type": "text", "text": text})
        reason = next((_reason(event.value) for event in held if event.value and _reason(event.value)), None)
        if reason == "tool_use" and not ours:
            reason = "end_turn"
        return out + self._end(reason or "end_turn", usage)

    def rerun(self) -> bytes:
        """What this round said beside its calls. Another round follows."""
        held = self._end_round()
        blocks, _ = self._without(held, None)
        out = b"".join(self._told(event, Usage()) for event in blocks)
        self._round += 1
        self._indexes.clear()
        self._calls = 0
        return out

    def answer(self, response: Json, usage: Usage) -> bytes:
        """This answer in the place of what is held."""
        self._end_round()
        content = response.get("content")
        blocks = content if isinstance(content, list) else []
        out = b"".join(self._block(block) for block in blocks if isinstance(block, dict))
        return out + self._end(str(response.get("stop_reason") or "end_turn"), usage)

    # -- events ----------------------------------------------------------------------------------------------

    def _take(self, event: RawEvent) -> bytes:
        kind = event.value.get("type") if event.value else None
        if kind == "error":
            self.failed = True
            self._held.clear()
            return event.raw
        if not self._holding:
            self._holding = kind in _END or (kind == "content_block_start" and self._may_be_ours(event))
        if self._holding:
            self._held.append(event)
            return b""
        if self._round == 1:
            self._count(event)
            return event.raw
        return self._told(event, Usage())

    def _may_be_ours(self, event: RawEvent) -> bool:
        block = _block_of(event)
        return block.get("type") == "tool_use" and (self._holds is None or block.get("name") in self._holds)

    def _count(self, event: RawEvent) -> None:
        """A block that goes out as it came has its own index, and the next one is behind it."""
        assert event.value is not None or event.raw
        if event.value and event.value.get("type") == "content_block_start":
            index = event.value.get("index")
            self._indexes[index] = index if isinstance(index, int) else self._next
            self._next = max(self._next, self._indexes[index] + 1)
            self._calls += _block_of(event).get("type") == "tool_use"

    def _end_round(self) -> list[RawEvent]:
        for event in self._events.finish():
            self._held.append(event)
        held, self._held, self._holding = self._held, [], False
        return held

    def _without(self, held: list[RawEvent], calls: Collection[int] | None) -> tuple[list[RawEvent], int]:
        """The held blocks without these calls (None: without any), and how many calls the round then still has."""
        dropped: set[Any] = set()
        kept: list[RawEvent] = []
        ours = self._calls
        for event in held:
            value = event.value or {}
            if value.get("type") == "content_block_start" and _block_of(event).get("type") == "tool_use":
                if calls is None or self._calls in calls:
                    dropped.add(value.get("index"))
                else:
                    ours += 1
                self._calls += 1
            if value.get("type") in _END or (
                str(value.get("type")).startswith("content_") and value.get("index") in dropped
            ):
                continue
            kept.append(event)
        return kept, ours

    def _told(self, event: RawEvent, usage: Usage) -> bytes:
        """An event of a later round, as the message has it."""
        value = event.value
        if value is None:
            return event.raw
        kind = value.get("type")
        if kind == "message_start":
            return b""
        if kind == "content_block_start":
            self._indexes[value.get("index")] = self._next
            self._next += 1
        if kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            return _frame(value | {"index": self._indexes.get(value.get("index"), 0)})
        if kind == "message_delta":
            return _frame(value | {"usage": _sum(value.get("usage"), usage)})
        return event.raw

    def _block(self, block: Json) -> bytes:
        """A whole block, in the events that SDKs read it from."""
        index, self._next = self._next, self._next + 1
        start, deltas = _as_deltas(block)
        frames = [{"type": "content_block_start", "index": index, "content_block": start}]
        frames += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        frames.append({"type": "content_block_stop", "index": index})
        return b"".join(map(_frame, frames))

    def _end(self, reason: str, usage: Usage) -> bytes:
        delta = {"stop_reason": reason, "stop_sequence": None}
        end = {"type": "message_delta", "delta": delta, "usage": encode_usage(usage)}
        return _frame(end) + _frame({"type": "message_stop"})


class AppendedStream:
    """Each round as a message of its own on the same stream, as it comes. What was told cannot be taken back."""

    def __init__(self) -> None:
        self.failed = False
        self._events = RawEvents()

    def feed(self, data: bytes) -> bytes:
        for event in self._events.feed(data):
            self.failed = self.failed or bool(event.value and event.value.get("error"))
        return data

    def keep(self, usage: Usage) -> bytes:
        return b""

    def strip(self, calls: Collection[int], usage: Usage, text: str = "") -> bytes:
        return b""

    def rerun(self) -> bytes:
        return b""

    def answer(self, response: Json, usage: Usage) -> bytes:
        return message_stream(response)


def message_stream(response: Json) -> bytes:
    """A whole message as a stream."""
    stream = JoinedStream(None)
    head = {**response, "content": [], "stop_reason": None, "stop_sequence": None}
    head.setdefault("usage", {"input_tokens": 0, "output_tokens": 0})
    usage = response.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    out = stream.answer(response, Usage(output_tokens=int(counts.get("output_tokens") or 0)))
    return _frame({"type": "message_start", "message": head}) + out


def _frame(value: Json) -> bytes:
    return f"event: {value['type']}\ndata: {dump(value)}\n\n".encode()


def _block_of(event: RawEvent) -> Json:
    block = event.value.get("content_block") if event.value else None
    return block if isinstance(block, dict) else {}


def _reason(value: Json) -> str | None:
    delta = value.get("delta")
    reason = delta.get("stop_reason") if isinstance(delta, dict) else None
    return reason if isinstance(reason, str) else None


def _sum(told: Any, usage: Usage) -> Json:
    return {**told, **encode_usage(usage)} if isinstance(told, dict) else encode_usage(usage)


def _as_deltas(block: Json) -> tuple[Json, list[Json]]:
    match block.get("type"):
        case "text":
            return block | {"text": ""}, [{"type": "text_delta", "text": block.get("text", "")}]
        case "tool_use":
            arguments = dump(block.get("input") or {})
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": arguments}]
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": block.get("thinking", "")}]
            if block.get("signature"):
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return block | {"thinking": "", "signature": ""}, deltas
    return block, []
