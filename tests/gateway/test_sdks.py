"""The real SDKs, each through an endpoint of its own dialect and of the other."""

from __future__ import annotations

import asyncio
import json

import anthropic
import openai
import pytest

from agent.providers.http import Timeouts
from tests.gateway.served import MODEL, anthropic_at, openai_at, serve, until
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


@pytest.fixture
async def openai_sdk(url, key):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
async def anthropic_sdk(url, key):
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0, timeout=30) as client:
        yield client


def user(content="Hello"):
    return [{"role": "user", "content": content}]


@each_endpoint
async def test_openais_sdk_gets_text_calls_thoughts_and_usage_in_one_piece(openai_sdk, standin, at):
    serve(at(standin))
    standin.play(TWO_CALLS)
    answer = await openai_sdk.chat.completions.create(model=MODEL, messages=user(), tools=[OPENAI_TOOL])
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
    standin.play(TWO_CALLS)
    events = []
    async with openai_sdk.chat.completions.stream(
        model=MODEL, messages=user(), tools=[OPENAI_TOOL], stream_options={"include_usage": True}
    ) as stream:
        async for event in stream:
            events.append(event.type)
        answer = await stream.get_final_completion()
    [choice] = answer.choices
    assert choice.message.content == "Let me look."
    assert [json.loads(c.function.arguments)["city"] for c in choice.message.tool_calls] == ["Oslo", "Zürich"]
    assert choice.finish_reason == "tool_calls"
    assert answer.usage.total_tokens == 48
    assert events.count("tool_calls.function.arguments.done") == 2


@each_endpoint
async def test_anthropics_sdk_gets_text_calls_thoughts_and_usage_in_one_piece(anthropic_sdk, standin, at):
    serve(at(standin))
    standin.play(TWO_CALLS)
    answer = await anthropic_sdk.messages.create(
        model=MODEL, max_tokens=100, messages=user(), tools=[ANTHROPIC_TOOL]
    )
    assert answer.stop_reason == "tool_use"
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer.content[0].thinking == "Two cities."
    assert [block.input["city"] for block in answer.content[2:]] == ["Oslo", "Zürich"]
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (31, 17)


@each_endpoint
async def test_anthropics_sdk_reads_the_stream(anthropic_sdk, standin, at):
    serve(at(standin))
    standin.play(TWO_CALLS)
    async with anthropic_sdk.messages.stream(
        model=MODEL, max_tokens=100, messages=user(), tools=[ANTHROPIC_TOOL]
    ) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        answer = await stream.get_final_message()
    assert text == "Let me look."
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block.input["city"] for block in answer.content[2:]] == ["Oslo", "Zürich"]
    assert answer.stop_reason == "tool_use"
    assert answer.usage.output_tokens == 17


@each_endpoint
async def test_what_openais_sdk_sends_reaches_the_endpoint(openai_sdk, standin, at):
    serve(at(standin))
    await openai_sdk.chat.completions.create(
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
    await anthropic_sdk.messages.create(
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


FAILURES = [("400", "BadRequestError"), ("401", "AuthenticationError"), ("403", "PermissionDeniedError")]
FAILURES += [("404", "NotFoundError"), ("429_long", "RateLimitError"), ("500", "InternalServerError")]


@each_endpoint
@pytest.mark.parametrize(("kind", "error"), FAILURES)
@pytest.mark.parametrize("stream", [False, True])
async def test_openais_sdk_raises_its_own_error(openai_sdk, standin, at, kind, error, stream):
    serve(at(standin))
    standin.play(*[Broken(kind)] * 3)
    with pytest.raises(getattr(openai, error)) as raised:
        await openai_sdk.chat.completions.create(model=MODEL, messages=user(), stream=stream)
    assert raised.value.status_code == int(kind.partition("_")[0])
    assert raised.value.body["message"]
    assert raised.value.request_id


@each_endpoint
@pytest.mark.parametrize(("kind", "error"), FAILURES)
@pytest.mark.parametrize("stream", [False, True])
async def test_anthropics_sdk_raises_its_own_error(anthropic_sdk, standin, at, kind, error, stream):
    serve(at(standin))
    standin.play(*[Broken(kind)] * 3)
    with pytest.raises(getattr(anthropic, error)) as raised:
        await anthropic_sdk.messages.create(model=MODEL, max_tokens=9, messages=user(), stream=stream)
    assert raised.value.status_code == int(kind.partition("_")[0])
    assert raised.value.body["error"]["message"]


@each_endpoint
@pytest.mark.parametrize("kind", ["cut", "reset", "error", "hang_stream"])
async def test_both_sdks_see_a_stream_that_breaks_off_as_an_error(
    openai_sdk, anthropic_sdk, standin, at, kind
):
    serve(at(standin, timeouts=Timeouts(connect=5, first_byte=20, idle=0.5)))
    standin.play(Broken(kind), Broken(kind))
    with pytest.raises(openai.APIError):
        async for _ in await openai_sdk.chat.completions.create(model=MODEL, messages=user(), stream=True):
            pass
    with pytest.raises(anthropic.APIError):
        async with anthropic_sdk.messages.stream(model=MODEL, max_tokens=9, messages=user()) as stream:
            await stream.get_final_message()


@each_endpoint
async def test_a_sdk_that_cancels_in_mid_stream_is_seen_at_the_endpoint(
    openai_sdk, anthropic_sdk, standin, at
):
    serve(at(standin))
    some = broken("hang_stream", "openai" if at is openai_at else "anthropic")
    standin.play(some, some)
    async with await openai_sdk.chat.completions.create(model=MODEL, messages=user(), stream=True) as stream:
        async for _ in stream:
            break
    assert await standin.exchanges[-1].gone(5.0)
    async with anthropic_sdk.messages.stream(model=MODEL, max_tokens=9, messages=user()) as stream:
        async for _ in stream:
            break
    assert await standin.exchanges[-1].gone(5.0)


@each_endpoint
async def test_a_caller_that_gives_up_waiting_is_seen_at_the_endpoint(openai_sdk, standin, at):
    serve(at(standin))
    standin.play(Raw([], content_type="", then="hang"))
    waiting = asyncio.create_task(openai_sdk.chat.completions.create(model=MODEL, messages=user()))
    await until(lambda: standin.exchanges)
    waiting.cancel()
    assert await standin.exchanges[-1].gone(5.0)


async def test_the_sync_sdks_work_too(url, key, standin):
    serve(openai_at(standin))

    def ask() -> tuple[str, str]:
        with (
            openai.OpenAI(base_url=f"{url}/v1", api_key=key) as one,
            anthropic.Anthropic(base_url=url, api_key=key) as two,
        ):
            first = one.chat.completions.create(model=MODEL, messages=user("one"))
            second = two.messages.create(model=MODEL, max_tokens=9, messages=user("two"))
            return first.choices[0].message.content, second.content[0].text

    assert await asyncio.to_thread(ask) == ("You said: one", "You said: two")


async def test_both_sdks_list_the_models(openai_sdk, anthropic_sdk, standin):
    serve(openai_at(standin, listed=()), anthropic_at(standin, listed=("other",)))
    expected = ["stand-in", "stand-in-mini", "other", "demo"]
    assert [model.id async for model in openai_sdk.models.list()] == expected
    assert [model.id async for model in anthropic_sdk.models.list(limit=3)] == expected
    assert (await openai_sdk.models.retrieve("other")).owned_by == "anthropic"
    assert (await anthropic_sdk.models.retrieve("demo")).type == "model"
    with pytest.raises(openai.NotFoundError):
        await openai_sdk.models.retrieve("nope")


async def test_anthropics_sdk_counts_tokens(anthropic_sdk, standin):
    serve(anthropic_at(standin, listed=("theirs",)), openai_at(standin, listed=("ours",)))
    standin.play(Raw([b'{"input_tokens": 42}'], content_type="application/json"))
    counted = await anthropic_sdk.messages.count_tokens(model="theirs", messages=user())
    assert counted.input_tokens == 42
    assert standin.exchanges[-1].path == "/v1/messages/count_tokens"
    asked = len(standin.exchanges)
    raw = await anthropic_sdk.messages.with_raw_response.count_tokens(
        model="ours", messages=user("word " * 400)
    )
    assert raw.headers["x-threadloom-estimate"] == "true"
    assert 400 <= json.loads(raw.http_response.content)["input_tokens"] <= 700
    assert len(standin.exchanges) == asked
