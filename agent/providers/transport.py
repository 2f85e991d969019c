"""What carries the requests: one client for each event loop, and a body read piece by piece.

The interface is httpx's, the connections are aiohttp's (httpx-aiohttp). Measured with `bench/transport.py`,
whose docstring has the table: httpx's own pool scans every connection for every request.

Environment variables for proxies and .netrc are not read: where a key goes is decided by configuration alone.
Who needs a proxy gives a client of their own. Redirects are not followed, for the same reason. Certificates
are checked against the system's store, so that a company's own authority works; where there is none, certifi's.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from functools import partial
from weakref import WeakKeyDictionary

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from agent.errors import ProviderTimeout, ProviderUnreachable
from agent.providers.addresses import Reach, sockets_within

DRAIN = 0.1
"""Seconds that the end of the body may take behind the end mark; then the connection is not kept."""

UNPACKED = 64 * 1024
"""Bytes that are read at once of an answer that came compressed though we ask for none: one read of the network may be
a thousand times as much, and who reads it would hold up everybody."""

USER_AGENT = "threadloom"

NETWORK_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, aiohttp.ClientError, OSError)


def is_timeout(error: BaseException) -> bool:
    """httpx-aiohttp also calls it a timeout when a connection is reset; the cause tells."""
    cause = error.__cause__
    return isinstance(error, httpx.TimeoutException) and (cause is None or isinstance(cause, TimeoutError))


_NOTHING_ASKED = httpx.Request("POST", "http://localhost")
"""What a response is told it answers: it would hold all that was asked, the whole conversation, for as long as the
answer takes."""


class Answer:
    """A response whose body is read piece by piece; every read has its time."""

    def __init__(self, response: httpx.Response) -> None:
        self.first = b""
        response.request = _NOTHING_ASKED
        self._response = response
        self._is_packed = response.headers.get("content-encoding", "identity") != "identity"
        self._chunks = response.aiter_bytes(UNPACKED if self._is_packed else None)

    @property
    def ok(self) -> bool:
        return self._response.is_success

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def begin(self) -> None:
        self.first = await self._next()

    async def read(self, seconds: float) -> bytes:
        """The next piece, empty at the end."""
        try:
            async with asyncio.timeout(seconds):
                return await self._next()
        except TimeoutError as exc:
            raise ProviderTimeout(f"The model's answer stopped for more than {seconds:g} seconds.") from exc
        except NETWORK_ERRORS as exc:
            raise ProviderUnreachable("The connection to the model's endpoint broke.") from exc

    async def read_all(self, most: int, seconds: float) -> bytes:
        body = bytearray(self.first)
        while len(body) < most and (chunk := await self.read(seconds)):
            body += chunk
        return bytes(body[:most])

    async def drain(self) -> None:
        """Reads what is left behind the end mark, so that the connection can serve again."""
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
        async for chunk in self._chunks:
            if chunk:
                return chunk
        return b""


Transports = dict[Reach, AiohttpTransport]
Clients = dict[Reach, httpx.AsyncClient]
Sessions = dict[Reach, aiohttp.ClientSession]

_transports: WeakKeyDictionary[asyncio.AbstractEventLoop, Transports] = WeakKeyDictionary()


def shared_transport(reach: Reach = Reach.ANYWHERE) -> AiohttpTransport:
    """What the running event loop's client sends with; connections cannot move from one loop to another.

    For whoever needs nothing of what a client does with a request: its cookies, redirects and addresses that are parts
    of others cost a third of a millisecond a request.
    """
    transports = _transports.setdefault(asyncio.get_running_loop(), {})
    transport = transports.get(reach)
    if transport is None:
        transport = transports[reach] = _make_transport(reach)
    return transport


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Clients] = WeakKeyDictionary()


def shared_client(reach: Reach = Reach.ANYWHERE) -> httpx.AsyncClient:
    """The client of the running event loop."""
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    client = clients.get(reach)
    if client is None or client.is_closed:
        client = clients[reach] = make_client(reach)
    return client


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, Sessions] = WeakKeyDictionary()


def shared_session(reach: Reach = Reach.ANYWHERE) -> aiohttp.ClientSession:
    """The running loop's connections below httpx's interface, for whoever passes bytes on and counts microseconds."""
    sessions = _sessions.setdefault(asyncio.get_running_loop(), {})
    session = sessions.get(reach)
    if session is None or session.closed:
        session = sessions[reach] = _make_session(reach)
    return session


async def close_shared_clients() -> None:
    """Closes what the running loop shares. That of loops that are gone went with them."""
    for transport in _transports.pop(asyncio.get_running_loop(), {}).values():
        await transport.aclose()
    for client in _clients.pop(asyncio.get_running_loop(), {}).values():
        await client.aclose()
    for session in _sessions.pop(asyncio.get_running_loop(), {}).values():
        await session.close()


def make_client(reach: Reach = Reach.ANYWHERE) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=_make_transport(reach),
        follow_redirects=False,
        trust_env=False,
        timeout=httpx.Timeout(None, connect=10),
        headers={"user-agent": USER_AGENT},
    )


def _make_transport(reach: Reach) -> AiohttpTransport:
    return AiohttpTransport(client=partial(_make_session, reach), verify=_UNUSED, trust_env=False)


_UNUSED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""What the transport would connect with, had it no session of ours; else it reads a store of certificates for it."""


def _make_session(reach: Reach) -> aiohttp.ClientSession:
    guard = None if reach is Reach.ANYWHERE else sockets_within(reach)
    connector = aiohttp.TCPConnector(
        limit=0, ssl=checked_against(), keepalive_timeout=30, socket_factory=guard
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


def checked_against() -> ssl.SSLContext | bool:
    """True: the context that aiohttp makes with the system's store when it is loaded; another takes 1.5 MiB."""
    if _has_store():
        return True
    tls = httpx.create_ssl_context(trust_env=False)
    tls.load_default_certs()
    return tls


def _has_store() -> bool:
    store = ssl.get_default_verify_paths()
    return bool(store.cafile or (store.capath and os.listdir(store.capath)))
