"""A round at an endpoint that speaks the other dialect, or none: a provider of this process.

The caller's body becomes our values and those the endpoint's body; what comes back takes the same way. What has no
counterpart there is refused by the name of its field, or left out as the codecs' docstrings say.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from agent.errors import BadStream, InvalidRequest
from agent.events import TurnEnd, TurnEvent
from agent.folding import TurnFold
from agent.messages import Usage
from agent.providers.base import TurnRequest
from agent.wire import anthropic, openai_chat
from agent.wire.jsontext import dump
from chatsite.gateway.bodies import Body
from chatsite.gateway.dialects import CODECS, Dialect
from chatsite.gateway.endpoints import Target
from chatsite.gateway.records import RoundRecord

MESSAGE_ID = "answer"
CHARS_A_TOKEN = 4
Events = AsyncIterator[TurnEvent | TurnEnd]


class TranslatedRound:
    """What `rounds.Round` promises, from events."""

    record: RoundRecord
    began_at: float
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(self, target: Target, dialect: Dialect, body: Body, events: Events, first: Any) -> None:
        self.target = target
        self.streamed = body.stream
        self.whole = b""
        self.end: TurnEnd | None = None
        self._dialect: Dialect = dialect
        self._model = body.model
        self._events = events
        self.events = 0
        self._first: TurnEvent | TurnEnd | None = first
        self._encoder = (
            stream_encoder(dialect, body.model, include_usage=_wants_usage(body.json))
            if body.stream
            else None
        )

    @property
    def usage(self) -> Usage | None:
        """None while nobody has said it; a turn's end has nothing but zeros then."""
        return self.end.usage if self.end is not None and self.end.usage.total_tokens else None

    @property
    def provider(self) -> Dialect | None:
        return self.target.endpoint.dialect

    @property
    def stop_reason(self) -> str:
        return "" if self.end is None else self.end.finish_reason or ""

    async def next(self) -> bytes:
        while self.end is None:
            out = self._encode(await self._pull())
            if out:
                return out
        return b""

    async def gather(self) -> None:
        fold = TurnFold(MESSAGE_ID)
        while self.end is None:
            fold.feed([await self._pull()])
        answer = CODECS[self._dialect].encode_response(
            fold.message,
            self.end,
            id=new_answer_id(self._dialect),
            model=self._model,
            created=int(time.time()),
        )
        self.whole = dump(answer).encode()

    async def close(self) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()

    async def _pull(self) -> TurnEvent | TurnEnd:
        first, self._first = self._first, None
        event = first if first is not None else await anext(self._events)
        # Deltas that came in one read are one event here.
        self.events += max(1, len(getattr(event, "delta", None) or "") // CHARS_A_TOKEN)
        if isinstance(event, TurnEnd):
            self.end = event
            if event.finish_reason is None:
                await self._raise_what_broke()
        return event

    def _encode(self, event: TurnEvent | TurnEnd) -> bytes:
        assert self._encoder is not None
        return self._encoder.finish(event) if isinstance(event, TurnEnd) else self._encoder.feed(event)

    async def _raise_what_broke(self) -> None:
        """A provider says behind the end of a broken turn what broke it."""
        async for _ in self._events:
            pass
        raise BadStream("The model's answer broke off before its end.")


async def translate(target: Target, dialect: Dialect, body: Body) -> TranslatedRound:
    """The round, once it has begun to answer; one in one piece is to be gathered. Raises InvalidRequest and
    ProviderError."""
    request = request_of(dialect, body, target.model)
    events = target.endpoint.provider.stream(request)
    try:
        first = await anext(events)
    except BaseException:
        await _close(events)
        raise
    return TranslatedRound(target, dialect, body, events, first)


def request_of(dialect: Dialect, body: Body, model: str) -> TurnRequest:
    if not isinstance(body.json, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return replace(CODECS[dialect].decode_request(body.json), model=model)


def new_answer_id(dialect: Dialect) -> str:
    return ("msg_" if dialect == "anthropic" else "chatcmpl-") + uuid.uuid4().hex


def stream_encoder(dialect: Dialect, model: str, *, include_usage: bool) -> Any:
    id = new_answer_id(dialect)
    if dialect == "anthropic":
        return anthropic.StreamEncoder(id=id, model=model)
    return openai_chat.StreamEncoder(
        id=id, model=model, created=int(time.time()), include_usage=include_usage
    )


def _wants_usage(body: dict[str, Any]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.get("include_usage"))


async def _close(events: Events) -> None:
    async with aclosing(events):
        pass
