"""What a key may still use, in one process and in two."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pytest
from redis import asyncio as redis

from agent.messages import Usage
from chatsite.accounts.keys import KeyView
from chatsite.gateway import limits as module
from chatsite.gateway import shared_limits
from chatsite.gateway.errors import Refused
from chatsite.gateway.limits import Limits, Place
from chatsite.gateway.shared_limits import SharedLimits
from chatsite.gateway.windows import Window
from tests.site.test_several_processes import missing

USED = Usage(600, 400)


@pytest.fixture(autouse=True)
def _prices(settings):
    settings.MODEL_PRICES = {"fox": (1000.0, 1000.0)}  # 1000 tokens are 1.00


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


async def asked(limits: Limits, key: KeyView) -> Refused | None:
    """What a request is told that is over at once."""
    try:
        (await limits.enter(key)).leave()
    except Refused as refused:
        return refused
    return None


async def used(limits: Limits, key: KeyView) -> Place:
    """A request whose first round has used something."""
    place = await limits.enter(key)
    place.book(USED, "fox")
    return place


def view(pk: int = 1, **limits: object) -> KeyView:
    return KeyView(pk=pk, user_id=1, label="", hint="tl-", scopes=frozenset({"gateway"}), **limits)


# -- a minute ------------------------------------------------------------------------------------------------


def test_a_window_forgets_what_is_a_minute_old():
    window = Window()
    for second in range(10):
        window.add(100 + second, 5)
    assert window.total(109) == 50
    assert window.wait(109, 50, 1) == pytest.approx(160 - 109)
    assert window.wait(109, 51, 1) == 0
    assert window.total(165.5) == 20
    assert window.total(1000) == 0


def test_a_window_is_never_more_than_a_minute_of_numbers():
    window = Window()
    for step in range(10_000):
        window.total(step / 10)
        window.add(step / 10, 1)
    assert len(window._amounts) <= 61


# -- one process ---------------------------------------------------------------------------------------------


async def test_so_many_requests_a_minute_and_then_429_with_the_time_to_wait(clock):
    limits, key = Limits(), view(requests_per_minute=3)
    assert [await asked(limits, key) for _ in range(3)] == [None] * 3
    clock.now += 20
    refused = await asked(limits, key)
    assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
    assert refused.headers["retry-after"] == "40"
    assert "3 requests a minute" in str(refused)
    clock.now += 40
    assert await asked(limits, key) is None


async def test_what_was_refused_does_not_count(clock):
    limits, key = Limits(), view(requests_per_minute=1)
    await asked(limits, key)
    for _ in range(5):
        assert await asked(limits, key)
    clock.now += 60
    assert await asked(limits, key) is None


async def test_a_rerun_counts_no_request_and_is_held_by_tokens_all_the_same(clock):
    limits, key = Limits(), view(requests_per_minute=1, tokens_per_minute=1500)
    place = await used(limits, key)
    assert await place.check() is None
    place.book(USED, "fox")
    clock.now += 5
    refused = await place.check()
    assert "1,500 tokens a minute" in str(refused)
    assert refused.headers["retry-after"] == "55"


async def test_a_rerun_is_held_by_the_budget_too():
    limits, key = Limits(), view(budget=Decimal(1))
    assert (await (await used(limits, key)).check()).code == "insufficient_quota"


async def test_a_budget_counts_what_others_booked_and_what_was_booked_here_since():
    limits = Limits()
    (await used(limits, view(budget=Decimal(5), spent=Decimal("4.5")))).leave()
    refused = await asked(limits, view(budget=Decimal(5), spent=Decimal("4.5")))
    assert "budget of 5.00 is used up" in str(refused)
    assert refused.headers["x-should-retry"] == "false"
    assert int(refused.headers["retry-after"]) > 0
    assert await asked(limits, view(budget=Decimal(6), spent=Decimal("4.5"))) is None
    assert await asked(limits, view(budget=Decimal(6), spent=Decimal(6)))


async def test_a_monthly_budget_says_when_it_begins_anew(monkeypatch):
    limits, key = Limits(), view(budget=Decimal(1), budget_period="monthly", spent=Decimal(2))
    now = datetime(2026, 12, 31, 23, 0, tzinfo=UTC)
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    refused = await asked(limits, key)
    assert refused.headers["retry-after"] == "3600"
    assert "begins anew on 1 January (UTC)" in str(refused)
    now = datetime(2027, 1, 1, tzinfo=UTC)
    assert await asked(limits, view(budget=Decimal(1), budget_period="monthly")) is None


async def test_a_budget_of_nothing_lets_nothing_pass():
    assert await asked(Limits(), view(budget=Decimal(0)))


async def test_no_more_requests_at_once_than_the_key_may_have():
    limits, key = Limits(), view(requests_at_once=2)
    places = [await limits.enter(key) for _ in range(2)]
    refused = await asked(limits, key)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "rate_limit_exceeded", "2")
    assert "2 requests under way at once" in str(refused)
    assert await places[0].check() is None  # a rerun takes no further place
    places[0].leave()
    places[0].leave()
    assert await asked(limits, key) is None
    await limits.enter(key)
    assert await asked(limits, key)


async def test_what_a_request_may_cost_is_held_until_it_is_known_what_it_did():
    limits, key = Limits(), view(budget=Decimal(3))
    first = await limits.enter(key, Decimal(2))
    second = await limits.enter(key, Decimal(2))
    refused = await asked(limits, key)
    assert "held by requests that are under way" in str(refused)
    assert "x-should-retry" not in refused.headers
    assert await first.check() is None
    first.book(USED, "fox")
    first.leave()
    assert await asked(limits, key) is not None  # 1 is spent, 2 are held
    second.leave()
    assert await asked(limits, key) is None


async def test_more_than_was_held_is_spent_all_the_same():
    limits, key = Limits(), view(budget=Decimal(2))
    place = await limits.enter(key, Decimal("0.5"))
    for _ in range(2):
        place.book(USED, "fox")
    assert (await place.check()).code == "insufficient_quota"
    place.leave()
    assert (await asked(limits, key)).code == "insufficient_quota"


async def test_each_key_has_its_own_counts():
    limits = Limits()
    assert await asked(limits, view(1, requests_per_minute=1)) is None
    assert await asked(limits, view(2, requests_per_minute=1)) is None
    assert await asked(limits, view(1, requests_per_minute=1))


async def test_a_key_without_limits_leaves_nothing_behind():
    limits, key = Limits(), view()
    (await used(limits, key)).leave()
    assert not limits._counts


async def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEYS", 10)
    limits = Limits()
    for pk in range(100):
        await asked(limits, view(pk, requests_per_minute=1))
    assert len(limits._counts) == 10


async def test_without_redis_it_costs_a_fraction_of_a_millisecond():
    limits, key = Limits(), view(requests_per_minute=10**6, tokens_per_minute=10**9, budget=Decimal(10**6))
    began = time.thread_time()
    for _ in range(2000):
        (await used(limits, key)).leave()
    assert (time.thread_time() - began) / 2000 < 0.001


# -- two processes -------------------------------------------------------------------------------------------


@pytest.fixture
async def two(settings, monkeypatch):
    """The limits of two processes that share a Redis: two objects, each with a client of its own."""
    url = os.environ.get("TEST_REDIS_URL")
    if not url:
        missing("TEST_REDIS_URL names no Redis server")
    settings.REDIS_URL = url
    monkeypatch.setattr(shared_limits, "PREFIX", f"threadloom-test:{os.getpid()}:{time.monotonic_ns()}")
    monkeypatch.setattr(shared_limits, "TIMEOUT", 60.0)  # else a busy machine's Redis is one that is away
    clients = [SharedLimits(url), SharedLimits(url)]
    yield [Sharing(client, monkeypatch) for client in clients]
    own = redis.Redis.from_url(url)
    if names := [name async for name in own.scan_iter(f"{shared_limits.PREFIX}*")]:
        await own.delete(*names)
    await own.aclose()
    for client in clients:
        await client.close()


class Sharing(Limits):
    def __init__(self, shared: SharedLimits, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.shared, self._monkeypatch = shared, monkeypatch

    async def enter(self, view, hold=Decimal(0)):
        self.works()
        return await super().enter(view, hold)

    def works(self):
        """What comes now is this process's."""
        self._monkeypatch.setattr(shared_limits, "client", lambda: self.shared)

    async def leaves(self, place):
        self.works()
        place.leave()
        await self.shared.settled()

    async def has_used(self, key):
        (await used(self, key)).leave()
        await self.shared.settled()


async def test_two_processes_share_the_requests_of_a_minute(two):
    one, other = two
    key = view(requests_per_minute=3)
    assert [await asked(each, key) for each in (one, other, one)] == [None] * 3
    for each in two:
        refused = await asked(each, key)
        assert "3 requests a minute" in str(refused)
        assert 0 < int(refused.headers["retry-after"]) <= 60


async def test_two_processes_share_tokens(two):
    one, other = two
    key = view(tokens_per_minute=1000)
    place = await other.enter(key)
    await one.has_used(key)
    other.works()
    assert "1,000 tokens" in str(await place.check())


async def test_two_processes_share_a_budget_and_believe_the_row_where_it_knows_more(two):
    one, other = two
    key = view(budget=Decimal("2.5"), spent=Decimal("0.00000001"))
    for each in (one, other, one):
        assert await asked(each, key) is None
        await each.has_used(key)
    assert (await asked(other, key)).code == "insufficient_quota"
    assert await asked(other, view(2, budget=Decimal(10), spent=Decimal(9))) is None
    assert await asked(other, view(2, budget=Decimal(10), spent=Decimal(10)))


async def test_two_processes_share_the_places_of_a_key(two):
    one, other = two
    key = view(requests_at_once=2)
    places = [await one.enter(key), await other.enter(key)]
    for each in two:
        assert "2 requests under way at once" in str(await asked(each, key))
    await one.leaves(places[0])
    assert await asked(other, key) is None


async def test_two_processes_share_what_is_held_of_a_budget(two):
    one, other = two
    key = view(budget=Decimal(2))
    first = await one.enter(key, Decimal("1.5"))
    second = await other.enter(key, Decimal("1.5"))
    assert "held by requests" in str(await asked(one, key))
    other.works()
    assert await second.check() is None  # its own is no reason against it
    second.book(USED, "fox")
    await other.leaves(second)
    assert "held by requests" in str(await asked(other, key))
    await one.leaves(first)
    assert await asked(other, key) is None


async def test_the_places_of_a_process_that_died_come_free_and_those_of_a_long_request_do_not(
    two, monkeypatch
):
    one, other = two
    monkeypatch.setattr(shared_limits, "RENEW", 0.02)
    key = view(requests_at_once=1)
    await one.enter(key)
    async with asyncio.timeout(20), redis.Redis.from_url(os.environ["TEST_REDIS_URL"]) as own:
        [name] = [name async for name in own.scan_iter(f"{shared_limits.PREFIX}*:open")]
        [(lease, first)] = await own.zrange(name, 0, -1, withscores=True)
        while await own.zscore(name, lease) <= first:  # noqa: ASYNC110 (what is awaited is Redis's clock)
            await asyncio.sleep(0.01)
        assert await asked(other, key)
        one.shared._renewing.cancel()
        await asyncio.wait([one.shared._renewing])
        assert await asked(other, key)
        await own.zadd(name, {lease: first - 2 * shared_limits.LEASE})  # that time is over
        assert await asked(other, key) is None


async def test_while_redis_is_away_each_process_holds_the_limits_alone(settings, caplog):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    limits, key = Limits(), view(requests_per_minute=1, budget=Decimal(1))
    place = await limits.enter(key)
    assert "requests a minute" in str(await asked(limits, key))
    place.book(USED, "fox")
    assert "budget" in str(await place.check())
    place.leave()
    await shared_limits.client().close()
    assert caplog.text.count("Redis does not answer") == 1
