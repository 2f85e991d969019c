"""Whose key it is, without asking the database for every request.

    a key's age here      what happens
    under `FRESH`         it is taken as it is
    under `STALE`         it is taken as it is, and looked up beside the request
    older, or unknown     the request waits for the look-up, once for all that bring the same key

A key with open requests is looked up every `FRESH` seconds: whoever revokes it cuts its streams within `STALE`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from django.db import DatabaseError, close_old_connections, connection
from django.utils import timezone

from chatsite.accounts import failed_keys, keys
from chatsite.accounts.keys import KeyView
from chatsite.accounts.models import GATEWAY
from chatsite.gateway.caller import Caller
from chatsite.gateway.errors import Refused

log = logging.getLogger(__name__)

Asked = TypeVar("Asked")
Found = TypeVar("Found")

FRESH = 2.0
STALE = 4.0
WHILE_DOWN = 30.0
"""Seconds that a known key is still good for while the database cannot be asked."""
MOST_KNOWN = 10_000

WORKERS = 2
_threads = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="gateway-keys")


@dataclass(frozen=True, slots=True)
class _Known:
    view: KeyView | None
    at: float


class Keys:
    def __init__(self, look_up: Callable[[str], KeyView | None] = keys.look_up) -> None:
        self._look_up = look_up
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Future[_Known]] = {}
        self._open: dict[str, list[Callable[[], None]]] = {}
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None

    async def of(self, caller: Caller, *, scopes: tuple[str, ...] = (GATEWAY,)) -> KeyView:
        """The caller's key. Raises Refused: none, a wrong one, one that has none of these scopes."""
        key = key_of(caller)
        known = self._known.get(keys.digest_of(key))
        if known is None or known.view is None:
            _not_too_often(caller)
        age = STALE if known is None else time.monotonic() - known.at
        if known is None or age >= STALE:
            known = await self._ask(key)
        elif age >= FRESH:
            self._begin(key)
        view = known.view
        if view is None or (view.expires_at is not None and view.expires_at <= timezone.now()):
            failed_keys.failed(caller.address)
            raise wrong_key()
        if not any(view.has(scope) for scope in scopes):
            raise Refused(403, "wrong_scope", "This API key is not for the gateway; ask for one that is.")
        return view

    @contextmanager
    def watched(self, caller: Caller, cut: Callable[[], None]) -> Iterator[None]:
        """While this lasts, `cut` is called when the key is no good any more."""
        key = key_of(caller)
        cuts = self._open.setdefault(key, [])
        cuts.append(cut)
        self._look_again()
        try:
            yield
        finally:
            cuts.remove(cut)
            if not cuts and self._open.get(key) is cuts:
                del self._open[key]

    async def _ask(self, key: str) -> _Known:
        try:
            return await asyncio.shield(self._begin(key))
        except DatabaseError as error:
            known = self._known.get(keys.digest_of(key))
            if known is not None and time.monotonic() - known.at < WHILE_DOWN:
                return known
            log.warning("a key could not be looked up: %s", error)
            message = "Keys cannot be checked at the moment. Try again soon."
            raise Refused(503, "not_stored", message, headers={"retry-after": "5"}) from None

    def _begin(self, key: str) -> asyncio.Future[_Known]:
        """The look-up that is under way, or one that begins now."""
        loop = asyncio.get_running_loop()
        digest = keys.digest_of(key)
        asking = self._asking.get(digest)
        if asking is None or asking.done() or asking.get_loop() is not loop:
            asking = loop.create_task(self._find(key, digest))
            asking.add_done_callback(_heard)
            self._asking[digest] = asking
        return asking

    async def _find(self, key: str, digest: str) -> _Known:
        loop = asyncio.get_running_loop()
        asked_at = time.monotonic()
        view = await loop.run_in_executor(_threads, partial(_in_thread, self._look_up, key))
        while len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        known = self._known[digest] = _Known(view, asked_at)
        self._asking.pop(digest, None)
        return known

    # -- open requests ---------------------------------------------------------------------------------------

    def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None or self._timer[0] is not loop:
            self._timer = loop, loop.call_later(FRESH, self._check_open)

    def _check_open(self) -> None:
        self._timer = None
        for key in list(self._open):
            self._begin(key).add_done_callback(partial(self._cut_if_dead, key))
        if self._open:
            self._look_again()

    def _cut_if_dead(self, key: str, asking: asyncio.Future[_Known]) -> None:
        if asking.cancelled() or asking.exception() is not None or asking.result().view is not None:
            return
        for cut in list(self._open.get(key, ())):
            cut()


def key_of(caller: Caller) -> str:
    """What the caller's headers hold. Raises Refused when that can be no key."""
    key = keys.key_in(caller.header(b"authorization"), caller.header(b"x-api-key"))
    if not key:
        message = "This needs an API key: send it as `Authorization: Bearer <key>` or as `x-api-key`."
        raise Refused(401, "missing_api_key", message, headers={"www-authenticate": "Bearer"})
    if not keys.sane_key(key):
        raise wrong_key()
    return key


def _not_too_often(caller: Caller) -> None:
    """An address that brings one wrong key after another waits."""
    if seconds := failed_keys.wait(caller.address):
        message = "Too many API keys that are not valid came from your address. Try again later."
        raise Refused(429, "too_many_attempts", message, headers={"retry-after": str(seconds)})


def wrong_key() -> Refused:
    message = "The API key is not valid: it is unknown, revoked or expired."
    return Refused(401, "invalid_api_key", message, headers={"www-authenticate": "Bearer"})


async def in_thread(look_up: Callable[[Asked], Found], asked: Asked) -> Found:
    """`look_up(asked)` off the loop, over the connection that the look-ups of keys have."""
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(_in_thread, look_up, asked))


def _in_thread(look_up: Callable[[Asked], Found], asked: Asked) -> Found:
    close_old_connections()
    return look_up(asked)


def _heard(asking: asyncio.Future[_Known]) -> None:
    """A refresh that failed has nobody who waits for it; its error is seen by the next one who does."""
    if not asking.cancelled():
        asking.exception()


def close_connections() -> None:
    """Close what these threads hold open (a test database cannot be dropped before)."""
    both_there = threading.Barrier(WORKERS)

    def close() -> None:
        both_there.wait(timeout=10)
        connection.close()

    for future in [_threads.submit(close) for _ in range(WORKERS)]:
        future.result()
