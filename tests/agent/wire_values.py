"""What the codec tests share: recordings, reading bytes in any pieces, and values no test cares about."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent.errors import ProviderError
from agent.events import TurnEnd
from agent.messages import Message, Transcript, user_message
from agent.providers.base import ToolSpec, TurnRequest
from agent.reducer import apply_all
from agent.wire.sse import SSEParser

RECORDINGS = Path(__file__).parent / "recordings"
WEATHER = ToolSpec(
    "get_weather", "The weather of a city.", {"type": "object", "properties": {"city": {"type": "string"}}}
)


def recording(name: str) -> bytes:
    return (RECORDINGS / f"{name}.sse").read_bytes()


def counting_ids() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"made_{next(numbers)}"


def cuts(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def read(codec: Any, data: bytes, size: int = 2**20) -> tuple[list[Any], ProviderError | None]:
    """The events of a stream that comes in pieces of this size, and the error that it holds."""
    parser, decoder = SSEParser(), codec.StreamDecoder("t1", counting_ids())
    out: list[Any] = []
    try:
        for piece in cuts(data, size):
            for event in parser.feed(piece):
                out += decoder.feed(event)
    except ProviderError as exc:
        return out + decoder.finish(), exc
    return out + decoder.finish(), None


def turn_of(events: list[Any]) -> tuple[Message, TurnEnd]:
    """The message that the events fold to, and how it ended."""
    transcript = apply_all(Transcript(), (event for event in events if not isinstance(event, TurnEnd)))
    message = transcript[-1] if transcript else Message("t1", "assistant")
    assert isinstance(events[-1], TurnEnd)
    assert sum(isinstance(event, TurnEnd) for event in events) == 1
    return message, events[-1]


def ask(*messages: Message, **changes: Any) -> TurnRequest:
    transcript = Transcript(messages or (user_message("u1", "Hello"),))
    return TurnRequest(**{"model": "m", "transcript": transcript, "message_id": "t1", **changes})
