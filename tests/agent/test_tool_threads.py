"""Threads for tools that block: there is always one, and one that is done serves again."""

import asyncio
import threading

import pytest

from agent import threads, tool_threads
from agent.threads import Threads
from agent.tool_threads import in_thread


async def test_a_thread_that_is_done_takes_the_next_call():
    first = await in_thread(threading.current_thread)
    assert first is not threading.current_thread()
    assert await in_thread(threading.current_thread) is first


async def test_calls_at_once_have_a_thread_each_however_many_hang():
    hung = threading.Event()
    waiting = [asyncio.ensure_future(in_thread(hung.wait)) for _ in range(40)]
    assert await in_thread(lambda: "still served") == "still served"
    hung.set()
    assert await asyncio.gather(*waiting) == [True] * 40


async def test_what_it_raises_is_raised_here_and_the_thread_goes_on():
    threads_that_failed = []

    def fail():
        threads_that_failed.append(threading.current_thread())
        raise LookupError("no such city")

    with pytest.raises(LookupError, match="no such city"):
        await in_thread(fail)
    assert [await in_thread(threading.current_thread)] == threads_that_failed


async def test_a_thread_that_waits_too_long_ends(monkeypatch):
    monkeypatch.setattr(tool_threads, "_threads", Threads("tool"))
    monkeypatch.setattr(threads, "IDLE", 0.01)
    thread = await in_thread(threading.current_thread)
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    assert await in_thread(lambda: "a new one") == "a new one"


async def test_a_caller_that_gives_up_leaves_a_thread_that_can_be_used_again(monkeypatch):
    monkeypatch.setattr(tool_threads, "_threads", Threads("tool"))
    free, begun = threading.Event(), threading.Event()
    used = []

    def work():
        used.append(threading.current_thread())
        begun.set()
        free.wait()

    waiting = asyncio.ensure_future(in_thread(work))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    free.set()
    async with asyncio.timeout(20):
        while not tool_threads._threads._idle:  # noqa: ASYNC110 (no event tells of it)
            await asyncio.sleep(0.001)
    assert [await in_thread(threading.current_thread)] == used
