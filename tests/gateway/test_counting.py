"""How many tokens a request has: counted by whoever can, and a request like others for the key's limits."""

from __future__ import annotations

import pytest

from chatsite.accounts.models import ApiKey
from tests.gateway.conftest import off_loop
from tests.gateway.served import MESSAGES, anthropic_at, asking, openai_at, serve
from tests.standin import Broken, Raw, StandIn

COUNT = f"{MESSAGES}/count_tokens"
COUNTED = Raw([b'{"input_tokens": 42}'], content_type="application/json")


@pytest.fixture
async def other():
    async with StandIn() as server:
        yield server


@pytest.mark.parametrize("kind", ["500", "401", "429_long", "refuse", "html"])
async def test_the_next_endpoint_counts_where_one_cannot(http, standin, other, kind):
    serve(anthropic_at(standin, "one"), anthropic_at(other, "two"))
    standin.play(Broken(kind))
    other.play(COUNTED)
    answer = await http.post(COUNT, json=asking())
    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 42})
    assert "x-threadloom-estimate" not in answer.headers
    assert (len(standin.exchanges), len(other.exchanges)) == (1, 1)


@pytest.mark.parametrize("kind", ["500", "404"])
async def test_where_the_next_one_has_no_such_door_it_is_estimated(http, standin, other, kind):
    serve(anthropic_at(standin), openai_at(other))
    standin.play(Broken(kind))
    answer = await http.post(COUNT, json=asking())
    assert answer.headers["x-threadloom-estimate"] == "true"
    assert answer.json()["input_tokens"] > 0
    assert other.exchanges == []


async def test_what_is_wrong_with_the_request_is_told_and_nobody_else_is_asked(http, standin, other):
    serve(anthropic_at(standin, "one"), anthropic_at(other, "two"))
    standin.play(Broken("400"))
    answer = await http.post(COUNT, json=asking())
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert other.exchanges == []


async def test_when_none_counts_the_last_ones_error_is_told(http, standin, other):
    serve(anthropic_at(standin, "one"), anthropic_at(other, "two"))
    standin.play(Broken("500"))
    other.play(Broken("429_long"))
    answer = await http.post(COUNT, json=asking())
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3600")


async def test_a_count_is_a_request_for_the_keys_rate(http, standin):
    serve(openai_at(standin))
    await off_loop(lambda: ApiKey.objects.update(requests_per_minute=2))
    assert (await http.post(COUNT, json=asking())).status_code == 200
    assert (await http.post(MESSAGES, json=asking())).status_code == 200
    for path in (COUNT, MESSAGES):
        refused = await http.post(path, json=asking())
        assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
        assert int(refused.headers["retry-after"]) > 0
