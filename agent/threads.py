"""Threads for work that blocks: as many as there is work at once, up to a number or without one.

Rule 1: the last that worked works next. What it looked up is warm (a database connection has caches of its own), and
the others can end.
Rule 2: a thread that is done waits a while for more. To start one costs a millisecond of everybody's time: the event
loop stands still until it runs.
Rule 3: none of them keeps the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

Work = Callable[[], Any]
Tell = Callable[[Any, BaseException | None], None]
Jobs = queue.SimpleQueue[tuple[Work, Tell]]

IDLE = 10.0
"""Seconds that a thread waits for its next job."""


def _nothing() -> None:
    pass


def _tried(work: Work) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except BaseException as raised:  # raised again where somebody waits for it
        return None, raised


class Threads:
    """`most`: of them at once, and jobs beyond wait their turn; None: no limit. `least`: that stay though idle.

    `begin` and `end` run in a thread before its first job and after its last.
    """

    def __init__(
        self,
        name: str,
        most: int | None = None,
        *,
        least: int = 0,
        begin: Callable[[], None] = _nothing,
        end: Callable[[], None] = _nothing,
    ) -> None:
        self._name, self._most, self._least = name, most, least
        self._begin, self._end = begin, end
        self._lock = threading.Lock()
        self._count = 0
        self._idle: list[Jobs] = []  # each thread's own
        self._waiting: deque[tuple[Work, Tell]] = deque()

    async def run(self, work: Work) -> Any:
        """What `work` returns or raises. Cancelling the caller lets it finish by itself."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if not future.done():
                future.set_result((value, error))

        def tell(value: Any, error: BaseException | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, value, error)

        self.submit(work, tell)
        value, error = await future
        try:
            if error is not None:
                raise error
            return value
        finally:
            del error  # else it would hold this frame, which holds it

    def submit(self, work: Work, tell: Tell) -> None:
        """`tell(value, error)` is called in the thread, once it is free for more. It raises nothing."""
        with self._lock:
            if self._idle:
                self._idle.pop().put((work, tell))
                return
            if self._most is not None and self._count >= self._most:
                self._waiting.append((work, tell))
                return
            self._count += 1
        self._start(work, tell)

    def _start(self, work: Work, tell: Tell) -> None:
        jobs: Jobs = queue.SimpleQueue()
        jobs.put((work, tell))
        try:
            threading.Thread(target=self._work, args=(jobs,), name=self._name, daemon=True).start()
        except RuntimeError:  # the system gives no more
            with self._lock:
                self._count -= 1
            raise

    def _work(self, jobs: Jobs) -> None:
        self._begin()
        job: tuple[Work, Tell] | None = jobs.get()
        while job is not None:
            work, tell = job
            value, error = _tried(work)
            job = self._next_or_rest(jobs)
            tell(value, error)
            del work, tell, value, error  # what it worked with is not held while nobody calls
            job = job or self._wait(jobs)
        self._end()

    def _next_or_rest(self, jobs: Jobs) -> tuple[Work, Tell] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(jobs)
            return None

    def _wait(self, jobs: Jobs) -> tuple[Work, Tell] | None:
        while True:
            try:
                return jobs.get(timeout=IDLE)
            except queue.Empty:
                if self._leaves(jobs):
                    return None

    def _leaves(self, jobs: Jobs) -> bool:
        """Whether it was idle still, and is not needed: from here on nobody gives it a job."""
        with self._lock:
            if self._count <= self._least or jobs not in self._idle:
                return False  # or somebody took it at this very moment: its job is on the way
            self._idle.remove(jobs)
            self._count -= 1
            return True
