"""A process that is told to go: what it refuses, what it leaves behind, what its readers hear."""

from __future__ import annotations

import asyncio

import pytest

from agent.events import Terminal
from agent.providers.scripted import Turn
from chatsite.chat import commands, db, eventlog, runner
from chatsite.chat.commands.values import Retry, Send, Stop
from chatsite.chat.models import Message, Run
from chatsite.chat.problems import Restarting
from chatsite.chat.process import departure, draining
from chatsite.chat.readers import following, stream
from chatsite.chat.rows import kept_log
from tests.chat.conftest import row_of, until
from tests.chat.test_runs import begin

TEXT = "What was written so far, and then the rest of it."


@pytest.fixture(autouse=True)
def _serving():
    yield
    draining.serve()


@pytest.fixture
async def writing(person, plays):
    """A run in the middle of its answer, and the gate that holds it there."""
    gate = asyncio.Event()
    provider = plays(Turn(TEXT, delta_size=4, gate=gate))
    done = await begin(person, "Hello?")
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.shown > 3)
    return done, gate, provider, channel


async def test_a_run_that_ends_in_time_ends_whole(writing, settled):
    done, gate, _, _ = writing
    going = asyncio.ensure_future(departure.depart(60, asyncio.Event()))
    await until(draining.is_draining)
    gate.set()
    async with asyncio.timeout(20):
        await going
    run = await row_of(done.run)
    assert run.state == "finished"
    assert (await db.read(Message.objects.get, run=run, role="assistant")).text == TEXT


async def test_a_run_that_does_not_is_left_with_all_that_was_told_and_no_end(writing, settled):
    done, _, provider, channel = writing
    live = channel.live
    await departure.depart(0, asyncio.Event())
    run = await row_of(done.run)
    assert (run.state, run.owner, run.heartbeat_at) == ("running", "", None)
    kept = [event for _, event in await db.read(kept_log.events_after, run.pk, 0)]
    assert kept == live.events[: live.shown]
    assert not any(isinstance(event, Terminal) for event in kept)
    assert provider.closed == 1
    assert runner.running_here() == []


async def test_a_second_signal_does_not_wait(writing, settled):
    hurry = asyncio.Event()
    going = asyncio.ensure_future(departure.depart(3600, hurry))
    await until(draining.is_draining)
    hurry.set()
    async with asyncio.timeout(20):
        await going


async def test_nothing_begins_any_more_but_a_stop_is_heard(writing, person, settled):
    done, _, _, _ = writing
    draining.drain()
    for command in (Send(text="Me too"), Retry()):
        with pytest.raises(Restarting):
            await commands.perform(person, done.thread.public_id, command, door="page")
    with pytest.raises(Restarting):
        await begin(person, "A new thread")
    assert await db.read(Run.objects.count) == 1
    await commands.perform(person, done.thread.public_id, Stop(), door="page")
    await settled()
    assert (await row_of(done.run)).state == "cancelled"


async def test_readers_of_every_kind_end_when_it_leaves(writing, settled, monkeypatch):
    done, _, _, channel = writing
    monkeypatch.setattr(eventlog, "LOOK_UP", 60)

    async def read(batches) -> int:
        return len([batch async for batch in batches])

    readers = [
        asyncio.ensure_future(read(batches))
        for batches in (
            following.follow_run(channel, done.run.pk, done.run.public_id),
            following.follow_events(done.thread, None),
            stream.html_changes(done.thread, None),
        )
    ]
    await until(lambda: channel.readers >= 4)  # who follows the thread follows its run within that
    await departure.depart(0, asyncio.Event())
    async with asyncio.timeout(20):  # sooner than the next look-up
        assert all(await asyncio.gather(*readers))
