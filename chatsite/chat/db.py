"""The database, off the event loop.

Rule 1: no query runs on the loop's thread, and none in the one thread that `thread_sensitive` shares: forty
readers would wait for each other there.
Rule 2: writes go through one thread that commits for everybody who asked meanwhile. A commit of SQLite costs
half a millisecond alone; for 64 runs at once it is still one.

A job is a plain function that uses the ORM. It runs in its caller's language, for it may raise what a person reads. A
write job may run twice (alone again, when the transaction it shared failed), so it builds its rows itself and changes
nothing outside the database.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction

from agent.threads import Threads
from chatsite.languages import here, settle_language

T = TypeVar("T")
G = TypeVar("G")

MOST_IN_ONE_COMMIT = 100

READERS = 4
_readers = Threads("db-read", READERS, least=1, begin=settle_language, end=lambda: connection.close())
_aside = ThreadPoolExecutor(1, "db-aside", settle_language)


async def read(job: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`job(*args, **kwargs)` in a reader thread."""
    return await _readers.run(partial(_with_live_connection, here(job, *args, **kwargs)))


async def write(job: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`job(*args, **kwargs)` in a transaction, committed before this returns.

    Cancelling the caller does not take the job back: what was asked for is kept.
    """
    return await _writer.submit(here(job, *args, **kwargs))


async def write_together(job: Callable[[list[G]], list[T]], given: G) -> T:
    """As `write`, for a job that does the same for several: `job([given, ...])` once for all who ask meanwhile.

    It gives something back for each. Such a job raises nothing that a person reads.
    """
    return await _writer.submit(_Shared(job, given))


async def aside(job: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`job(*args, **kwargs)` in a thread that nobody else waits for. The job opens its own short transaction."""
    work = partial(_with_live_connection, here(job, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_aside, work)


def close_connections() -> None:
    """Close what these threads hold open (a test database cannot be dropped before)."""
    readers = partial(_readers.submit, tell=lambda value, error: None)
    for give, workers in ((readers, READERS), (_writer.executor.submit, 1), (_aside.submit, 1)):
        barrier = threading.Barrier(workers + 1, timeout=10)

        def close(barrier: threading.Barrier = barrier) -> None:
            with suppress(threading.BrokenBarrierError):  # told below
                barrier.wait()  # so that each thread has one of these
                connection.close()
                barrier.wait()

        for _ in range(workers):
            give(close)
        barrier.wait()
        barrier.wait()


def _with_live_connection(job: Callable[[], T]) -> T:
    """These threads keep their connection; one that the server closed meanwhile is opened anew, once."""
    try:
        return job()
    except (OperationalError, InterfaceError):
        if connection.connection is not None and connection.is_usable():
            raise
        connection.close()
        return job()


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """One's part of a job that is done for several at once."""

    job: Callable[[list[Any]], list[Any]]
    given: Any

    def __call__(self) -> Any:
        return self.job([self.given])[0]


class _GroupWriter:
    """One thread, one transaction for all jobs that came while the last one committed."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1, "db-write", settle_language)
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()
        self._lock = threading.Lock()
        self._busy = False

    def submit(self, job: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append((job, future))
            start, self._busy = not self._busy, True
        if start:
            self.executor.submit(self._drain)
        return future

    def _drain(self) -> None:
        while True:
            with self._lock:
                count = min(len(self._waiting), MOST_IN_ONE_COMMIT)
                group = [self._waiting.popleft() for _ in range(count)]
                if not group:
                    self._busy = False
                    return
            jobs = [job for job, _ in group]
            for (_, future), (value, error) in zip(group, _commit(jobs), strict=True):
                _settle(future, value, error)


def _commit(jobs: list[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    """All of them in one transaction; when that fails each alone, so that one's error is nobody else's."""
    try:
        values = _with_live_connection(partial(_in_transaction, jobs))
    except Exception as error:  # handed to whoever asked for the job
        if len(jobs) == 1:
            return [(None, error)]
        return [result for job in jobs for result in _commit([job])]
    return [(value, None) for value in values]


def _in_transaction(jobs: list[Callable[[], Any]]) -> list[Any]:
    with transaction.atomic():
        done = _shared(job for job in jobs if isinstance(job, _Shared))
        return [done[job] if isinstance(job, _Shared) else job() for job in jobs]


def _shared(parts: Iterable[_Shared]) -> dict[_Shared, Any]:
    several: dict[Any, list[_Shared]] = defaultdict(list)
    for part in parts:
        several[part.job].append(part)
    done: dict[_Shared, Any] = {}
    for job, mine in several.items():
        done.update(zip(mine, job([part.given for part in mine]), strict=True))
    return done


def _settle(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    try:
        future.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        # The loop that asked is closed: nobody waits for the answer any more, and the job is done.
        return


_writer = _GroupWriter()
