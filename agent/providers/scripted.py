"""A provider that plays what it is told, with no model and no network. It ships: your tests may use it too.

    provider = ScriptedProvider(
        Turn(calls=[("c1", "get_weather", {"city": "Oslo"})]),
        Turn("It is 62 degrees."),
    )

A turn is played in the order thinking, text, calls. It keeps the promises of `base.Provider`: what it opened
it closes, then comes one `TurnEnd`. `gate` holds a turn before its last delta until the test sets it; `held`
tells the test that it is there. So a run can be caught in mid answer without sleeping.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from agent.errors import BadStream, ProviderError
from agent.events import (
    ReasoningEncryptedValue,
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
    is_delta,
    reasoning_id,
)
from agent.messages import FinishReason, Usage
from agent.providers.base import TurnRequest

Call = tuple[str, str, Mapping[str, Any] | str]
"""Id, name and arguments; arguments given as text are sent as they are, also when they are no JSON."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model.

    `finish_reason` is `tool_calls` if there are calls, else `stop`, unless it is given.
    `error` is raised behind the text (before everything, if there is none; calls are not begun): a
    ProviderError after the closings and a `TurnEnd(None)`, as the contract has it; any other exception bare,
    as a bug in a provider would come. `cut` breaks the stream off before the last delta.
    `delta_size` is in characters, `pace` in seconds before each delta.
    """

    text: str = ""
    _: KW_ONLY
    calls: Sequence[Call] = ()
    thinking: str = ""
    signature: str | None = None
    finish_reason: FinishReason | None = None
    usage: Usage = field(default_factory=Usage)
    provider_reason: str | None = None
    paused: bool = False
    error: Exception | None = None
    cut: bool = False
    delta_size: int = 16
    pace: float = 0.0
    gate: asyncio.Event | None = None
    held: asyncio.Event | None = None

    @property
    def ends_with(self) -> FinishReason:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")


Answer = Callable[[TurnRequest], Turn]


class ScriptedProvider:
    """Plays `turns` one after the other, then asks `each`, if it is there, for every further turn.

    A turn may also be a function of the request. `requests` are those it was given, `closed` counts the
    streams that were given up before their end.
    """

    def __init__(self, *turns: Turn | Answer, each: Answer | None = None, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[TurnRequest] = []
        self.closed = 0
        self._turns = turns
        self._each = each

    async def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        self.requests.append(request)
        ended = False
        async with aclosing(play(self._turn(request), request)) as events:
            try:
                async for event in events:
                    ended = isinstance(event, TurnEnd)
                    yield event
            except (GeneratorExit, asyncio.CancelledError):
                self.closed += not ended
                raise

    def _turn(self, request: TurnRequest) -> Turn:
        number = len(self.requests)
        turn = self._turns[number - 1] if number <= len(self._turns) else self._each
        if turn is None:
            raise LookupError(f"The script has {len(self._turns)} turns, and this is call number {number}.")
        return turn if isinstance(turn, Turn) else turn(request)


async def play(turn: Turn, request: TurnRequest) -> AsyncGenerator[TurnEvent | TurnEnd, None]:
    """The events of one turn, spoken as `request.message_id`."""
    events = list(_events(turn, request.message_id))
    last_delta = max((index for index, event in enumerate(events) if is_delta(event)), default=len(events))
    if turn.error is not None and not events:
        raise turn.error
    for index, event in enumerate(events):
        if is_delta(event):
            await _pause(turn, index)
        if index == last_delta:
            await _wait_at_gate(turn)
            if turn.cut:
                continue
        yield event
        if index == last_delta and turn.error is not None and not isinstance(turn.error, ProviderError):
            raise turn.error
    if last_delta == len(events):
        await _wait_at_gate(turn)
    broken = turn.error or (BadStream("The model's answer broke off.") if turn.cut else None)
    reason = None if broken else turn.ends_with
    yield TurnEnd(reason, turn.usage, request.model, turn.provider_reason, turn.paused)
    if broken is not None:
        raise broken


async def _pause(turn: Turn, index: int) -> None:
    if turn.pace > 0:
        await asyncio.sleep(turn.pace)
    elif index % 32 == 31:
        # Without a network nothing here waits, and a long turn would keep everybody else from running.
        await asyncio.sleep(0)


async def _wait_at_gate(turn: Turn) -> None:
    if turn.held is not None:
        turn.held.set()
    if turn.gate is not None:
        await turn.gate.wait()


def _events(turn: Turn, message_id: str) -> Iterator[TurnEvent]:
    if turn.thinking:
        yield from _thinking(turn, reasoning_id(message_id, 1))
    if turn.text:
        yield TextMessageStart(message_id=message_id)
        for piece in _pieces(turn.text, turn.delta_size):
            yield TextMessageContent(message_id=message_id, delta=piece)
        yield TextMessageEnd(message_id=message_id)
    if turn.error is None:
        for call in turn.calls:
            yield from _call(call, message_id, turn.delta_size)


def _thinking(turn: Turn, id: str) -> Iterator[TurnEvent]:
    yield ReasoningStart(message_id=id)
    yield ReasoningMessageStart(message_id=id)
    for piece in _pieces(turn.thinking, turn.delta_size):
        yield ReasoningMessageContent(message_id=id, delta=piece)
    yield ReasoningMessageEnd(message_id=id)
    if turn.signature is not None:
        yield ReasoningEncryptedValue(subtype="message", entity_id=id, encrypted_value=turn.signature)
    yield ReasoningEnd(message_id=id)


def _call(call: Call, message_id: str, delta_size: int) -> Iterator[TurnEvent]:
    id, name, arguments = call
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    yield ToolCallStart(tool_call_id=id, tool_call_name=name, parent_message_id=message_id)
    for piece in _pieces(text, delta_size):
        yield ToolCallArgs(tool_call_id=id, delta=piece)
    yield ToolCallEnd(tool_call_id=id)


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))
