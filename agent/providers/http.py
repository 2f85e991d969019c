"""A provider behind HTTP: a codec, an endpoint and a client.

Rule 1: a request is sent again only while not one byte of an answer's body has come. Whoever waits has then
seen nothing, and the endpoint has charged for little.
Rule 2: work is done per network read, not per delta: what arrives together is yielded as one delta.
Rule 3: whoever stops listening (closes the generator, cancels the task) closes the connection at once.
Rule 4: the key appears in the request's header and nowhere else, and so do headers of the endpoint's own.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from agent.errors import (
    BadStream,
    ProviderError,
    ProviderUnavailable,
    RequestRejected,
)
from agent.events import TurnEnd, TurnEvent
from agent.providers.answers import NETWORK_ERRORS, Answer, Direct, all_of, is_packed
from agent.providers.base import Sent, TurnRequest
from agent.providers.endpoint import Codec, Endpoint, Timeouts
from agent.providers.failures import failure_of
from agent.providers.transport import (
    close_shared_clients,
    payload,
    shared_session,
)
from agent.wire.jsonload import NotJson, load
from agent.wire.jsontext import dump
from agent.wire.problems import mask
from agent.wire.turn import NewId
from agent.wire.turn_reader import TurnReader

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpProvider", "close_shared_clients", "new_call_id"]

MAX_ERROR_BODY = 64 * 1024
MAX_MODELS_BODY = 10 * 1024 * 1024
LONGEST_WAIT = 30.0
"""Seconds. An endpoint that asks for more is not waited for: the error says when to try again."""
OF_BODY = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
AFTER_REASON = 5.0
"""Seconds that a turn which has said how it ends may keep us waiting for its usage and its end mark."""


@lru_cache(256)
def _parsed(url: str) -> URL:
    """An endpoint has a handful of addresses, and reading one costs as much as sending the head."""
    try:
        return URL(url)
    except ValueError as exc:
        raise aiohttp.InvalidURL(url) from exc


def answer_of(response: aiohttp.ClientResponse, idle: float) -> Answer:
    """Of a response that aiohttp does not unpack by itself; `idle`: seconds between two pieces."""
    if not is_packed(response.headers):
        return Direct(response, idle)
    from agent.providers import clients  # what few need is not held by all

    return clients.unpacked(response, idle)


def new_call_id() -> str:
    return f"call_{uuid.uuid4().hex}"


class HttpProvider:
    """Streams turns from one endpoint. Safe to share between runs."""

    def __init__(
        self,
        codec: Codec,
        endpoint: Endpoint,
        *,
        client: httpx.AsyncClient | None = None,
        timeouts: Timeouts = Timeouts(),
        retries: int = 2,
        new_id: NewId = new_call_id,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._codec = codec
        self._endpoint = endpoint
        self._client = client
        self._timeouts = timeouts
        self._to_connect = aiohttp.ClientTimeout(sock_connect=timeouts.connect)
        self._retries = retries
        self._new_id = new_id
        self._sleep = sleep
        own = {name.lower(): value for name, value in (headers or {}).items()}
        self._secrets = tuple(filter(None, (endpoint.api_key, *own.values())))
        self._headers = {"accept-encoding": "identity", **codec.headers(endpoint.api_key), **own}
        self._headers_of_body = {**OF_BODY, **self._headers}
        self._refusals: list[ProviderError] = []  # what this endpoint has refused before, see `_amended`

    @property
    def name(self) -> str:
        return self._endpoint.name

    @property
    def native_output(self) -> bool:
        return bool(getattr(self._codec, "NATIVE_OUTPUT", False))

    def __repr__(self) -> str:
        return f"HttpProvider({self._endpoint!r})"

    async def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        answer = await self._ask(self._codec.encode_request(request), request)
        status, on_received = answer.status, request.on_received
        reader = TurnReader(
            self._codec.StreamDecoder(request.message_id, self._new_id),
            lambda body: self._codec.decode_response(body, request.message_id, self._new_id),
        )
        try:
            chunk = answer.first
            while chunk and not reader.over:
                if on_received is not None:
                    on_received(status, chunk)
                for event in reader.feed(chunk):
                    yield event
                if not reader.over:
                    try:
                        chunk = await answer.read(self._patience(reader))
                    except ProviderError as exc:
                        for event in reader.break_off(exc):
                            yield event
            for event in reader.finish():
                yield event
            if reader.error is None:
                await answer.drain()
        finally:
            await answer.close()
        if reader.error is not None:
            raise self._masked(reader.error)

    async def models(self) -> list[str]:
        """The names that the endpoint lists."""
        answer = await self._open("GET", self._codec.MODELS_PATH, None)
        try:
            body = await all_of(answer, MAX_MODELS_BODY)
        finally:
            await answer.close()
        try:
            return self._codec.decode_models(load(body))
        except NotJson as exc:
            raise BadStream("The model's endpoint sent no list of models.") from exc

    def _patience(self, reader: TurnReader) -> float | None:
        return min(self._timeouts.idle, AFTER_REASON) if reader.has_reason else None

    # -- asking ----------------------------------------------------------------------------------------------

    async def _ask(self, body: dict[str, Any], asked: TurnRequest) -> Answer:
        """The answer to this body, which is put in the form that the endpoint takes if it says which."""
        for refusal in self._refusals:
            body = self._codec.amend_request(body, refusal) or body
        for _ in range(2):
            try:
                return await self._open("POST", self._codec.PATH, body, asked)
            except RequestRejected as exc:
                amended = self._codec.amend_request(body, exc)
                if amended is None:
                    raise
                body = amended
                self._refusals = [*self._refusals, exc][-4:]
        return await self._open("POST", self._codec.PATH, body, asked)

    async def _open(
        self, method: str, path: str, body: dict[str, Any] | None, asked: TurnRequest | None = None
    ) -> Answer:
        on_sent = asked.on_sent if asked else None
        content = None if body is None else dump(body).encode()
        attempt = 0
        while True:
            if on_sent is not None and body is not None and content is not None:
                on_sent(Sent(self._endpoint.url(path), path, body, content))
            try:
                return await self._try(method, path, content, asked)
            except ProviderError as exc:
                wait = self._wait(exc, attempt)
                if wait is None:
                    raise
            attempt += 1
            await self._sleep(wait)

    def _wait(self, error: ProviderError, attempt: int) -> float | None:
        """Seconds until the next attempt, None when there is none."""
        if attempt >= self._retries or not error.retryable:
            return None
        wait: float = 0.5 * 2**attempt * random.uniform(0.5, 1)
        asked = error.retry_after if isinstance(error, ProviderUnavailable) else None
        if asked is None:
            return wait
        return None if asked > LONGEST_WAIT else asked + random.uniform(0, 0.25) * min(asked, 1)

    async def _try(
        self, method: str, path: str, content: bytes | None, asked: TurnRequest | None = None
    ) -> Answer:
        answer: Answer | None = None
        try:
            async with asyncio.timeout(self._timeouts.first_byte):
                answer = await self._send(method, self._endpoint.url(path), content)
                await answer.begin()
            if not answer.ok:
                await self._raise_refusal(answer, asked)
            if not answer.first:
                raise BadStream("The model's endpoint sent an empty answer.", status=answer.status)
        except BaseException as exc:  # also a cancellation: the connection goes back first
            if answer is not None:
                await answer.close()
            if isinstance(exc, NETWORK_ERRORS):
                raise failure_of(exc, self._timeouts) from exc
            raise
        return answer

    async def _send(self, method: str, url: str, content: bytes | None) -> Answer:
        headers = self._headers if content is None else self._headers_of_body
        if self._client is not None:
            from agent.providers import clients  # what few need is not held by all

            wait, idle = self._timeouts.connect, self._timeouts.idle
            return await clients.asked_by(
                self._client, method, url, content=content, headers=headers, connect=wait, idle=idle
            )
        response = await shared_session(self._endpoint.reach).request(
            method,
            _parsed(url),
            data=None if content is None else payload(content),
            headers=headers,
            timeout=self._to_connect,
            allow_redirects=False,
            auto_decompress=False,
        )
        return answer_of(response, self._timeouts.idle)

    async def _raise_refusal(self, answer: Answer, asked: TurnRequest | None) -> None:
        try:
            body = await all_of(answer, MAX_ERROR_BODY, min(self._timeouts.idle, 5))
        except ProviderError:
            body = answer.first  # the status says enough
        if asked is not None and asked.on_received is not None:
            asked.on_received(answer.status, body)
        raise self._codec.decode_error(answer.status, answer.headers, body, secrets=self._secrets)

    def _masked(self, error: ProviderError) -> ProviderError:
        if error.detail and self._secrets:
            error.detail = mask(error.detail, self._secrets)
        return error
