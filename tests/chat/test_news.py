"""News between processes, over a real Redis. `TEST_REDIS_URL` names one; CI brings its own."""

from __future__ import annotations

import asyncio
import os

import pytest
from channels.layers import channel_layers
from channels_redis.core import RedisChannelLayer

from agent.providers.scripted import Turn
from chatsite.chat import commands, eventlog
from chatsite.chat.commands.values import Stop
from chatsite.chat.models import Run
from chatsite.chat.process import news, rounds
from tests.chat.conftest import row_of, until
from tests.chat.test_runs import begin

URL = os.environ.get("TEST_REDIS_URL", "")


@pytest.fixture
async def redis():
    if not URL:
        assert not os.environ.get("CI"), "CI must bring a Redis"
        pytest.skip("TEST_REDIS_URL names no Redis")
    layer = RedisChannelLayer(hosts=[URL], prefix=f"test-{os.getpid()}")
    before = channel_layers.set("default", layer)
    yield layer
    await layer.flush()
    await layer.close_pools()
    channel_layers.set("default", before)


def the_other_process() -> RedisChannelLayer:
    return RedisChannelLayer(hosts=[URL], prefix=f"test-{os.getpid()}")


@pytest.fixture
def slow_rounds(monkeypatch):
    """So that what is heard in time was heard by news, and not by the next round."""
    monkeypatch.setattr(rounds, "ROUND_EVERY", 600)


async def listening(layer) -> None:
    """The news reach us: say some until they do."""
    channel = eventlog.channel_of(-1)
    version = channel.version
    while channel.version == version:
        await layer.group_send(news.GROUP, {"type": "news", "thread": -1})
        await asyncio.sleep(0.02)


async def test_a_stop_by_another_process_is_heard_at_once(person, plays, settled, redis, slow_rounds):
    plays(Turn("Never finished.", gate=asyncio.Event()))
    done = await begin(person)
    other = the_other_process()
    await listening(other)
    await other.group_send(news.GROUP, {"type": "news", "stop": done.run.pk})
    await settled()
    assert (await row_of(done.run)).state == "cancelled"
    await other.close_pools()


async def test_what_is_kept_here_is_told_to_the_other_processes(person, plays, settled, redis, slow_rounds):
    other = the_other_process()
    mailbox = await other.new_channel()
    await other.group_add(news.GROUP, mailbox)
    plays(Turn("Hi."))
    done = await begin(person)
    async with asyncio.timeout(60):
        assert (await other.receive(mailbox))["thread"] == done.thread.pk
    await settled()
    await other.close_pools()


async def test_a_reader_here_is_woken_by_news_of_a_run_elsewhere(person, plays, settled, redis, slow_rounds):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    other = the_other_process()
    await listening(other)
    channel = eventlog.channel_of(done.thread.pk)
    version = channel.version
    await other.group_send(news.GROUP, {"type": "news", "thread": done.thread.pk})
    await until(lambda: channel.version > version)
    await other.close_pools()


async def test_without_redis_a_stop_of_a_run_elsewhere_is_only_asked_for_in_the_rows(person, plays, settled):
    assert news.between_processes() is None
    plays(Turn("Hi.", gate=asyncio.Event()))
    done = await begin(person)
    stopped = await commands.perform(person, done.thread.public_id, Stop(), door="page")
    # Its end may be quicker than the question.
    assert stopped.run.stop_requested or stopped.run.state == Run.State.CANCELLED
    await settled()
