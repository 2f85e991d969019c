"""Which endpoint answers, and what happens when one does not."""

from __future__ import annotations

import gzip
import json
import time

import pytest

from agent.errors import ProviderUnreachable, RateLimited
from agent.providers.endpoint import Timeouts
from agent.providers.listing import ModelList
from chatsite.gateway import cooling, rounds
from chatsite.gateway.cooling import Cooling
from chatsite.gateway.endpoints import ConfigError, Target, config_from_settings, make_endpoint
from chatsite.gateway.upstream import MAX_WHOLE
from tests.gateway.served import CHAT, MESSAGES, MODEL, SECRET, anthropic_at, asking, openai_at, serve
from tests.gateway.test_pass_on import each_dialect, recorded
from tests.standin import Broken, Raw, Say, StandIn, error_body


@pytest.fixture
async def other():
    async with StandIn() as server:
        yield server


def dead_endpoint(name="dead"):
    """Nobody listens at the first of all ports."""
    return make_endpoint(
        name, "openai", "http://127.0.0.1:1/v1", timeouts=Timeouts(30, 30, 30), listed=(MODEL,)
    )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "kind", ["500", "429_long", "401", "404", "refuse", "html", "json_error", "too_long"]
)
async def test_the_next_endpoint_answers_where_one_cannot(http, standin, other, kind, stream):
    serve(openai_at(standin, "one"), anthropic_at(other, "two"))
    standin.play(Broken(kind))
    answer = await http.post(CHAT, json=asking("Hi", stream=stream))
    assert answer.status_code == 200
    assert "You said" in answer.text
    assert (len(standin.exchanges), len(other.exchanges)) == (1, 1)


async def test_a_machine_that_is_down_costs_no_answer(http, standin):
    serve(dead_endpoint(), openai_at(standin))
    assert (await http.post(CHAT, json=asking())).status_code == 200


async def test_a_stream_that_begins_with_an_error_has_not_begun(http, standin, other):
    serve(openai_at(standin, "one"), openai_at(other, "two"))
    standin.play(Raw([b"data: " + error_body("openai", 503) + b"\n\n"]))
    answer = await http.post(CHAT, json=asking("Hi", stream=True))
    assert "You said" in answer.text.replace('"}', "") or b"[DONE]" in answer.content
    assert len(other.exchanges) == 1


async def test_what_is_wrong_with_the_request_is_told_at_once(http, standin, other):
    serve(openai_at(standin, "one"), openai_at(other, "two"))
    standin.play(Broken("400"))
    answer = await http.post(CHAT, json=asking())
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "That request makes no sense to me."
    assert other.exchanges == []


async def test_one_endpoint_is_asked_again(http, standin):
    serve(openai_at(standin))
    standin.play(Broken("503"), Broken("refuse"))
    assert (await http.post(CHAT, json=asking())).status_code == 200
    assert len(standin.exchanges) == 3


async def test_it_is_asked_three_times_and_not_for_ever(http, standin):
    serve(openai_at(standin))
    standin.play(*[Broken("503")] * 9)
    assert (await http.post(CHAT, json=asking())).status_code == 503
    assert len(standin.exchanges) == rounds.PASSES


@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_is_asked_again_once_the_caller_has_heard_something(http, standin, other, stream):
    serve(openai_at(standin, "one"), openai_at(other, "two"))
    standin.play(Broken("reset"))
    if stream:
        answer = await http.post(CHAT, json=asking(stream=True))
        assert answer.status_code == 200
        assert other.exchanges == []


async def test_a_short_retry_after_is_waited_for_and_a_long_one_told(http, standin):
    serve(openai_at(standin))
    standin.play(Broken("429"))  # Retry-After: 0
    assert (await http.post(CHAT, json=asking())).status_code == 200
    standin.play(Broken("429_long"))
    answer = await http.post(CHAT, json=asking())
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3600")
    assert len(standin.exchanges) == 3


@each_dialect
@pytest.mark.parametrize("kind", ["hang", "hang_body"])
async def test_silence_before_the_first_byte_is_504_or_the_next_endpoint(
    http, standin, other, path, dialect, at, kind
):
    slow = at(standin, "slow", timeouts=Timeouts(connect=30, first_byte=0.5, idle=20))
    serve(slow)
    standin.play(Broken(kind))
    answer = await http.post(path, json=asking(stream=True))
    assert answer.status_code == 504
    assert len(standin.exchanges) <= 1  # it may be so slow that it has not even read the request
    serve(slow, at(other, "other"))
    standin.play(Broken(kind))
    assert (await http.post(path, json=asking())).status_code == 200


@each_dialect
async def test_silence_in_the_stream_ends_it_with_an_error(http, standin, path, dialect, at):
    serve(at(standin, timeouts=Timeouts(connect=30, first_byte=20, idle=0.3)))
    standin.play(Broken("hang_stream"))
    answer = await http.post(path, json=asking(stream=True))
    last = answer.text.rpartition("data: ")[2]
    assert "stopped for more than 0.3 seconds" in json.loads(last)["error"]["message"]
    assert await standin.exchanges[-1].gone()


@each_dialect
async def test_a_compressed_answer_is_read(http, standin, path, dialect, at):
    serve(at(standin))
    for stream in (False, True):
        plain = recorded(standin, dialect, Say("Hello."), stream=stream)
        kind = "text/event-stream" if stream else "application/json"
        standin.play(Raw([gzip.compress(plain)], content_type=kind, headers=[("content-encoding", "gzip")]))
        answer = await http.post(path, json=asking(stream=stream))
        assert answer.content == plain
        assert "content-encoding" not in answer.headers
    assert standin.exchanges[-1].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@each_dialect
async def test_a_redirect_is_not_followed(http, standin, other, path, dialect, at, status):
    """It would take the key and the conversation to wherever the endpoint says."""
    serve(at(standin))
    standin.play(Raw([], status, headers=[("location", f"{other.url}{path}")]))
    assert (await http.post(path, json=asking())).status_code == 502
    assert other.exchanges == []


@each_dialect
async def test_a_small_answer_that_unpacks_to_much_is_read_no_further(http, standin, path, dialect, at):
    serve(at(standin))
    packed = gzip.compress(b"{" * (MAX_WHOLE + 2**20), 1)
    standin.play(Raw([packed], content_type="application/json", headers=[("content-encoding", "gzip")]))
    answer = await http.post(path, json=asking())
    assert answer.status_code == 502
    assert "an answer without an end" in answer.text


@each_dialect
async def test_an_event_of_twenty_megabytes_passes(http, standin, path, dialect, at):
    serve(at(standin))
    whole = recorded(standin, dialect, Say("x" * 20_000_000, pieces=20_000_000))
    standin.play(Raw([whole[i : i + 2**20] for i in range(0, len(whole), 2**20)]))
    answer = await http.post(path, json=asking(stream=True))
    assert answer.content == whole


@pytest.mark.parametrize(
    ("path", "at"), [(CHAT, anthropic_at), (MESSAGES, openai_at)], ids=["openai", "anthropic"]
)
async def test_one_that_has_to_be_read_is_an_error_and_not_held_in_memory(http, standin, path, at):
    serve(at(standin))
    dialect = "openai" if at is openai_at else "anthropic"
    whole = recorded(standin, dialect, Say("x" * 20_000_000, pieces=20_000_000))
    standin.play(Raw([whole[i : i + 2**20] for i in range(0, len(whole), 2**20)]))
    asked_at = time.monotonic()
    answer = await http.post(path, json=asking(stream=True))
    assert "an event without an end" in answer.text.rpartition("data: ")[2]
    assert await standin.exchanges[-1].gone_within(10.0, asked_at)


@each_dialect
async def test_a_stream_that_turns_into_json_is_no_clean_end(http, standin, path, dialect, at):
    serve(at(standin))
    begun = recorded(standin, dialect, Say("A text that goes on for a while."))[:400]
    begun = begun[: begun.rindex(b"\n\n") + 2]
    standin.play(Raw([begun, error_body(dialect, 500)]))
    answer = await http.post(path, json=asking(stream=True))
    assert "error" in answer.text.rpartition("data: ")[2]
    assert b"[DONE]" not in answer.content


# -- resting -------------------------------------------------------------------------------------------------


def two_targets():
    one, two = (make_endpoint(name, "openai", "http://127.0.0.1:9/v1") for name in ("one", "two"))
    return Target(one, "m"), Target(two, "m")


def test_an_endpoint_that_fails_in_a_row_is_asked_last_for_a_while():
    now = [100.0]
    rest = Cooling(clock=lambda: now[0])
    one, two = targets = two_targets()
    for _ in range(cooling.FAILURES - 1):
        rest.failed(one, ProviderUnreachable("down"))
    assert rest.order(targets) == (one, two)
    rest.failed(one, ProviderUnreachable("down"))
    assert rest.order(targets) == (two, one)
    now[0] += cooling.AFTER_FAILURES + 1
    assert rest.order(targets) == (one, two)


def test_an_answer_ends_the_rest_and_the_count():
    rest = Cooling(clock=lambda: 100.0)
    one, two = targets = two_targets()
    for _ in range(cooling.FAILURES):
        rest.failed(one, ProviderUnreachable("down"))
    rest.answered(one)
    assert rest.order(targets) == (one, two)
    rest.failed(one, ProviderUnreachable("down"))
    assert rest.order(targets) == (one, two)


def test_a_rate_limit_rests_for_as_long_as_it_says_and_alone_is_still_asked():
    now = [100.0]
    rest = Cooling(clock=lambda: now[0])
    one, two = targets = two_targets()
    rest.failed(one, RateLimited("slow down", retry_after=40))
    assert rest.order(targets) == (two, one)
    assert rest.order((one,)) == (one,)
    now[0] += 41
    assert rest.order(targets) == (one, two)


async def test_a_resting_endpoint_is_not_asked_while_another_is_well(http, standin, other):
    serve(openai_at(standin, "one"), openai_at(other, "two"))
    standin.play(Broken("429_long"))
    for _ in range(3):
        assert (await http.post(CHAT, json=asking())).status_code == 200
    assert (len(standin.exchanges), len(other.exchanges)) == (1, 3)


# -- names ---------------------------------------------------------------------------------------------------


async def test_only_the_public_name_is_shown(http, standin):
    endpoint = openai_at(standin, listed=None)
    serve(endpoint, named={"fast": [(endpoint, MODEL)]})
    for path in (CHAT, MESSAGES):
        for stream in (False, True):
            answer = await http.post(path, json=asking(model="fast", stream=stream))
            assert '"fast"' in answer.text
            assert MODEL not in answer.text
    assert [m["id"] for m in (await http.get("/v1/models")).json()["data"]] == ["fast", "demo"]
    standin.play(Raw([error_body("openai", 400, f"{MODEL} does not know that")], 400, "application/json"))
    assert MODEL not in (await http.post(CHAT, json=asking(model="fast"))).text


async def test_a_model_is_known_without_its_date_where_the_endpoint_lists_it(http, standin):
    class Lists:
        name = "lists"

        async def models(self):
            return ["claude-x-20250929"]

    routes = serve(anthropic_at(standin, listed=()))
    [endpoint] = routes._lists
    routes._lists[endpoint] = ModelList(Lists())
    assert (await http.post(MESSAGES, json=asking(model="claude-x"))).status_code == 200
    assert standin.exchanges[-1].json["model"] == "claude-x"
    assert [m["id"] for m in (await http.get("/v1/models")).json()["data"]] == [
        "claude-x-20250929",
        "demo",
    ]


async def test_an_endpoint_that_cannot_be_asked_for_its_models_is_named(http):
    serve(dead_endpoint(), make_endpoint("silent", "openai", "http://127.0.0.1:9/v1", listed=()))
    answer = await http.post(CHAT, json=asking(model="other"))
    assert answer.status_code == 404
    assert "silent could not be asked" in answer.json()["error"]["message"]


# -- the setting ---------------------------------------------------------------------------------------------

GOOD = {"dialect": "openai", "base_url": "http://127.0.0.1:9/v1"}
WRONG = [
    ({"model": {}}, "GATEWAY_MODELS has 'model'"),
    ({"endpoints": {"a": {}}}, "GATEWAY_MODELS.endpoints.a.dialect"),
    ({"endpoints": {"a/b": GOOD}}, "without a slash"),
    ({"endpoints": {"a": {**GOOD, "url": ""}}}, "GATEWAY_MODELS.endpoints.a has 'url'"),
    ({"endpoints": {"a": {**GOOD, "base_url": "ftp://x"}}}, "GATEWAY_MODELS.endpoints.a:"),
    ({"endpoints": {"a": {**GOOD, "api_key_env": "NO_SUCH_VARIABLE"}}}, "NO_SUCH_VARIABLE"),
    ({"endpoints": {"a": {**GOOD, "idle_timeout": 0}}}, "a.idle_timeout is 0"),
    ({"endpoints": {"a": {**GOOD, "models": "some"}}}, "a.models must be"),
    ({"endpoints": {"a": {**GOOD, "headers": {"x": "a\nb"}}}}, "a.headers.x"),
    ({"endpoints": {"a": {**GOOD, "headers": {"x": "é"}}}}, "a.headers.x"),
    ({"endpoints": {"a": {**GOOD, "headers": {"a b": "c"}}}}, "a.headers has the name 'a b'"),
    ({"endpoints": {"a": {**GOOD, "headers": {"": "c"}}}}, "a.headers has the name ''"),
    ({"endpoints": {"a": {**GOOD, "headers": {"Content-Length": "1"}}}}, "a.headers has 'Content-Length'"),
    ({"endpoints": {"a": {**GOOD, "headers": {"host": "b"}}}}, "a.headers has 'host'"),
    ({"endpoints": {"a": {**GOOD, "dialect": ["openai"]}}}, "GATEWAY_MODELS.endpoints.a.dialect"),
    ({"endpoints": {"a": {**GOOD, "base_url": "http://x:99999/v1"}}}, "GATEWAY_MODELS.endpoints.a:"),
    ({"endpoints": {"a": {**GOOD, "idle_timeout": float("nan")}}}, "a.idle_timeout is nan"),
    ({"endpoints": {"a": {**GOOD, "idle_timeout": float("inf")}}}, "a.idle_timeout is inf"),
    ({"endpoints": {"a": {**GOOD, "models": [""]}}}, "a.models must be"),
    ({"endpoints": {"a": GOOD}, "models": {"": "a/gpt"}}, "the name ''"),
    ({"endpoints": {"a": GOOD}, "models": {"a\nb": "a/gpt"}}, "the name 'a\\nb'"),
    ({"endpoints": {"a": GOOD}, "models": {"m" * 201: "a/gpt"}}, "1 to 200 characters"),
    ({"endpoints": []}, "must be a JSON object"),
    ({"models": {"m": "gpt"}}, 'write "ENDPOINT/MODEL"'),
    ({"models": {"m": "nowhere/gpt"}}, "names the endpoint 'nowhere'"),
    ({"models": {"m": []}}, "GATEWAY_MODELS.models.m must be"),
]


@pytest.mark.parametrize(("value", "said"), WRONG)
def test_a_wrong_setting_is_a_sentence(settings, value, said):
    settings.GATEWAY_MODELS = value
    with pytest.raises(ConfigError) as raised:
        config_from_settings()
    assert said in str(raised.value)


def test_a_right_setting_is_read(settings, monkeypatch):
    monkeypatch.setenv("LOCAL_KEY", SECRET)
    settings.OPENAI_API_KEY = "sk-own"
    settings.GATEWAY_MODELS = {
        "endpoints": {
            "local": {**GOOD, "api_key_env": "LOCAL_KEY", "idle_timeout": 5, "headers": {"X-A": "b"}}
        },
        "models": {"fast": ["local/qwen/3", "openai/gpt"]},
    }
    config = config_from_settings()
    assert [target.name for target in config.named["fast"]] == ["local/qwen/3", "openai/gpt"]
    local = config.named["fast"][0].endpoint
    assert (local.headers["authorization"], local.headers["x-a"]) == (f"Bearer {SECRET}", "b")
    assert local.timeouts == Timeouts(connect=10, first_byte=120, idle=5)
    assert SECRET not in repr(local)
