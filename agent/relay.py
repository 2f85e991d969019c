"""The gateway's loop: ask a model, let hooks look at the answer, ask again when one of them wants that.

Rule 1: one explicit iteration above routing. Every round is asked for like the first (`Rounds.ask`), so retries,
limits, budgets and cancellation hold for all of them.
Rule 2: what a decision means is said here, once for an answer in one piece and once for a stream:

    decision   in one piece                             streamed
    keep       the answer                               what was held of the round, and its end
    strip      the answer without these calls           the same without them
    answer     the hook's own                           its content, then the end
    rerun      the next round                           what the round said beside its calls, then the next round
    last       the next round, in which no tool can be called: likewise

Rule 3: who waits for hooks or for the next round hears a sign of life every `PING_EVERY` seconds, once a stream has
begun.

No hook that wants a request: nobody comes here with it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Collection
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Protocol, TypeVar

from agent.asking import Asking
from agent.decisions import KEEP, Decision
from agent.errors import BadStream
from agent.folding import TurnFold
from agent.messages import Usage
from agent.providers.http import new_call_id
from agent.rerun import Dialect, RelayContext, Turn, turn_of
from agent.rerun_body import with_words, without_calls
from agent.wire import anthropic, openai_chat
from agent.wire.anthropic import joining as anthropic_joining
from agent.wire.anthropic.answer import encode_usage as anthropic_usage
from agent.wire.jsonload import NotJson, load
from agent.wire.jsontext import dump
from agent.wire.openai_chat import joining as openai_joining
from agent.wire.openai_chat.answer import encode_usage as openai_usage
from agent.wire.turn_reader import TurnReader

Json = dict[str, Any]
T = TypeVar("T")

PING_EVERY = 10.0
MESSAGE_ID = "answer"
CODECS: dict[Dialect, ModuleType] = {"openai": openai_chat, "anthropic": anthropic}
PINGS: dict[Dialect, bytes] = {"openai": openai_joining.PING, "anthropic": anthropic_joining.PING}


class Round(Protocol):
    """An answer in the caller's dialect that has begun. Streamed: `next` gives whole events, empty at the end."""

    @property
    def provider(self) -> Dialect | None: ...
    @property
    def whole(self) -> bytes: ...
    async def next(self) -> bytes: ...


class Rounds(Protocol):
    """Asks for rounds. Whatever was opened is closed and booked by whoever made this."""

    async def ask(self, call: RelayContext, asked_by: str) -> Round: ...

    def end(self, round: Round) -> tuple[Usage, float | None]:
        """What it used, as far as it came, and what that cost."""
        ...


class Way(Protocol):
    """To the caller of a stream: its head, its bytes, its end, each of the two once."""

    async def begin(self) -> None: ...
    async def send(self, data: bytes) -> None: ...

    def last_words(self) -> bytes:
        """What is told beside the answer, right before its end; nothing where there is nothing to tell."""
        ...

    async def end(self) -> None: ...


class Joining(Protocol):
    """How several rounds become one stream: `wire/*/joining`."""

    failed: bool

    def feed(self, data: bytes) -> bytes: ...
    def keep(self, usage: Usage) -> bytes: ...
    def strip(self, calls: Collection[int], usage: Usage, text: str = "") -> bytes: ...
    def rerun(self) -> bytes: ...
    def answer(self, response: Json, usage: Usage) -> bytes: ...


# -- in one piece --------------------------------------------------------------------------------------------


async def answer_whole(asking: Asking, rounds: Rounds) -> bytes:
    """The last answer. Raises what a round raises, and BadStream for one that is no JSON."""
    asked_by = ""
    while True:
        round = await rounds.ask(asking.call, asked_by)
        asking.guard.book(*rounds.end(round))
        try:
            response = load(round.whole)
        except NotJson as error:
            raise BadStream("The model's endpoint sent something that is no JSON.") from error
        decision = await _decide(asking, round, turn_in(asking.call, response), response)
        if decision.action not in ("rerun", "last"):
            return await _finish_whole(asking, decision, response, round.whole)
        asked_by = decision.hook or decision.reason


async def _finish_whole(asking: Asking, decision: Decision, response: Json, raw: bytes) -> bytes:
    dialect = asking.call.dialect
    final = response
    if decision.action == "answer":
        final = decision.response or {}
    elif decision.action == "strip":
        final = with_words(without_calls(response, decision.calls, dialect), decision.text, dialect)
    if asking.guard.depth and decision.action != "answer":
        final = {**final, "usage": encode_usage(dialect, asking.guard.usage, response.get("usage"))}
    finished = await asking.finish(final)
    return raw if finished == response else dump(finished).encode()


async def _decide(asking: Asking, round: Round, turn: Turn, response: Json) -> Decision:
    asking.call = replace(asking.call, provider=round.provider)
    return await asking.ask(turn, response) if asking.looks else KEEP


def turn_in(call: RelayContext, response: Json) -> Turn:
    """An answer in one piece as a turn. Raises ProviderError for what is none."""
    fold = TurnFold(MESSAGE_ID)
    fold.feed(CODECS[call.dialect].decode_response(response, MESSAGE_ID, new_call_id))
    assert fold.end is not None
    return turn_of(fold.message, fold.end, call.model)


# -- streamed ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Watched:
    """A round's bytes, folded beside the stream."""

    reader: TurnReader
    fold: TurnFold

    @classmethod
    def of(cls, dialect: Dialect) -> _Watched:
        codec = CODECS[dialect]
        return cls(
            TurnReader(
                codec.StreamDecoder(MESSAGE_ID, new_call_id),
                lambda body: codec.decode_response(body, MESSAGE_ID, new_call_id),
            ),
            TurnFold(MESSAGE_ID),
        )

    def feed(self, data: bytes) -> None:
        self.fold.feed(self.reader.feed(data))

    def finish(self) -> None:
        self.fold.feed(self.reader.finish())
        if self.reader.error is not None:
            raise self.reader.error


async def answer_stream(asking: Asking, rounds: Rounds, stream: Joining, way: Way) -> None:
    asked_by = ""
    mouth = _Mouth(way, PINGS[asking.call.dialect])
    while True:
        round = await mouth.meanwhile(rounds.ask(asking.call, asked_by))
        watched = _Watched.of(asking.call.dialect)
        try:
            await mouth.begin()
            await _tell(round, stream, watched, mouth)
        finally:
            asking.guard.book(*rounds.end(round))
        if stream.failed:
            await way.end()
            return
        watched.finish()
        decision = await mouth.meanwhile(_look(asking, round, watched))
        told = _told(decision, stream, watched, asking.guard.usage)
        if decision.action not in ("rerun", "last"):
            await mouth.say(way.last_words() + told)
            await way.end()
            await asking.finish(decision.response or _response_of(asking, watched))
            return
        await mouth.say(told)
        asked_by = decision.hook or decision.reason


async def _tell(round: Round, stream: Joining, watched: _Watched, mouth: _Mouth) -> None:
    while data := await round.next():
        watched.feed(data)
        await mouth.say(stream.feed(data))


async def _look(asking: Asking, round: Round, watched: _Watched) -> Decision:
    end = watched.fold.end
    assert end is not None
    turn = turn_of(watched.fold.message, end, asking.call.model)
    return await _decide(asking, round, turn, _response_of(asking, watched))


def _told(decision: Decision, stream: Joining, watched: _Watched, usage: Usage) -> bytes:
    match decision.action:
        case "keep":
            return stream.keep(usage)
        case "strip":
            return stream.strip(_places(decision, watched), usage, decision.text)
        case "answer":
            return stream.answer(decision.response or {}, usage)
    return stream.rerun()


def _places(decision: Decision, watched: _Watched) -> frozenset[int]:
    calls = [call for call in watched.fold.message.tool_calls if not call.provider_executed]
    return frozenset(place for place, call in enumerate(calls) if call.id in decision.calls)


def _response_of(asking: Asking, watched: _Watched) -> Json:
    """The round as an answer in one piece would tell it."""
    end, call = watched.fold.end, asking.call
    assert end is not None
    id = "msg_streamed" if call.dialect == "anthropic" else "chatcmpl-streamed"
    response: Json = CODECS[call.dialect].encode_response(
        watched.fold.message, end, id=id, model=call.model, created=int(time.time())
    )
    return response


class _Mouth:
    """The way to the caller. `open` once the stream has begun."""

    def __init__(self, way: Way, ping: bytes) -> None:
        self.open = False
        self._way = way
        self._ping = ping
        self._said_at = time.monotonic()

    async def begin(self) -> None:
        if not self.open:
            self.open = True
            await self._way.begin()

    async def say(self, data: bytes) -> None:
        """These bytes; nothing for a while is told as a sign of life."""
        now = time.monotonic()
        if not data and now - self._said_at >= PING_EVERY:
            data = self._ping
        if data:
            self._said_at = now
            await self._way.send(data)

    async def meanwhile(self, work: Awaitable[T]) -> T:
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=PING_EVERY))[0]:
                if self.open:
                    await self.say(b"")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def joining_for(
    dialect: Dialect, asking: Asking, *, append: bool, holds: Collection[str] | None, include_usage: bool
) -> Joining:
    """`append`: each round as it comes (Anthropic's dialect only). `holds`: tools whose calls are kept back."""
    if not asking.looks or (append and dialect == "anthropic"):
        return anthropic_joining.AppendedStream()
    if dialect == "anthropic":
        return anthropic_joining.JoinedStream(holds)
    return openai_joining.JoinedStream(holds, include_usage=include_usage)


def encode_usage(dialect: Dialect, usage: Usage, told: Any = None) -> Json:
    """The sum, over what the last round told of other things."""
    counts = anthropic_usage(usage) if dialect == "anthropic" else openai_usage(usage)
    return {**told, **counts} if isinstance(told, dict) else counts
