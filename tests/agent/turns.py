"""A provider's turn, collected and held against the contract of `agent.providers.base`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from agent.events import (
    ReasoningEnd,
    ReasoningMessageContent,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    TurnEnd,
    TurnEvent,
)
from agent.messages import Message, Transcript
from agent.providers.base import ToolSpec, TurnRequest

PAIRS = [
    (TextMessageStart, TextMessageContent, TextMessageEnd, "message_id"),
    (ReasoningStart, None, ReasoningEnd, "message_id"),
    (ReasoningMessageStart, ReasoningMessageContent, ReasoningMessageEnd, "message_id"),
    (ToolCallStart, ToolCallArgs, ToolCallEnd, "tool_call_id"),
]


def request(
    *messages: Message, tools: Sequence[str] = (), message_id: str = "m1", **fields: object
) -> TurnRequest:
    specs = tuple(ToolSpec(name, "", {"type": "object"}) for name in tools)
    return TurnRequest("scripted-1", Transcript(messages), message_id, tools=specs, **fields)


async def collect(stream: AsyncIterator[TurnEvent | TurnEnd]) -> tuple[list[TurnEvent], TurnEnd]:
    """The events and the end of a turn that goes well."""
    events, end, error = await collect_broken(stream)
    if error is not None:
        raise error
    assert end is not None
    return events, end


async def collect_broken(
    stream: AsyncIterator[TurnEvent | TurnEnd],
) -> tuple[list[TurnEvent], TurnEnd | None, Exception | None]:
    events: list[TurnEvent] = []
    end = None
    error = None
    try:
        async for event in stream:
            assert end is None, "something came behind the TurnEnd"
            if isinstance(event, TurnEnd):
                end = event
            else:
                events.append(event)
    except Exception as exc:
        error = exc
    if end is not None:
        assert_all_closed(events)
    return events, end, error


def assert_all_closed(events: Sequence[TurnEvent]) -> None:
    for opens, goes_on, closes, key in PAIRS:
        open_ids: set[str] = set()
        for event in events:
            if isinstance(event, opens):
                open_ids.add(getattr(event, key))
            elif isinstance(event, closes) or (goes_on and isinstance(event, goes_on)):
                assert getattr(event, key) in open_ids
                open_ids -= {getattr(event, key)} if isinstance(event, closes) else set()
        assert not open_ids, f"{opens.__name__} never closed: {open_ids}"


def text_of(events: Sequence[TurnEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextMessageContent))


def thinking_of(events: Sequence[TurnEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ReasoningMessageContent))


def calls_of(events: Sequence[TurnEvent]) -> list[tuple[str, str, str]]:
    """Id, name and argument text of every call."""
    arguments: dict[str, str] = {}
    names: dict[str, str] = {}
    for event in events:
        if isinstance(event, ToolCallStart):
            names[event.tool_call_id] = event.tool_call_name
            arguments[event.tool_call_id] = ""
        elif isinstance(event, ToolCallArgs):
            arguments[event.tool_call_id] += event.delta
    return [(id, names[id], text) for id, text in arguments.items()]
