"""A tool that runs here is known before it starts, whatever becomes of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.utils import timezone

from agent.events import ToolCallResult
from agent.messages import TextPart, ToolCallPart
from agent.rerun import RelayContext
from chatsite.gateway import ledger
from chatsite.gateway.models import ExchangeCall
from tests.gateway.conftest import off_loop

CALL = ToolCallPart("c1", "send_email", '{"to": "ada"}')


def request(keep: str = "full", exchange: str = "e1", key: int | None = None) -> RelayContext:
    return RelayContext(
        dialect="openai", model="fox", body={}, request_id="r1", exchange_id=exchange, keep=keep, key_pk=key
    )


def result(error: str | None = None, content: object = "sent") -> ToolCallResult:
    return ToolCallResult("m1", "c1", content, error)


async def row() -> ExchangeCall:
    return await off_loop(ExchangeCall.objects.get)


async def test_a_claim_is_committed_before_it_returns(rows):
    await ledger.claim(request(), CALL, {"to": "ada"})
    kept = await row()  # asked over another connection than the one that wrote
    assert (kept.exchange_id, kept.call_id, kept.name, kept.state) == ("e1", "c1", "send_email", "claimed")
    assert kept.arguments == '{"to":"ada"}'


async def test_a_call_is_claimed_once_in_a_request(rows):
    await ledger.claim(request(), CALL, {})
    with pytest.raises(ledger.ClaimedBefore):
        await ledger.claim(request(), CALL, {})
    await ledger.claim(request(exchange="e2"), CALL, {})
    assert await off_loop(ExchangeCall.objects.count) == 2


async def test_of_many_claims_at_once_one_wins(rows):
    claims = await asyncio.gather(
        *(ledger.claim(request(), CALL, {}) for _ in range(8)), return_exceptions=True
    )
    assert [type(each) for each in claims].count(type(None)) == 1
    assert all(each is None or isinstance(each, ledger.ClaimedBefore) for each in claims)


async def test_what_cannot_be_kept_does_not_start(rows):
    with pytest.raises(DatabaseError):  # the key is gone
        await ledger.claim(request(key=10**6), CALL, {})
    assert not await off_loop(ExchangeCall.objects.exists)


@pytest.mark.parametrize(
    ("error", "state"),
    [(None, "done"), ("timeout", "failed"), ("tool_error", "failed"), ("aborted", "unknown")],
)
async def test_how_a_call_ended_is_kept(rows, error, state):
    await ledger.claim(request(), CALL, {})
    await ledger.settle(request(), result(error))
    kept = await row()
    assert (kept.state, kept.error_code, kept.result) == (state, error or "", "sent")
    assert kept.finished_at is not None


async def test_a_settled_call_stays_as_it_is(rows):
    await ledger.claim(request(), CALL, {})
    await ledger.settle(request(), result())
    await ledger.settle(request(), result("timeout"))
    assert (await row()).state == "done"


async def test_a_result_of_several_parts_is_kept(rows):
    await ledger.claim(request(), CALL, {})
    await ledger.settle(request(), result(content=(TextPart("one"), TextPart("two"))))
    assert "two" in (await row()).result


async def test_content_is_kept_only_where_the_key_says_so(rows):
    await ledger.claim(request("metadata"), CALL, {"to": "ada"})
    await ledger.settle(request("metadata"), result())
    kept = await row()
    assert (kept.arguments, kept.result, kept.state) == ("", "", "done")


async def test_a_claim_outlives_whoever_waits_for_it(rows):
    waiting = asyncio.ensure_future(ledger.claim(request(), CALL, {}))
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(60):
        while not await off_loop(ExchangeCall.objects.exists):
            pass


async def test_what_nobody_settles_is_unknown_after_a_while(rows):
    await ledger.claim(request(), CALL, {})
    await ledger.claim(request(exchange="old"), CALL, {})
    old = timezone.now() - timedelta(hours=1)
    await off_loop(lambda: ExchangeCall.objects.filter(exchange_id="old").update(claimed_at=old))
    assert await off_loop(ledger.settle_lost) == 1
    states = ExchangeCall.objects.order_by("exchange_id").values_list("state", flat=True)
    assert await off_loop(lambda: list(states)) == ["claimed", "unknown"]
