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
from typing import Any, TypeVar

from agent.errors import ToolError
from agent.mcp.config import ServerConfig
from agent.mcp.server import Known, Server
from agent.tools import Tool

T = TypeVar("T")

FIRST_WAIT = 3.0
"""Seconds since the first need that anybody waits for servers to say what they have."""
CLOSE_FOR = 8.0
"""Seconds until all have ended: the SDK gives a command two to go by itself, and two more before it is killed."""
CALLS_FOR = 1.0
"""Seconds for calls to say what became of them, when their sessions have ended."""
CLOSED = "The connections to other servers are closed."


class Servers:
    """`begin()` begins to connect, and so do those that wait: `ready()` for a moment and once, `look()` for all."""

    def __init__(self, configs: Iterable[ServerConfig]) -> None:
        self._servers = [Server(config, self._run) for config in configs]
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end = asyncio.Event()
        self._tried: list[concurrent.futures.Future[Any]] = []
        self._until = 0.0
        self._closed = False

    def begin(self) -> None:
        """Does not wait. Servers that were away for a while are tried again."""
        with self._lock:
            if not self._servers or self._closed:
                return
            if self._loop is None:
                self._start()
            elif not all(future.done() for future in self._tried):
                return
            due = [server for server in self._servers if server.is_due]
            if due:
                self._tried = [self._do(server.open()) for server in due]

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
        if (left := self._until - time.monotonic()) > 0:
            await _done(self._tried, left)

    async def look(self) -> tuple[tuple[ServerConfig, Known], ...]:
        """What is known when each has been tried, however long that takes."""
        self.begin()
        await _done(self._tried)
        return self.known()

    def leave(self) -> None:
        """Begins to end the sessions, and with them the commands. Nothing is opened any more."""
        with self._lock:
            if self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(self._end.set)
            self._closed = True

    def close(self) -> None:
        """Returns when all of it has ended."""
        self.leave()
        if self._thread is not None:
            self._thread.join(CLOSE_FOR)
        atexit.unregister(self.close)

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result, where it was asked for. Who stops waiting stops the work."""
        with self._lock:
            future = None if self._loop is None or self._closed else self._do(work)
        if future is None:
            work.close()
            raise ToolError(CLOSED, code="mcp_unreachable")
        return await asyncio.wrap_future(future)

    # -- the thread. Whoever gives it work holds the lock: behind `leave` it takes none, which would never be done --

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._until = time.monotonic() + FIRST_WAIT
        self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="mcp", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _do(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # what is left of the work, it cancels
            runner.run(self._until_the_end())

    async def _until_the_end(self) -> None:
        await self._end.wait()
        await asyncio.gather(*(server.close() for server in self._servers), return_exceptions=True)
        if calls := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(calls, timeout=CALLS_FOR)


async def _done(tried: Iterable[concurrent.futures.Future[Any]], within: float | None = None) -> None:
    """Others wait for the same: who is cancelled here leaves the work alone."""
    waiting = [asyncio.wrap_future(future) for future in tried if not future.done()]
    if waiting:
        await asyncio.wait(waiting, timeout=within)
