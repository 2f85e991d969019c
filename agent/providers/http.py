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
from typing import Any

import aiohttp
import httpx

from agent.errors import (
    BadStream,
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    ProviderUnreachable,
    RequestRejected,
)
from agent.events import TurnEnd, TurnEvent
from agent.providers.addresses import was_refused
from agent.providers.base import Sent, TurnRequest
from agent.providers.endpoint import Codec, Endpoint, Timeouts
from agent.providers.transport import (
    NETWORK_ERRORS,
    USER_AGENT,
    Answer,
    close_shared_clients,
    is_timeout,
    make_client,
    shared_client,
    shared_transport,
)
from agent.wire.jsonload import NotJson, load
from agent.wire.jsontext import dump
from agent.wire.problems import mask
from agent.wire.turn import NewId
from agent.wire.turn_reader import TurnReader

__all__ = ["HttpProvider", "close_shared_clients", "make_client", "new_call_id", "shared_client"]

MAX_ERROR_BODY = 64 * 1024
MAX_MODELS_BODY = 10 * 1024 * 1024
LONGEST_WAIT = 30.0
"""Seconds. An endpoint that asks for more is not waited for: the error says when to try again."""
AWAY = (
    "The address of the model's endpoint leads into a private network, or to where no endpoint is. "
    "The operator allows private ones with PRIVATE_ENDPOINTS=true."
)
AFTER_REASON = 5.0
"""Seconds that a turn which has said how it ends may keep us waiting for its usage and its end mark."""


_parsed = lru_cache(256)(httpx.URL)
"""An endpoint has a handful of addresses, and reading one costs as much as sending the head."""


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
        self._to_connect = httpx.Timeout(None, connect=timeouts.connect)
        self._retries = retries
        self._new_id = new_id
        self._sleep = sleep
        self._own_headers = {name.lower(): value for name, value in (headers or {}).items()}
        self._secrets = tuple(filter(None, (endpoint.api_key, *self._own_headers.values())))
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
            body = await answer.read_all(MAX_MODELS_BODY, self._timeouts.idle)
        finally:
            await answer.close()
        try:
            return self._codec.decode_models(load(body))
        except NotJson as exc:
            raise BadStream("The model's endpoint sent no list of models.") from exc

    def _patience(self, reader: TurnReader) -> float:
        idle = self._timeouts.idle
        return min(idle, AFTER_REASON) if reader.has_reason else idle

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
                answer = Answer(await self._send(method, self._endpoint.url(path), content))
                await answer.begin()
            if not answer.ok:
                await self._raise_refusal(answer, asked)
            if not answer.first:
                raise BadStream("The model's endpoint sent an empty answer.", status=answer.status)
        except BaseException as exc:  # also a cancellation: the connection goes back first
            if answer is not None:
                await answer.close()
            if isinstance(exc, NETWORK_ERRORS):
                raise self._network_error(exc) from exc
            raise
        return answer

    async def _send(self, method: str, url: str, content: bytes | None) -> httpx.Response:
        headers, timeout = self._headers(content), self._to_connect
        if self._client is not None:
            own = self._client.build_request(method, url, content=content, headers=headers, timeout=timeout)
            return await self._client.send(own, stream=True, follow_redirects=False)
        request = httpx.Request(
            method,
            _parsed(url),
            content=content,
            headers={"user-agent": USER_AGENT, **headers},
            extensions={"timeout": timeout.as_dict()},
        )
        return await shared_transport(self._endpoint.reach).handle_async_request(request)

    async def _raise_refusal(self, answer: Answer, asked: TurnRequest | None) -> None:
        try:
            body = await answer.read_all(MAX_ERROR_BODY, min(self._timeouts.idle, 5))
        except ProviderError:
            body = answer.first  # the status says enough
        if asked is not None and asked.on_received is not None:
            asked.on_received(answer.status, body)
        raise self._codec.decode_error(answer.status, answer.headers, body, secrets=self._secrets)

    def _headers(self, content: bytes | None) -> dict[str, str]:
        headers = {"accept-encoding": "identity", **self._codec.headers(self._endpoint.api_key)}
        if content is not None:
            headers |= {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        return headers | self._own_headers

    # -- errors ----------------------------------------------------------------------------------------------

    def _network_error(self, error: BaseException) -> ProviderError:
        if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
            # Ours, for the first byte. Whoever waited that long is not made to wait as long again.
            timeout = ProviderTimeout(
                f"The model's endpoint did not begin to answer within {self._timeouts.first_byte:g} seconds."
            )
            timeout.retryable = False
            return timeout
        if is_timeout(error):
            return ProviderTimeout(
                f"The model's endpoint could not be reached within {self._timeouts.connect:g} seconds."
            )
        if was_refused(error):
            refused = ProviderUnreachable(AWAY)
            refused.retryable = False
            return refused
        if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            wrong = ProviderUnreachable("The address of the model's endpoint is not valid.")
            wrong.retryable = False
            return wrong
        if isinstance(error, aiohttp.ClientResponseError):
            return BadStream("The model's endpoint does not speak HTTP. Is its address right?")
        return ProviderUnreachable("The model's endpoint could not be reached.")

    def _masked(self, error: ProviderError) -> ProviderError:
        if error.detail and self._secrets:
            error.detail = mask(error.detail, self._secrets)
        return error
