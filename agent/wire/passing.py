"""A stream that passes as it is: bytes in, the same bytes out.

Rule 1: what goes out ends at an event's end, so that an error can be told behind it. The rest waits for its end, up
to `MAX_HELD`; what is larger goes on as it comes.
Rule 2: nothing is parsed. Whether a stream was whole, and what it used, is looked up in its first and last bytes when
it is over.
Rule 3: where the endpoint has another name for the model, the public one is shown: in the chunks of a completion, and
in the `message_start` of a message.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from agent.messages import Usage
from agent.wire.anthropic.stream import decode_usage as anthropic_usage
from agent.wire.jsonload import is_json
from agent.wire.jsontext import quote
from agent.wire.openai_chat.stream import decode_usage as openai_usage

Dialect = Literal["openai", "anthropic"]

MAX_HELD = 64 * 1024
EDGE = 4096
"""Bytes kept of a stream's beginning and of its end."""

# Only what stands in an event counts (or in the rest of one that is longer than what is kept): a server that goes over
# to plain JSON in mid stream has not ended its stream.
_END = {
    "openai": re.compile(rb'^data:\s*\[DONE\]|(?:^data:|\A)[^\r\n]*"finish_reason"\s*:\s*"', re.MULTILINE),
    "anthropic": re.compile(
        rb'(?:^data:|\A)[^\r\n]*(?:"type"\s*:\s*"message_stop"|"stop_reason"\s*:\s*")', re.MULTILINE
    ),
}
_ERROR = re.compile(rb'^event: ?error\s|^data:\s*\{\s*"error"\s*:|"type"\s*:\s*"error"', re.MULTILINE)
_MODEL = {
    "openai": re.compile(rb'^(data:[^\n]*?"model"\s*:\s*)"(?:[^"\\\n]|\\.)*"', re.MULTILINE),
    "anthropic": re.compile(
        rb'^(data:[^\n]*?"message_start"[^\n]*?"model"\s*:\s*)"(?:[^"\\\n]|\\.)*"', re.MULTILINE
    ),
}
_REASON = {
    "openai": re.compile(rb'"finish_reason"\s*:\s*"(\w+)"'),
    "anthropic": re.compile(rb'"stop_reason"\s*:\s*"(\w+)"'),
}
_USAGE = re.compile(r'"usage"\s*:\s*(?=\{)')


class PassedStream:
    """`feed` each piece and send what it gives, then `finish`. `model`: the name to show, None for the endpoint's."""

    def __init__(self, dialect: Dialect, model: str | None = None) -> None:
        self.events = 0
        self._dialect = dialect
        self._model = None if model is None else b"\\g<1>" + quote(model).encode().replace(b"\\", b"\\\\")
        self._held = b""
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> bytes:
        if self._held:
            chunk, self._held = self._held + chunk, b""
        if not chunk.endswith(b"\n\n"):
            end = _last_border(chunk)
            if len(chunk) - end <= MAX_HELD:
                self._held, chunk = chunk[end:], chunk[:end]
                if not chunk:
                    return b""
        return self._pass(chunk)

    def finish(self) -> bytes:
        """What was held back, if it can be read (some servers leave the last empty line out); half an event is none."""
        rest, self._held = self._held, b""
        return self._pass(rest) if rest and _is_whole_event(rest) else b""

    def broke_off(self) -> None:
        """The bytes have ended where they should not: half an event is nobody's."""
        self._held = b""

    def _pass(self, chunk: bytes) -> bytes:
        self.events += chunk.count(b"\n\n")
        if self._model is not None:
            chunk = _MODEL[self._dialect].sub(self._model, chunk)
        if len(self._head) < EDGE:
            self._head += chunk[:EDGE]
        self._tail = chunk[-EDGE:] if len(chunk) >= EDGE else (self._tail + chunk)[-EDGE:]
        return chunk

    @property
    def is_whole(self) -> bool:
        """It has said how it ends."""
        return _END[self._dialect].search(self._tail) is not None

    @property
    def ends_in_error(self) -> bool:
        """It has told of an error itself, and nobody needs to hear another."""
        return _ERROR.search(self._tail) is not None

    @property
    def stop_reason(self) -> str:
        """In the endpoint's word; empty while it has said none."""
        return stop_reason_in(self._dialect, self._tail)

    @property
    def usage(self) -> Usage | None:
        """What it has said of its tokens; None when it said nothing."""
        return usage_in(self._dialect, [self._head, self._tail])


def _is_whole_event(rest: bytes) -> bool:
    data = rest.partition(b"data:")[2].strip()
    return not rest.strip() or data == b"[DONE]" or is_json(data.decode("utf-8", "replace"))


def _last_border(chunk: bytes) -> int:
    """Where the last whole event ends."""
    plain, crlf = chunk.rfind(b"\n\n"), chunk.rfind(b"\n\r\n")
    return max(plain + 2 if plain >= 0 else 0, crlf + 3 if crlf >= 0 else 0)


def stop_reason_in(dialect: Dialect, piece: bytes) -> str:
    found = _REASON[dialect].findall(piece)
    return found[-1].decode() if found else ""


def usage_in(dialect: Dialect, pieces: list[bytes]) -> Usage | None:
    """The last counts told in these bytes. Anthropic tells input and output apart, so all are laid over another."""
    told: dict[str, Any] = {}
    for piece in pieces:
        text = piece.decode("utf-8", "replace")
        for found in _USAGE.finditer(text):
            try:
                counts, _ = json.JSONDecoder().raw_decode(text, found.end())
            except ValueError:
                continue
            told.update({key: value for key, value in counts.items() if value is not None})
    return usage_of(dialect, told)


def usage_of(dialect: Dialect, counts: Any) -> Usage | None:
    """What an answer's `usage` says; None when it says nothing."""
    if not counts or not isinstance(counts, dict):
        return None
    return anthropic_usage(counts) if dialect == "anthropic" else openai_usage(counts)
