"""What a key says is held, kept and booked, through the whole gateway."""

from __future__ import annotations

import asyncio
import json
import threading
from decimal import Decimal

import anthropic
import httpx
import openai
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from chatsite.accounts.models import ApiKey
from chatsite.gateway.hooks import BaseHook, Refusal
from chatsite.gateway.models import Exchange
from chatsite.gateway.recorder import recorder
from tests.gateway.conftest import off_loop
from tests.gateway.served import CHAT, MESSAGES, MODEL, anthropic_at, asking, openai_at, serve, until
from tests.gateway.test_admin import page as page_at
from tests.gateway.test_hooked import ASKS, SAYS, TOOLS, Serves, hooks  # noqa: F401 (a fixture)
from tests.standin import Broken, Say

each_door = pytest.mark.parametrize(
    ("path", "at"), [(CHAT, openai_at), (MESSAGES, anthropic_at)], ids=["openai", "anthropic"]
)


async def limit(**limits: object) -> None:
    """Set before the key's first request, so that no look-up from before is still good."""
    await off_loop(lambda: ApiKey.objects.update(**limits))


async def kept() -> tuple[list[Exchange], ApiKey]:
    assert await off_loop(recorder.flush)
    return await off_loop(lambda: (list(Exchange.objects.order_by("pk")), ApiKey.objects.get()))


def message_of(answer) -> str:
    return answer.json()["error"]["message"]


@each_door
async def test_over_its_requests_a_minute_a_caller_gets_429_and_when_to_come_back(http, standin, path, at):
    await limit(requests_per_minute=2)
    serve(at(standin))
    for _ in range(2):
        assert (await http.post(path, json=asking())).status_code == 200
    refused = await http.post(path, json=asking())
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert "2 requests a minute" in message_of(refused)
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert len(standin.exchanges) == 2
    rows, key = await kept()
    assert [row.status for row in rows] == [200, 200, 429]
    assert rows[-1].error_code == "rate_limit_exceeded"
    assert key.requests == 3


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"requests_at_once": 1}, "1 requests under way at once"),
        ({"budget": Decimal("0.05")}, "held by requests that are under way"),
    ],
    ids=["places", "budget"],
)
async def test_of_two_requests_at_once_the_second_waits_for_the_end_of_the_first(
    url, key, standin, settings, limits, words
):
    settings.MODEL_PRICES = {MODEL: (1000.0, 1000.0)}  # a token is 0.001, and the answer may have a hundred
    await limit(**limits)
    serve(openai_at(standin))
    gate = threading.Event()
    standin.play(Say("Hello.", gate=gate, usage=(1, 1)))
    async with httpx.AsyncClient(
        base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=30
    ) as http:
        first = asyncio.create_task(http.post(CHAT, json=asking(stream=True)))
        try:
            await until(lambda: standin.exchanges)
            refused = await http.post(CHAT, json=asking())
        finally:
            gate.set()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
        assert words in message_of(refused)
        assert (await first).status_code == 200
        assert (await http.post(CHAT, json=asking())).status_code == 200
    assert len(standin.exchanges) == 2


class Refuses(BaseHook):
    async def pre_call(self, body, call):
        return Refusal("Not this.") if "secret" in json.dumps(body) else None


@pytest.mark.parametrize("ends", ["fails", "breaks off", "is refused", "is left", "is left waiting"])
async def test_a_place_is_free_again_whatever_ended_the_request(url, key, standin, hooks, ends):  # noqa: F811
    await limit(requests_at_once=1)
    serve(openai_at(standin))
    hooks(Refuses())
    async with httpx.AsyncClient(
        base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=30
    ) as http:
        match ends:
            case "fails":
                standin.play(Broken("400"))
                assert (await http.post(CHAT, json=asking())).status_code == 400
            case "breaks off":
                standin.play(Broken("cut"))
                assert "error" in (await http.post(CHAT, json=asking(stream=True))).text
            case "is refused":
                assert (await http.post(CHAT, json=asking("a secret"))).status_code == 400
            case "is left":
                standin.play(Broken("hang_stream"))
                async with http.stream("POST", CHAT, json=asking(stream=True)) as answer:
                    await anext(answer.aiter_bytes())
                assert await standin.exchanges[-1].gone()
            case "is left waiting":
                standin.play(Broken("hang"))
                waiting = asyncio.create_task(http.post(CHAT, json=asking()))
                await until(lambda: standin.exchanges)
                waiting.cancel()
                assert await standin.exchanges[-1].gone()
        assert (await http.post(CHAT, json=asking())).status_code == 200


async def test_both_sdks_know_the_refusal(url, standin, key):
    await limit(budget=Decimal(0))
    serve(openai_at(standin), anthropic_at(standin))
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "Hi"}])
        assert refused.value.code == "insufficient_quota"
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key) as client:
        with pytest.raises(anthropic.RateLimitError):
            await client.messages.create(
                model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )
    # Neither tried again by itself, which its budget would not have allowed either.
    assert len((await kept())[0]) == 2
    assert not standin.exchanges


@each_door
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"tokens_per_minute": 15}, "15 tokens a minute"),
        ({"budget": Decimal("0.015")}, "budget of 0.015 is used up"),
    ],
    ids=["tokens", "budget"],
)
async def test_a_rerun_is_held_like_a_first_round(http, standin, hooks, settings, path, at, limits, words):  # noqa: F811
    settings.MODEL_PRICES = {MODEL: (1000.0, 1000.0)}  # a token is 0.001; the first round uses 15
    await limit(**limits)
    serve(at(standin))
    hooks(Serves())
    standin.play(ASKS, SAYS)
    answer = await http.post(path, json=asking(tools=TOOLS[path]))
    assert answer.status_code == 429
    assert words in message_of(answer)
    assert len(standin.exchanges) == 1
    [row], key = await kept()
    assert (row.status, row.round_count, row.input_tokens, row.output_tokens) == (429, 1, 10, 5)
    assert (key.input_tokens, key.output_tokens, key.spent) == (10, 5, Decimal("0.015"))


@each_door
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_with_a_rerun_is_read_in_the_admin(http, standin, hooks, path, at, stream):  # noqa: F811
    await limit(keep="full")
    serve(at(standin))
    hooks(Serves())
    standin.play(ASKS, Say("It is **one**.", usage=(20, 7)))
    answer = await http.post(path, json=asking("How many?", tools=TOOLS[path], stream=stream))
    assert answer.status_code == 200
    [row], key = await kept()
    assert (row.round_count, row.input_tokens, row.output_tokens, row.stream) == (2, 30, 12, stream)
    assert (key.requests, key.input_tokens, key.output_tokens) == (1, 30, 12)

    def page() -> str:
        client = Client()
        client.force_login(User.objects.create_superuser("root", password="a long enough secret"))
        return page_at(client, reverse("admin:gateway_exchange_change", args=[row.pk]))

    text = await off_loop(page)
    assert "How many?" in text
    assert text.count("<strong>one</strong>") >= 1
    assert "Round 2: rerun 1, asked for by Serves" in text


@pytest.mark.parametrize(("keep", "count"), [("off", 0), ("metadata", 1)])
async def test_what_is_not_to_be_kept_is_not_kept_and_counts_all_the_same(http, standin, keep, count):
    await limit(keep=keep)
    serve(openai_at(standin))
    standin.play(Say("A secret answer.", usage=(20, 7)))
    assert (await http.post(CHAT, json=asking("A secret question."))).status_code == 200
    rows, key = await kept()
    assert len(rows) == count
    assert all(not row.request and not row.response for row in rows)
    assert (key.requests, key.input_tokens, key.output_tokens) == (1, 20, 7)
