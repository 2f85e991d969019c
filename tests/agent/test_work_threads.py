"""A number of threads for work that blocks: the last that worked works next, and who is not needed ends."""

from __future__ import annotations

import asyncio
import threading

import pytest

from agent import threads
from agent.threads import Threads


class Meeting:
    """Work that ends when so many threads are at it at once."""

    def __init__(self, threads: int) -> None:
        self._barrier = threading.Barrier(threads, timeout=20)

    def __call__(self) -> threading.Thread:
        self._barrier.wait()
        return threading.current_thread()


async def test_no_more_work_at_once_than_they_are_and_the_rest_waits_its_turn():
    pool, free, begun = Threads("few", 2), threading.Event(), threading.Semaphore(0)

    def work() -> str:
        begun.release()
        free.wait(20)
        return threading.current_thread().name

    asked = [asyncio.ensure_future(pool.run(work)) for _ in range(5)]
    for _ in range(2):
        assert await asyncio.to_thread(begun.acquire, timeout=20)
    assert not begun.acquire(blocking=False)
    free.set()
    assert await asyncio.gather(*asked) == ["few"] * 5


async def test_what_waits_is_done_in_the_order_in_which_it_came():
    pool, free, order = Threads("one", 1), threading.Event(), []
    first = asyncio.ensure_future(pool.run(lambda: free.wait(20)))
    rest = [
        asyncio.ensure_future(pool.run(lambda number=number: order.append(number))) for number in range(20)
    ]
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(first, *rest)
    assert order == list(range(20))


async def test_the_last_that_worked_works_next():
    pool, meeting = Threads("few", 3), Meeting(3)
    await asyncio.gather(*(pool.run(meeting) for _ in range(3)))
    last = await pool.run(threading.current_thread)
    for _ in range(5):
        assert await pool.run(threading.current_thread) is last


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(threads, "IDLE", 0.01)


@pytest.mark.usefixtures("impatient")
async def test_who_is_not_needed_ends_its_own_way_and_as_many_stay_as_shall():
    begun, ended = [], []
    pool = Threads(
        "few",
        3,
        least=1,
        begin=lambda: begun.append(threading.current_thread()),
        end=lambda: ended.append(threading.current_thread()),
    )
    meeting = Meeting(3)
    met = await asyncio.gather(*(pool.run(meeting) for _ in range(3)))
    assert set(begun) == set(met)
    async with asyncio.timeout(20):
        while len(ended) < 2:  # noqa: ASYNC110 (no event tells of it)
            await asyncio.sleep(0.001)
    (stays,) = set(met) - set(ended)
    for _ in range(2):  # the time of one that is not needed passes, and passes again
        await asyncio.to_thread((await Threads("other").run(threading.current_thread)).join, 20)
    assert await pool.run(threading.current_thread) is stays
    assert len(ended) == 2


@pytest.mark.usefixtures("impatient")
async def test_new_ones_take_the_place_of_those_that_ended():
    pool = Threads("few", 2)
    for _ in range(3):
        for thread in await asyncio.gather(*(pool.run(Meeting(1)) for _ in range(2))):
            await asyncio.to_thread(thread.join, 20)
    meeting = Meeting(2)
    assert len(set(await asyncio.gather(*(pool.run(meeting) for _ in range(2))))) == 2


async def test_a_thread_that_the_system_does_not_give_is_said_and_counted_as_none(monkeypatch):
    pool = Threads("one", 1)

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        with pytest.raises(RuntimeError, match="new thread"):
            await pool.run(threading.current_thread)
    assert (await pool.run(threading.current_thread)).name == "one"


async def test_what_ends_a_generator_is_raised_too_and_leaves_nobody_waiting():
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await Threads("one", 1).run(iter(()).__next__)
