"""The real SDKs, async and sync, each through an endpoint of its own dialect and of the other."""

from __future__ import annotations

import json
from functools import partial

import httpx
import pytest

from agent.providers.endpoint import Timeouts
from chatsite.gateway import hooked
from chatsite.gateway.hooks.loading import as_hook
from tests.gateway.litellm_hooks import TOOL, Declared
from tests.gateway.sdks import Async, Sync, anthropics, openais
from tests.gateway.served import CHAT, MODEL, anthropic_at, openai_at, serve
from tests.standin import Broken, Raw, Say, broken

each_endpoint = pytest.mark.parametrize("at", [openai_at, anthropic_at], ids=["openai", "anthropic"])

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPENAI_TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "", "parameters": WEATHER},
}
ANTHROPIC_TOOL = {"name": "get_weather", "description": "", "input_schema": WEATHER}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TWO_CALLS = Say(
    "Let me look.",
    calls=[("call_a", "get_weather", {"city": "Oslo"}), ("call_b", "get_weather", {"city": "Zürich"})],
    thinking="Two cities.",
    usage=(31, 17),
)
PROMISED = 1.0
"""Seconds from a caller's leaving to the end of the request to the model, seen there."""
TRIES = (0.2, 1.0, 5.0)
"""Seconds of patience in each. A pause of the machine may make one of them late. What is late by itself is so in all of
them."""


@pytest.fixture(params=[Async, Sync], ids=["async", "sync"])
def driver(request):
    return request.param


@pytest.fixture
async def openai_sdk(driver, url, key):
    sdk = openais(driver, url, key)
    yield sdk
    await sdk.close()


@pytest.fixture
async def anthropic_sdk(driver, url, key):
    sdk = anthropics(driver, url, key)
    yield sdk
    await sdk.close()


def user(content="Hello"):
    return [{"role": "user", "content": content}]


def chat(content="Hello", **more):
    return {"model": MODEL, "messages": user(content), **more}


def message(content="Hello", **more):
    return chat(content, max_tokens=100, **more)


@each_endpoint
async def test_openais_sdk_gets_text_calls_thoughts_and_usage_in_one_piece(openai_sdk, standin, at):
    serve(at(standin))
    standin.play(Say("Hello."), TWO_CALLS)
    assert (await openai_sdk.create(**chat())).choices[0].message.content == "Hello."
    answer = await openai_sdk.create(**chat(tools=[OPENAI_TOOL]))
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look."
    assert choice.message.reasoning_content == "Two cities."
    assert [(c.id, json.loads(c.function.arguments)["city"]) for c in choice.message.tool_calls] == [
        ("call_a", "Oslo"),
        ("call_b", "Zürich"),
    ]
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (31, 17)
    assert answer.model == MODEL


@each_endpoint
async def test_openais_sdk_reads_the_stream(openai_sdk, standin, at):
    serve(at(standin))
    standin.play(TWO_CALLS, TWO_CALLS)
    asked = chat(tools=[OPENAI_TOOL], stream_options={"include_usage": True})
    events, answer = await openai_sdk.stream(**asked)
    [choice] = answer.choices
    assert choice.message.content == "Let me look."
    assert [json.loads(c.function.arguments)["city"] for c in choice.message.tool_calls] == ["Oslo", "Zürich"]
    assert choice.finish_reason == "tool_calls"
    assert answer.usage.total_tokens == 48
    assert [event.type for event in events].count("tool_calls.function.arguments.done") == 2
    deltas = [chunk.choices[0].delta for chunk in await openai_sdk.read(**asked) if chunk.choices]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "Two cities."
    assert "".join(delta.content or "" for delta in deltas) == "Let me look."


@each_endpoint
async def test_anthropics_sdk_gets_text_calls_thoughts_and_usage_in_one_piece(anthropic_sdk, standin, at):
    serve(at(standin))
    standin.play(Say("Hello."), TWO_CALLS)
    assert (await anthropic_sdk.create(**message())).content[0].text == "Hello."
    answer = await anthropic_sdk.create(**message(tools=[ANTHROPIC_TOOL]))
    assert answer.stop_reason == "tool_use"
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer.content[0].thinking == "Two cities."
    assert [block.input["city"] for block in answer.content[2:]] == ["Oslo", "Zürich"]
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (31, 17)
    assert answer.model == MODEL


@each_endpoint
async def test_anthropics_sdk_reads_the_stream(anthropic_sdk, standin, at):
    serve(at(standin))
    standin.play(TWO_CALLS, TWO_CALLS)
    events, answer = await anthropic_sdk.stream(**message(tools=[ANTHROPIC_TOOL]))
    assert "".join(event.text for event in events if event.type == "text") == "Let me look."
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer.content[0].thinking == "Two cities."
    assert [block.input["city"] for block in answer.content[2:]] == ["Oslo", "Zürich"]
    assert answer.stop_reason == "tool_use"
    assert answer.usage.output_tokens == 17
    kinds = [event.type for event in await anthropic_sdk.read(**message(tools=[ANTHROPIC_TOOL]))]
    assert (kinds[0], kinds[-1], kinds.count("content_block_start")) == ("message_start", "message_stop", 4)


@each_endpoint
async def test_what_openais_sdk_sends_reaches_the_endpoint(openai_sdk, standin, at):
    serve(at(standin))
    await openai_sdk.create(
        model=MODEL,
        messages=[
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "cold"},
            {"role": "user", "content": "So?"},
        ],
        tools=[OPENAI_TOOL],
        tool_choice="required",
        stop=["END"],
        max_tokens=55,
        temperature=0.5,
    )
    sent = standin.exchanges[-1].json
    assert (sent["max_tokens"], sent["temperature"]) == (55, 0.5)
    assert PIXEL in json.dumps(sent)
    assert "Be brief." in json.dumps(sent)
    if at is anthropic_at:
        assert sent["system"] == "Be brief."
        assert sent["stop_sequences"] == ["END"]
        assert sent["tool_choice"] == {"type": "any"}
        assert sent["messages"][-1]["content"][0]["tool_use_id"] == "c1"
        assert sent["messages"][-2]["content"] == [
            {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Oslo"}}
        ]


@each_endpoint
async def test_what_anthropics_sdk_sends_reaches_the_endpoint(anthropic_sdk, standin, at):
    serve(at(standin))
    await anthropic_sdk.create(
        model=MODEL,
        max_tokens=55,
        system="Be brief.",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Oslo"}}
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "cold"}]},
        ],
        tools=[ANTHROPIC_TOOL],
        tool_choice={"type": "any"},
        stop_sequences=["END"],
    )
    sent = standin.exchanges[-1].json
    assert sent["max_tokens"] == 55
    assert PIXEL in json.dumps(sent)
    if at is openai_at:
        assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
        assert sent["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "cold"}
        assert (sent["stop"], sent["tool_choice"]) == (["END"], "required")


FAILURES = {
    "400": "BadRequestError",
    "401": "AuthenticationError",
    "403": "PermissionDeniedError",
    "404": "NotFoundError",
    "429_long": "RateLimitError",
    "500": "InternalServerError",
}


@each_endpoint
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_openais_sdk_raises_its_own_errors(openai_sdk, standin, at, stream):
    for kind, error in FAILURES.items():
        serve(at(standin))
        standin.play(*[Broken(kind)] * 3)
        with pytest.raises(getattr(openai_sdk.errors, error)) as raised:
            await openai_sdk.create(**chat(stream=stream))
        assert raised.value.status_code == int(kind.partition("_")[0])
        assert raised.value.body["message"]
        assert raised.value.request_id
        standin.forget()


@each_endpoint
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_anthropics_sdk_raises_its_own_errors(anthropic_sdk, standin, at, stream):
    for kind, error in FAILURES.items():
        serve(at(standin))
        standin.play(*[Broken(kind)] * 3)
        with pytest.raises(getattr(anthropic_sdk.errors, error)) as raised:
            await anthropic_sdk.create(**message(stream=stream))
        assert raised.value.status_code == int(kind.partition("_")[0])
        assert raised.value.body["error"]["message"]
        assert raised.value.request_id
        standin.forget()


async def test_both_sdks_raise_their_own_error_for_what_is_refused_here(driver, url, key, standin):
    serve(openai_at(standin))
    for make, asked in ((openais, chat), (anthropics, message)):
        wrong, right = make(driver, url, "tl-wrong"), make(driver, url, key)
        with pytest.raises(wrong.errors.AuthenticationError, match="unknown, revoked or expired"):
            await wrong.create(**asked())
        with pytest.raises(right.errors.NotFoundError, match="does not exist"):
            await right.create(**asked() | {"model": "nope"})
        with pytest.raises(right.errors.BadRequestError, match="model"):
            await right.create(**asked() | {"model": ""})
        await wrong.close()
        await right.close()
    assert not [each for each in standin.exchanges if each.method == "POST"]


@each_endpoint
@pytest.mark.parametrize("kind", ["cut", "reset", "error", "hang_stream"])
async def test_both_sdks_see_a_stream_that_breaks_off_as_an_error(
    openai_sdk, anthropic_sdk, standin, at, kind
):
    serve(at(standin, timeouts=Timeouts(connect=30, first_byte=20, idle=0.3)))
    standin.play(Broken(kind), Broken(kind))
    with pytest.raises(openai_sdk.errors.APIError):
        await openai_sdk.read(**chat())
    with pytest.raises(anthropic_sdk.errors.APIError):
        await anthropic_sdk.stream(**message())


@each_endpoint
async def test_both_sdks_read_a_stream_that_was_rerun_and_ignore_the_comment_that_counts_its_rounds(
    openai_sdk, anthropic_sdk, url, key, standin, at, monkeypatch
):
    hook = as_hook("tests.hook", Declared())
    monkeypatch.setattr(hooked, "loaded_hooks", lambda: (hook,))
    serve(at(standin))
    asks = Say("Let me look.", [("call_1", TOOL, {"q": "tea"})])
    openais_tool = {"type": "function", "function": {"name": TOOL, "parameters": WEATHER}}
    standin.play(*[asks, Say("It is green.")] * 3)
    _, answer = await openai_sdk.stream(**chat(tools=[openais_tool]))
    assert answer.choices[0].message.content == "Let me look.It is green."
    assert not answer.choices[0].message.tool_calls
    _, answer = await anthropic_sdk.stream(**message(tools=[{"name": TOOL, "input_schema": WEATHER}]))
    assert [block.text for block in answer.content] == ["Let me look.", "It is green."]
    async with httpx.AsyncClient(timeout=30) as client:
        body = chat(tools=[openais_tool], stream=True)
        raw = await client.post(f"{url}{CHAT}", json=body, headers={"authorization": f"Bearer {key}"})
    assert raw.text.count("\n\n: x-threadloom-rounds 2\n\n") == 1
    assert raw.text.index("x-threadloom-rounds") < raw.text.index("[DONE]")


@each_endpoint
async def test_a_sdk_that_cancels_in_mid_stream_is_seen_at_the_endpoint_within_a_second(
    openai_sdk, anthropic_sdk, standin, at
):
    serve(at(standin))
    some = broken("hang_stream", "openai" if at is openai_at else "anthropic")
    for sdk, asked in ((openai_sdk, chat()), (anthropic_sdk, message())):
        assert await is_seen_in_time(standin, some, partial(sdk.leave, **asked))


@each_endpoint
async def test_a_sdk_that_waits_no_longer_is_seen_at_the_endpoint_within_a_second(
    openai_sdk, anthropic_sdk, standin, at
):
    serve(at(standin))
    silent = Raw([], content_type="", then="hang")
    for sdk, asked in ((openai_sdk, chat()), (anthropic_sdk, message())):
        assert await is_seen_in_time(standin, silent, partial(sdk.give_up, **asked))


async def is_seen_in_time(standin, answer, leaves) -> bool:
    """`leaves(patience)` goes after so many seconds, in which a request should have reached the endpoint."""
    for patience in TRIES:
        standin.forget()
        standin.play(answer)
        asked = len(standin.exchanges)
        left_at = await leaves(patience)
        if len(standin.exchanges) > asked and await standin.exchanges[-1].gone_after(left_at) <= PROMISED:
            return True
    return False


async def test_both_sdks_list_the_models(openai_sdk, anthropic_sdk, standin):
    serve(openai_at(standin, listed=()), anthropic_at(standin, listed=("other",)))
    expected = ["stand-in", "stand-in-mini", "other", "demo"]
    assert await openai_sdk.listed() == expected
    assert await anthropic_sdk.listed(limit=3) == expected
    assert (await openai_sdk.model("other")).owned_by == "anthropic"
    assert (await anthropic_sdk.model("demo")).type == "model"
    with pytest.raises(openai_sdk.errors.NotFoundError):
        await openai_sdk.model("nope")
    with pytest.raises(anthropic_sdk.errors.NotFoundError):
        await anthropic_sdk.model("nope")


async def test_anthropics_sdk_counts_tokens(anthropic_sdk, standin):
    serve(anthropic_at(standin, listed=("theirs",)), openai_at(standin, listed=("ours",)))
    standin.play(Raw([b'{"input_tokens": 42}'], content_type="application/json"))
    assert (await anthropic_sdk.count(model="theirs", messages=user()))[0] == 42
    assert standin.exchanges[-1].path == "/v1/messages/count_tokens"
    asked = len(standin.exchanges)
    tokens, headers = await anthropic_sdk.count(model="ours", messages=user("word " * 400))
    assert headers["x-threadloom-estimate"] == "true"
    assert 400 <= tokens <= 700
    assert len(standin.exchanges) == asked
