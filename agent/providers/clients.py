"""httpx's interface: for whoever gives a client of their own, wants one, or is sent what httpx unpacks. Loaded by them
alone: with what carries it (httpx-aiohttp) it takes 2 MiB.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from httpx_aiohttp.transport import AiohttpResponseStream

from agent.errors import ProviderUnreachable
from agent.providers.addresses import Reach
from agent.providers.answers import BROKE, DRAIN, NETWORK_ERRORS, Answer, is_packed, late
from agent.providers.transport import USER_AGENT, PerLoop, make_session

UNPACKED = 64 * 1024
"""Bytes that are read at once of an answer that came compressed though we ask for none: one read of the network may be
a thousand times as much, and who reads it would hold up everybody."""

NOT_VALID = (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError)


def make_client(reach: Reach = Reach.ANYWHERE) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=AiohttpTransport(client=partial(make_session, reach), verify=_UNUSED, trust_env=False),
        follow_redirects=False,
        trust_env=False,
        timeout=httpx.Timeout(None, connect=10),
        headers={"user-agent": USER_AGENT},
    )


_clients = PerLoop(make_client, lambda client: client.is_closed, lambda client: client.aclose())


def shared_client(reach: Reach = Reach.ANYWHERE) -> httpx.AsyncClient:
    """The client of the running event loop."""
    return _clients.get(reach)


_UNUSED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""What the transport would connect with, had it no session of ours; else it reads a store of certificates for it."""


async def asked_by(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    content: bytes | None,
    headers: Mapping[str, str],
    connect: float,
    idle: float,
) -> Answer:
    """The answer to this client's request; `connect` and `idle` in seconds. Raises one of NETWORK_ERRORS."""
    with as_of_aiohttp():
        timeout = httpx.Timeout(None, connect=connect)
        request = client.build_request(method, url, content=content, headers=headers, timeout=timeout)
        response = await client.send(request, stream=True, follow_redirects=False)
    response.request = NOTHING_ASKED  # an answer holds nothing of what was asked
    return Wrapped(response, idle)


NOTHING_ASKED = httpx.Request("POST", "http://localhost")


def unpacked(response: aiohttp.ClientResponse, idle: float) -> Answer:
    stream = AiohttpResponseStream(response)
    return Wrapped(httpx.Response(response.status, headers=response.raw_headers, stream=stream), idle)


@contextmanager
def as_of_aiohttp() -> Iterator[None]:
    """httpx's errors as those that `answers` and `failures` know.

    httpx-aiohttp also calls it a timeout when a connection is reset; the cause tells.
    """
    try:
        yield
    except NOT_VALID as exc:
        raise aiohttp.InvalidURL("") from exc
    except httpx.TimeoutException as exc:
        is_late = exc.__cause__ is None or isinstance(exc.__cause__, TimeoutError)
        raise (aiohttp.ServerTimeoutError if is_late else aiohttp.ClientConnectionError)(str(exc)) from exc
    except (httpx.HTTPError, httpx.StreamError) as exc:
        raise aiohttp.ClientConnectionError(str(exc)) from exc


class Wrapped(Answer):
    """httpx's: of a client that was given, or one that came compressed, which httpx unpacks in pieces."""

    def __init__(self, response: httpx.Response, idle: float) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response = response
        self._idle = idle
        self._is_packed = is_packed(response.headers)
        self._chunks = response.aiter_bytes(UNPACKED if self._is_packed else None)

    async def begin(self) -> None:
        self.first = await self._next()

    async def read(self, seconds: float | None = None) -> bytes:
        patience = self._idle if seconds is None else seconds
        try:
            async with asyncio.timeout(patience):
                return await self._next()
        except TimeoutError as exc:
            raise late(patience) from exc
        except NETWORK_ERRORS as exc:
            raise ProviderUnreachable(BROKE) from exc

    async def drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN):
                while await self._next():
                    pass
        except NETWORK_ERRORS:  # among them the timeout: the connection is closed then, and the turn is whole
            pass

    async def close(self) -> None:
        await self._response.aclose()

    async def _next(self) -> bytes:
        if self._is_packed:
            await asyncio.sleep(0)  # what is unpacked already is no wait, in which others had their turn
        with as_of_aiohttp():
            async for chunk in self._chunks:
                if chunk:
                    return chunk
        return b""
