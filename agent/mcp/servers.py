"""All the servers, in a thread and an event loop of their own.

They are needed from every loop there is (a server's, a command's, a test's) and outlive each; and what a server sends,
5 MB of JSON at once, is read where no stream waits behind it. The thread begins at the first need.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from agent.mcp.config import ServerConfig
from agent.mcp.server import Known, Server
from agent.tools import Tool

T = TypeVar("T")

FIRST_WAIT = 3.0
"""Seconds since the first need that anybody waits for servers to say what they have."""
CLOSE_FOR = 5.0


class Servers:
    """`begin()` begins to connect, and so do those that wait: `ready()` for a moment and once, `look()` for all."""

    def __init__(self, configs: Iterable[ServerConfig]) -> None:
        self._servers = [Server(config, self._run) for config in configs]
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tried: list[concurrent.futures.Future[Any]] = []
        self._until = 0.0
        self._closed = False

    def begin(self) -> None:
        """Does not wait. Servers that were away for a while are tried again."""
        with self._lock:
            if not self._servers or self._closed:
                return
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._until = time.monotonic() + FIRST_WAIT
                threading.Thread(target=_serve, args=(self._loop,), name="mcp", daemon=True).start()
                atexit.register(self.close)
            elif not all(future.done() for future in self._tried):
                return
            due = [server for server in self._servers if server.is_due]
            if due:
                self._tried = [asyncio.run_coroutine_threadsafe(server.open(), self._loop) for server in due]

    def tools(self) -> tuple[Tool, ...]:
        """Those that are known now. None before somebody began."""
        if self._loop is not None:
            self.begin()
        return tuple(tool for server in self._servers for tool in server.known.tools)

    def known(self) -> tuple[tuple[ServerConfig, Known], ...]:
        return tuple((server.config, server.known) for server in self._servers)

    async def ready(self) -> None:
        """Returns when each has been asked for its tools once, or has had its time."""
        self.begin()
        waiting = [asyncio.wrap_future(future) for future in self._tried if not future.done()]
        left = self._until - time.monotonic()
        if waiting and left > 0:
            await asyncio.wait(waiting, timeout=left)

    async def look(self) -> tuple[tuple[ServerConfig, Known], ...]:
        """What is known when each has been tried, however long that takes."""
        self.begin()
        await asyncio.gather(*map(asyncio.wrap_future, self._tried))
        return self.known()

    def close(self) -> None:
        """Ends the sessions, and with them the commands."""
        with self._lock:
            loop, self._loop, self._closed = self._loop, None, True
        if loop is None:
            return
        with suppress(concurrent.futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(self._close(), loop).result(CLOSE_FOR)
        loop.call_soon_threadsafe(loop.stop)

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result, where it was asked for. Who stops waiting stops the work."""
        loop = self._loop
        if loop is None:
            work.close()
            raise RuntimeError("The connections to other servers are closed.")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    async def _close(self) -> None:
        await asyncio.gather(*(server.close() for server in self._servers), return_exceptions=True)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
