"""Threads for tools that block.

Rule 1: no pool with a limit. A tool that hangs would hold a worker of it for good, and a few of them would keep the
whole process from so much as resolving a host name.
Rule 2: a thread that is done waits a while for the next call. To start one costs a millisecond of everybody's time:
the event loop stands still until it runs.
Rule 3: none of them keeps the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

IDLE = 10.0
"""Seconds that a thread waits for its next call."""

Job = Callable[[], None]


class _Worker:
    def __init__(self, first: Job) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._jobs.put(first)
        threading.Thread(target=self._work, name="tool", daemon=True).start()

    def give(self, job: Job) -> None:
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE)
            except queue.Empty:
                if _leave(self):
                    return
                continue  # somebody took it at this very moment: its job is on the way
            job()
            del job  # what a tool worked with is not held while nobody calls
            _idle.append(self)


_idle: list[_Worker] = []


def _leave(worker: _Worker) -> bool:
    """Whether it was idle still: from here on nobody gives it a job."""
    try:
        _idle.remove(worker)
    except ValueError:
        return False
    return True


def _begin(job: Job) -> None:
    try:
        worker = _idle.pop()  # the last that worked: the others can end
    except IndexError:
        _Worker(job)
    else:
        worker.give(job)


async def in_thread(work: Callable[[], Any]) -> Any:
    """Like `asyncio.to_thread`, but by these rules. Cancelling the caller lets the thread finish by itself."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(work)
        except BaseException as raised:  # raised again where the call waits
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    _begin(run)
    value, error = await future
    if error is not None:
        raise error
    return value
