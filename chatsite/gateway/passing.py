"""A round at an endpoint that speaks the caller's dialect: its bytes, as they come.

Asked for a stream, an endpoint may answer with a whole completion, or with an error under a 200; asked for one piece,
with a stream. The first byte tells. What is not what was asked for goes through the codec, so that the caller gets it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent.errors import AuthenticationFailed, BadStream, ProviderError
from agent.folding import TurnFold
from agent.messages import Usage
from agent.providers.answers import Direct
from agent.providers.http import new_call_id
from agent.wire.jsonload import NotJson, load
from agent.wire.jsontext import dump
from agent.wire.passing import EDGE, PassedStream, stop_reason_in, usage_of
from agent.wire.problems import mask, stream_error
from agent.wire.sse import SSEParser
from agent.wire.turn_reader import TurnReader
from chatsite.gateway import upstream
from chatsite.gateway.bodies import Body, with_model
from chatsite.gateway.dialects import CODECS, Dialect
from chatsite.gateway.endpoints import Target
from chatsite.gateway.errors import EndpointRefused
from chatsite.gateway.records import RoundRecord
from chatsite.gateway.translating import MESSAGE_ID, new_answer_id, stream_encoder

KEPT = frozenset({"retry-after", "openai-processing-ms", "openai-version", "request-id"})
KEPT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")
FORWARDED: Mapping[Dialect, tuple[bytes, ...]] = {
    "openai": (b"openai-beta", b"idempotency-key", b"traceparent", b"tracestate"),
    "anthropic": (b"anthropic-version", b"anthropic-beta", b"idempotency-key", b"traceparent", b"tracestate"),
}
ERROR_BEGINS = (b"event: error", b"event:error", b'data: {"error"', b'data:{"error"')

MAX_ERROR_BODY = 64 * 1024

Headers = list[tuple[bytes, bytes]]


class PassedRound:
    """What `rounds.Round` promises, from bytes."""

    record: RoundRecord
    began_at: float

    def __init__(self, target: Target, dialect: Dialect, body: Body, answer: Direct) -> None:
        self.target = target
        self.streamed = body.stream
        self.whole = b""
        self.headers = kept_headers(answer.headers)
        self._dialect: Dialect = dialect
        self._model = body.model
        self._answer = answer
        self._first = answer.first
        self._over = False
        self._stream = PassedStream(dialect, None if target.model == body.model else body.model)
        self._usage: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        return self._usage or self._stream.usage

    @property
    def events(self) -> int:
        return self._stream.events

    @property
    def provider(self) -> Dialect | None:
        return self.target.endpoint.dialect

    @property
    def stop_reason(self) -> str:
        return (
            self._stream.stop_reason if self.streamed else stop_reason_in(self._dialect, self.whole[-EDGE:])
        )

    async def next(self) -> bytes:
        while not self._over:
            try:
                chunk, self._first = self._first or await self._answer.read(), b""
            except ProviderError:
                # The connection may break behind the end; what has said how it ends is whole.
                if self._stream.is_whole:
                    return self._finish()
                self._stream.broke_off()
                raise
            if not chunk:
                return self._finish()
            if out := self._stream.feed(chunk):
                return out
        return b""

    async def take_whole(self) -> None:
        """The answer in one piece, in the form that was asked for. Raises ProviderError, also one told under a 200."""
        raw = await upstream.whole(self._answer)
        codec = CODECS[self._dialect]
        value = _json_object(raw)
        if value is not None and not self.streamed:
            if value.get("error") or value.get("type") == "error":
                raise stream_error(value.get("error") or value)
            self._usage = usage_of(self._dialect, value.get("usage"))
            self.whole = raw if self.target.model == self._model else with_model(raw, self._model)
            return
        fold = TurnFold(MESSAGE_ID)
        reader = TurnReader(
            codec.StreamDecoder(MESSAGE_ID, new_call_id),
            lambda answer: codec.decode_response(answer, MESSAGE_ID, new_call_id),
        )
        events = reader.feed(raw) + reader.finish()
        if reader.error is not None:
            raise reader.error
        fold.feed(events)
        assert fold.end is not None
        self._usage = fold.end.usage
        if self.streamed:
            encoder = stream_encoder(self._dialect, self._model, include_usage=True)
            self._first = b"".join(encoder.feed(event) for event in events[:-1]) + encoder.finish(fold.end)
            self._stream = PassedStream(self._dialect)
        else:
            answer = codec.encode_response(
                fold.message,
                fold.end,
                id=new_answer_id(self._dialect),
                model=self._model,
                created=int(time.time()),
            )
            self.whole = dump(answer).encode()

    async def close(self) -> None:
        self._answer.leave()

    def _finish(self) -> bytes:
        self._over = True
        rest = self._stream.finish()
        if self._stream.is_whole:
            return rest
        if self._stream.ends_in_error:
            self.record.error_code = ProviderError.code
            return rest
        raise BadStream("The model's answer broke off before its end.")


async def pass_on(target: Target, dialect: Dialect, body: Body, headers: Mapping[str, str]) -> PassedRound:
    """The round, once it has begun to answer well. Raises ProviderError and EndpointRefused."""
    endpoint = target.endpoint
    raw = body.named(target.model)
    answer = await upstream.send(
        endpoint.url,
        raw,
        {**endpoint.headers, **headers},
        endpoint.timeouts,
        endpoint.client_timeout,
        endpoint.reach,
    )
    try:
        if not answer.ok:
            raise await refusal(answer, target, dialect, body.model)
        round = PassedRound(target, dialect, body, answer)
        if not body.stream or answer.first[:1].isspace() or answer.first[:1] in (b"{", b"<", b""):
            await round.take_whole()
        elif answer.first.startswith(ERROR_BEGINS):
            raise await _first_error(answer)
    except BaseException:
        answer.leave()
        raise
    if not body.stream:
        answer.leave()
    return round


def forwarded(headers: Mapping[bytes, bytes], dialect: Dialect, request_id: str) -> dict[str, str]:
    """Of the caller's headers, those that matter to an endpoint of the same dialect."""
    kept = {"content-type": "application/json", "x-request-id": request_id}
    for name in FORWARDED[dialect]:
        if name in headers:
            kept[name.decode()] = headers[name].decode("latin-1")
    return kept


def kept_headers(headers: Mapping[str, str]) -> Headers:
    """Of the endpoint's headers, those that matter to the caller. Its request id stands beside ours."""
    kept: Headers = []
    for name, value in headers.items():
        name = name.lower()
        if name in KEPT or name.startswith(KEPT_PREFIXES):
            kept.append((name.encode("latin-1"), value.encode("latin-1", "replace")))
        elif name == "x-request-id":
            kept.append((b"x-upstream-request-id", value.encode("latin-1", "replace")))
    return kept


async def refusal(answer: Direct, target: Target, dialect: Dialect, model: str) -> EndpointRefused:
    """Why the endpoint says no; with its own words where they are in the caller's dialect and about the request."""
    body = answer.first
    with suppress(ProviderError):  # else the status says enough
        body = await upstream.whole(answer, MAX_ERROR_BODY)
    secrets = target.endpoint.secrets
    error = CODECS[dialect].decode_error(answer.status, answer.headers, body, secrets=secrets)
    if isinstance(error, AuthenticationFailed) or answer.status < 400 or not _is_error_of(dialect, body):
        return EndpointRefused(error)
    words = mask(body.decode("utf-8", "replace"), secrets)
    if target.model != model:
        words = words.replace(target.model, model)
    return EndpointRefused(error, words.encode(), kept_headers(answer.headers))


async def _first_error(answer: Direct) -> ProviderError:
    """A stream that begins with an error has not begun: another endpoint may do better."""
    parser = SSEParser()
    events = parser.feed(answer.first)
    while not events and (piece := await answer.read()):
        events = parser.feed(piece)
    value = _json_object(events[0].data if events else b"")
    if value is None:
        return BadStream("The model's endpoint sent something that is no JSON.")
    return stream_error(value.get("error") or value)


def _json_object(text: bytes | str) -> dict[str, Any] | None:
    try:
        value = load(text)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None


def _is_error_of(dialect: Dialect, body: bytes) -> bool:
    value = _json_object(body) or {}
    error = value.get("error")
    told = isinstance(error, dict) and isinstance(error.get("message"), str)
    return told and (dialect == "openai" or value.get("type") == "error")
