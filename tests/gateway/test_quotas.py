"""How much the user of a key and their groups may use, held at the gateway: before a request, and inside of one."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.db.models import Sum
from django.utils import timezone

from agent.messages import Usage
from agent.wire.jsontext import dump
from chatsite.accounts.keys import new_api_key, view_of
from chatsite.accounts.models import ApiKey
from chatsite.gateway import quota
from chatsite.gateway.bodies import read_body
from chatsite.gateway.quota import Quota
from chatsite.gateway.records import RoundRecord
from chatsite.policies import quotas, rules
from chatsite.policies.models import GroupBudget, GroupPolicy, Reservation, Used
from tests.gateway.conftest import off_loop
from tests.gateway.served import CHAT, MESSAGES, anthropic_at, asking, least_seconds, openai_at, serve, until
from tests.gateway.test_hooked import ASKS, SAYS, TOOLS, Serves, hooks  # noqa: F401 (a fixture)
from tests.gateway.test_keys_at_work import each_door
from tests.standin import Say

BODY = read_body(dump(asking()).encode())
HI = Say("Hi.", usage=(20, 10))


async def everybody_may(**fields: object) -> None:
    await off_loop(lambda: GroupPolicy.objects.update_or_create(group=None, defaults=fields))
    rules.forget()


async def used(subject: str = "user:") -> tuple[int, int]:
    """Requests and tokens of today, and nothing is held any more."""
    await off_loop(quota.settled)
    rows = Used.objects.filter(span="day", subject__startswith=subject)
    sums = await off_loop(lambda: rows.aggregate(requests=Sum("requests"), tokens=Sum("tokens")))
    held = Reservation.objects.filter(until__gt=timezone.now())
    assert not await off_loop(held.exists)
    return sums["requests"] or 0, sums["tokens"] or 0


def eventually(condition) -> None:
    """`until`, for what is asked of the database."""
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def message_of(answer) -> str:
    return answer.json()["error"]["message"]


async def test_without_limits_nothing_is_counted_and_asking_costs_next_to_nothing(http, standin):
    serve(openai_at(standin))
    standin.play(HI)
    assert (await http.post(CHAT, json=asking())).status_code == 200
    assert await used() == (0, 0)
    row = await off_loop(ApiKey.objects.get)
    one = Quota(view_of(row), "x", BODY, [])
    await one.begin()

    async def asks() -> None:
        await one.begin()
        one.end()

    assert await least_seconds(asks) < 0.000_02


@each_door
@pytest.mark.parametrize("stream", [False, True])
async def test_over_a_limit_it_is_429_in_the_callers_dialect_and_says_when(http, standin, path, at, stream):
    await everybody_may(tokens_per_day=25)
    serve(at(standin))
    standin.play(HI)
    assert (await http.post(path, json=asking(stream=stream))).status_code == 200
    assert await used() == (1, 30)
    refused = await http.post(path, json=asking(stream=stream))
    assert refused.status_code == 429
    assert message_of(refused) == "Your daily tokens are used up; they come back at 00:00 UTC."
    assert 0 < int(refused.headers["retry-after"]) <= 24 * 3600
    if int(refused.headers["retry-after"]) > quota.WORTH_WAITING:
        assert refused.headers["x-should-retry"] == "false"
    assert len(standin.exchanges) == 1
    assert await used() == (1, 30)


@each_door
async def test_a_rerun_is_held_to_it_too(http, standin, hooks, path, at):  # noqa: F811
    await everybody_may(tokens_per_day=15)
    serve(at(standin))
    hooks(Serves())
    standin.play(ASKS, SAYS)
    refused = await http.post(path, json=asking(tools=TOOLS[path]))
    assert refused.status_code == 429
    assert "daily tokens are used up" in message_of(refused)
    assert len(standin.exchanges) == 1
    assert await used() == (1, 15)


async def test_requests_at_once_are_held_and_free_again_when_one_ends(http, standin):
    await everybody_may(runs_at_once=1)
    serve(openai_at(standin))
    gate = threading.Event()
    standin.play(Say("Hi.", usage=(20, 10), gate=gate), HI)
    first = asyncio.ensure_future(http.post(CHAT, json=asking(stream=True)))
    await until(lambda: standin.exchanges)
    refused = await http.post(CHAT, json=asking())
    assert (refused.status_code, refused.headers["retry-after"]) == (429, str(quotas.SOON))
    assert "1 answers under way" in message_of(refused)
    gate.set()
    assert (await first).status_code == 200
    await off_loop(quota.settled)
    assert (await http.post(CHAT, json=asking())).status_code == 200
    assert await used() == (2, 60)


async def test_a_group_as_a_whole_holds_over_its_members_keys(http, standin, django_user_model):
    policy = await off_loop(GroupPolicy.objects.create)
    await off_loop(lambda: GroupBudget.objects.create(policy=policy, requests_per_day=1))
    rules.forget()
    serve(openai_at(standin))
    standin.play(HI, HI)
    assert (await http.post(CHAT, json=asking())).status_code == 200
    other = await off_loop(lambda: new_api_key(django_user_model.objects.create_user("bob")))
    refused = await http.post(CHAT, json=asking(), headers={"authorization": f"Bearer {other}"})
    assert refused.status_code == 429
    assert await used("group:") == (1, 30)


async def test_a_failed_request_is_counted_and_holds_nothing(http, standin):
    await everybody_may(requests_per_day=5)
    serve()
    assert (await http.post(CHAT, json=asking())).status_code == 404
    assert await used() == (1, 0)


async def test_a_caller_that_leaves_while_it_is_asked_for_holds_nothing(key_row, monkeypatch):
    await everybody_may(runs_at_once=1)
    asked, admit = asyncio.Event(), quotas.admit
    loop = asyncio.get_running_loop()

    def slow(*given):
        loop.call_soon_threadsafe(asked.set)
        return admit(*given)

    monkeypatch.setattr(quotas, "admit", slow)
    one = Quota(view_of(key_row), "x", BODY, [])
    asking_for = asyncio.ensure_future(one.begin())
    await asked.wait()
    asking_for.cancel()
    await asyncio.wait([asking_for])
    one.end()
    await until(one._asked.done)
    await asyncio.sleep(0)  # the callback of what was asked is run by the loop
    assert await used() == (1, 0)


async def test_a_caller_that_leaves_between_two_rounds_is_charged_once(key_row):
    await everybody_may(tokens_per_day=1000)
    rounds = [RoundRecord(endpoint="a", usage=Usage(20, 10))]
    one = Quota(view_of(key_row), "x", BODY, rounds)
    assert await one.begin() is None
    assert await one.again() is None
    rounds.append(RoundRecord(endpoint="a", usage=Usage(5, 2)))
    free = threading.Event()
    for _ in range(quota._asking._max_workers):
        quota._asking.submit(free.wait, 60)  # so that the answer comes behind the end
    asking_for = asyncio.ensure_future(one.again())
    before = one._asked
    await until(lambda: one._asked is not before)
    asking_for.cancel()
    await asyncio.wait([asking_for])
    one.end()
    await off_loop(quota.settled)
    free.set()
    await until(one._asked.done)
    await asyncio.sleep(0)  # the callback of what was asked is run by the loop
    assert await used() == (1, 37)


async def test_a_process_that_was_killed_holds_nobodys_place_for_long(key_row, monkeypatch):
    await everybody_may(runs_at_once=1)
    monkeypatch.setattr(quota, "RENEW", 0.01)
    monkeypatch.setattr(quota, "LEASE", timedelta(seconds=60))
    one, other = (Quota(view_of(key_row), holder, BODY, []) for holder in "xy")
    assert await one.begin() is None
    first = await off_loop(Reservation.objects.get)
    assert first.until <= timezone.now() + timedelta(seconds=60)
    await off_loop(lambda: eventually(lambda: Reservation.objects.get().until > first.until))
    assert (await other.begin()).status == 429
    quota._live.release("exchange:x")  # as if killed: nobody renews it
    await until(quota._live._renewing.done)
    assert (await other.begin()).status == 429
    await off_loop(lambda: Reservation.objects.update(until=timezone.now()))  # that time is over
    assert await other.begin() is None
    other.end()
    assert await used() == (2, 0)


async def test_nobody_passes_whom_something_limits_while_the_database_is_away(http, standin, monkeypatch):
    await everybody_may(requests_per_day=5)
    serve(openai_at(standin))

    def away(*given):
        raise OperationalError("away")

    monkeypatch.setattr(quotas, "admit", away)
    refused = await http.post(MESSAGES, json=asking())
    assert refused.status_code == 503
    assert standin.exchanges == []


async def test_what_a_request_used_is_booked_when_the_database_is_back(http, standin, monkeypatch):
    await everybody_may(requests_per_day=5)
    serve(anthropic_at(standin))
    standin.play(HI)
    settle, tries = quotas.settle, []

    def away_once(*given):
        tries.append(given)
        if len(tries) == 1:
            raise OperationalError("away")
        settle(*given)

    monkeypatch.setattr(quotas, "settle", away_once)
    monkeypatch.setattr(quota, "PAUSES", (0.0,))
    assert (await http.post(MESSAGES, json=asking())).status_code == 200
    assert await used() == (1, 30)
    assert len(tries) == 2


async def test_counting_tokens_is_a_request_for_peoples_limits_and_takes_no_tokens(http, standin):
    serve(openai_at(standin))
    await everybody_may(requests_per_day=2, runs_at_once=1)
    for _ in range(2):
        assert (await http.post(f"{MESSAGES}/count_tokens", json=asking())).status_code == 200
        await off_loop(quota.settled)
    for path in (f"{MESSAGES}/count_tokens", MESSAGES):
        refused = await http.post(path, json=asking())
        assert refused.status_code == 429
        assert "2 requests of today are used up" in message_of(refused)
    assert await used() == (2, 0)
