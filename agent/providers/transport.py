"""What carries the requests: for each event loop one session of aiohttp's (`clients`: the same with httpx's interface).

Measured with `bench/transport.py`, whose docstring has the table: httpx's own pool scans every connection for every
request, and its interface alone takes as long as aiohttp does.

Environment variables for proxies and .netrc are not read: where a key goes is decided by configuration alone.
Who needs a proxy gives a client of their own. Redirects are not followed, for the same reason. Certificates
are checked against the system's store, so that a company's own authority works; where there is none, certifi's.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

import aiohttp

from agent.providers.addresses import Reach, sockets_within

T = TypeVar("T")

USER_AGENT = "threadloom"

LARGE = 512 * 1024


def payload(body: bytes) -> bytes | BytesIO:
    """A large body is written piece by piece, or the loop would stand still for it."""
    return body if len(body) < LARGE else BytesIO(body)


class PerLoop(Generic[T]):
    """One of a kind for each event loop and reach; a connection cannot move from one loop to another."""

    kinds: ClassVar[list[PerLoop[Any]]] = []

    def __init__(
        self,
        make: Callable[[Reach], T],
        is_closed: Callable[[T], bool],
        close: Callable[[T], Awaitable[None]],
    ) -> None:
        self._make, self._is_closed, self._close = make, is_closed, close
        self._there: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Reach, T]] = WeakKeyDictionary()
        self.kinds.append(self)

    def get(self, reach: Reach) -> T:
        there = self._there.setdefault(asyncio.get_running_loop(), {})
        one = there.get(reach)
        if one is None or self._is_closed(one):
            one = there[reach] = self._make(reach)
        return one

    async def close(self) -> None:
        for one in self._there.pop(asyncio.get_running_loop(), {}).values():
            await self._close(one)


def shared_session(reach: Reach = Reach.ANYWHERE) -> aiohttp.ClientSession:
    """The running loop's connections."""
    return _sessions.get(reach)


async def close_shared_clients() -> None:
    """Closes what the running loop shares. That of loops that are gone went with them."""
    for kind in PerLoop.kinds:
        await kind.close()


def make_session(reach: Reach) -> aiohttp.ClientSession:
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


_sessions = PerLoop(make_session, lambda session: session.closed, lambda session: session.close())


def checked_against() -> ssl.SSLContext | bool:
    """True: the context that aiohttp makes with the system's store when it is loaded; another takes 1.5 MiB."""
    if _has_store():
        return True
    import httpx  # which brings the certificates of certifi along

    tls = httpx.create_ssl_context(trust_env=False)
    tls.load_default_certs()
    return tls


def _has_store() -> bool:
    store = ssl.get_default_verify_paths()
    return bool(store.cafile or (store.capath and os.listdir(store.capath)))
