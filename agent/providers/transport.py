"""What carries the requests: for each event loop one session, and one client for who wants httpx's interface.

The connections are aiohttp's, also below httpx's interface (httpx-aiohttp). Measured with `bench/transport.py`, whose
docstring has the table: httpx's own pool scans every connection for every request, and the interface alone takes as
long as aiohttp does.

Environment variables for proxies and .netrc are not read: where a key goes is decided by configuration alone.
Who needs a proxy gives a client of their own. Redirects are not followed, for the same reason. Certificates
are checked against the system's store, so that a company's own authority works; where there is none, certifi's.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from functools import partial
from io import BytesIO
from weakref import WeakKeyDictionary

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from agent.providers.addresses import Reach, sockets_within

USER_AGENT = "threadloom"

LARGE = 512 * 1024


def payload(body: bytes) -> bytes | BytesIO:
    """A large body is written piece by piece, or the loop would stand still for it."""
    return body if len(body) < LARGE else BytesIO(body)


Clients = dict[Reach, httpx.AsyncClient]
Sessions = dict[Reach, aiohttp.ClientSession]

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
    """The running loop's connections; one cannot move from one loop to another."""
    sessions = _sessions.setdefault(asyncio.get_running_loop(), {})
    session = sessions.get(reach)
    if session is None or session.closed:
        session = sessions[reach] = _make_session(reach)
    return session


async def close_shared_clients() -> None:
    """Closes what the running loop shares. That of loops that are gone went with them."""
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
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        headers={"user-agent": USER_AGENT},
    )


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
