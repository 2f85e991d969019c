"""The ready hooks and the server's tools, end to end: both SDKs, endpoints of both kinds, streamed or not."""

from __future__ import annotations

import asyncio
import json
import re

import anthropic
import openai
import pytest

from agent import ToolRegistry, tool
from chatsite.gateway import hooked
from chatsite.gateway.hooks.loading import loaded_hooks
from chatsite.gateway.hooks.server_tools import ServerTools, server_tools
from chatsite.gateway.models import ExchangeCall
from tests.gateway.conftest import off_loop
from tests.gateway.served import MODEL, anthropic_at, openai_at, serve
from tests.standin import Raw, Say, StandIn

HOOKS = "chatsite.gateway.hooks"
OWN = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
QUESTION = [{"role": "user", "content": "What is new about tea?"}]

each_endpoint = pytest.mark.parametrize("at", [openai_at, anthropic_at], ids=["to openai", "to anthropic"])
each_sdk = pytest.mark.parametrize("sdk", ["openai", "anthropic"])
openais = pytest.mark.parametrize("sdk", ["openai"])
each_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


class Program:
    """One of the SDKs, asked in the same words."""

    def __init__(self, sdk: str, url: str, key: str) -> None:
        self.sdk = sdk
        make = {"max_retries": 0, "timeout": 60, "api_key": key}
        self.client = (
            openai.AsyncOpenAI(base_url=f"{url}/v1", **make)
            if sdk == "openai"
            else anthropic.AsyncAnthropic(base_url=url, **make)
        )

    async def ask(self, *, stream: bool, messages=QUESTION, **more):
        """(text, calls by name, why it ended, usage as (input, output))."""
        if self.sdk == "openai":
            return self._read_openai(
                await self._openai({"model": MODEL, "messages": messages, **more}, stream)
            )
        body = {"model": MODEL, "max_tokens": 100, "messages": messages, **more}
        return self._read_anthropic(await self._anthropic(body, stream))

    async def _openai(self, body, stream):
        # `create` takes tool types that the SDK does not know; its stream helper is fed by hand.
        if not stream:
            return await self.client.chat.completions.create(**body)
        state = openai.lib.streaming.chat.ChatCompletionStreamState()
        options = {"stream": True, "stream_options": {"include_usage": True}}
        async for chunk in await self.client.chat.completions.create(**body, **options):
            state.handle_chunk(chunk)
        return state.get_final_completion()

    async def _anthropic(self, body, stream):
        if not stream:
            return await self.client.messages.create(**body)
        async with self.client.messages.stream(**body) as events:
            return await events.get_final_message()

    @staticmethod
    def _read_openai(answer):
        [choice] = answer.choices
        calls = [call.function.name for call in choice.message.tool_calls or ()]
        usage = (answer.usage.prompt_tokens, answer.usage.completion_tokens)
        return choice.message.content, calls, choice.finish_reason, usage

    @staticmethod
    def _read_anthropic(answer):
        text = "".join(block.text for block in answer.content if block.type == "text")
        calls = [block.name for block in answer.content if block.type == "tool_use"]
        why = {"end_turn": "stop", "tool_use": "tool_calls"}.get(answer.stop_reason, answer.stop_reason)
        return text, calls, why, (answer.usage.input_tokens, answer.usage.output_tokens)

    def tool(self, name, schema):
        if self.sdk == "anthropic":
            return {"name": name, "description": "", "input_schema": schema}
        return {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}


@pytest.fixture
async def program(sdk, url, key):
    program = Program(sdk, url, key)
    yield program
    await program.client.close()


@pytest.fixture
def load(settings):
    """Load these hooks, as GATEWAY_HOOKS does."""

    def use(*names: str) -> None:
        settings.GATEWAY_HOOKS = [f"{HOOKS}.{name}.hook" for name in names]
        loaded_hooks.cache_clear()

    use()
    yield use
    loaded_hooks.cache_clear()
    server_tools.cache_clear()


@pytest.fixture
async def searched(settings):
    """What the search service was asked."""
    hit = {"title": "Tea news", "url": "https://tea.example/", "content": "Tea is green."}
    answer = Raw([json.dumps({"results": [hit]}).encode()], content_type="application/json")
    async with StandIn(default=lambda exchange: answer) as server:
        settings.SEARXNG_URL, settings.BRAVE_API_KEY, settings.TAVILY_API_KEY = server.url, "", ""
        yield server.exchanges


def names_of(body):
    return [tool.get("name") or tool["function"]["name"] for tool in body.get("tools", ())]


NATIVE = {
    "openai": {"web_search_options": {}},
    "anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]},
}


@each_way
@each_endpoint
@each_sdk
async def test_a_native_web_search_is_answered_for_any_model(
    program, sdk, standin, at, stream, load, searched
):
    load("web_search")
    serve(at(standin))
    calls = [("c1", "web_search", {"query": "tea"}), ("c2", "web_search", {"query": "green tea"})]
    standin.play(Say("", calls, usage=(10, 5)), Say("Tea is green.", usage=(30, 7)))
    text, called, why, usage = await program.ask(stream=stream, **NATIVE[sdk])
    assert (text, called, why) == ("Tea is green.", [], "stop")
    assert usage == (40, 12)
    first, second = (exchange.json for exchange in standin.exchanges)
    assert names_of(first) == ["web_search"]
    assert json.dumps(second["messages"]).count("https://tea.example/") == 2
    assert len(searched) == 2


@each_way
@each_sdk
async def test_a_web_search_tool_of_the_callers_own_is_left_alone(program, standin, stream, load, searched):
    load("web_search")
    serve(openai_at(standin))
    standin.play(Say("", [("c1", "web_search", {"path": "tea"})]))
    _, called, why, _ = await program.ask(stream=stream, tools=[program.tool("web_search", OWN)])
    assert (called, why) == (["web_search"], "tool_calls")
    assert searched == []


@each_way
@each_endpoint
@each_sdk
async def test_a_long_request_is_shortened_and_read_back(program, standin, at, stream, load, settings):
    load("compression")
    settings.COMPRESSION_ABOVE, settings.COMPRESSION_KEEP = 3_000, 2
    story = "It was a dark and stormy night. " * 1_000
    said = [("user", "First"), ("assistant", story), ("user", "Next"), ("assistant", "Yes"), ("user", "Last")]

    def model(exchange):
        asked = exchange.body.decode()
        if len(standin.exchanges) == 1:
            return Say("", [("c1", "fetch_context", {"key": re.search(r"ctx_[0-9a-f]{16}", asked)[0]})])
        return Say("It was stormy.")

    standin._default = model
    serve(at(standin))
    messages = [{"role": role, "content": text} for role, text in said]
    text, called, why, _ = await program.ask(stream=stream, messages=messages)
    assert (text, called, why) == ("It was stormy.", [], "stop")
    first, second = (exchange.body for exchange in standin.exchanges)
    assert len(first) < len(story) / 4
    assert names_of(json.loads(first)) == ["fetch_context"]
    assert second.decode().count("stormy night") > 600


@each_way
@each_endpoint
@each_sdk
async def test_the_servers_tools_run_for_who_asks_for_them(program, standin, at, stream, load):
    serve(at(standin))
    asking = [{"type": "threadloom", "name": name} for name in ("get_weather", "get_clothing_advice")]
    question = [{"role": "user", "content": "What should I wear in Oslo?"}]
    text, called, why, _ = await program.ask(stream=stream, messages=question, tools=asking)
    assert text.endswith("Wear a light jacket: that is my advice for Oslo.")
    assert (called, why) == ([], "stop")
    assert len(standin.exchanges) == 3
    rows = await off_loop(lambda: list(ExchangeCall.objects.order_by("pk").values_list("name", "state")))
    assert rows == [("get_weather", "done"), ("get_clothing_advice", "done")]


@each_way
@each_sdk
async def test_the_header_asks_as_well(program, standin, stream, load):
    serve(openai_at(standin))
    standin.play(Say("", [("c1", "get_weather", {"city": "Oslo"})]), Say("Cloudy."))
    headers = {"x-threadloom-tools": "get_weather, get_clothing_advice"}
    text, _, _, _ = await program.ask(stream=stream, extra_headers=headers)
    assert text == "Cloudy."
    assert names_of(standin.exchanges[0].json) == ["get_weather", "get_clothing_advice"]


@each_way
@each_endpoint
@each_sdk
async def test_a_turn_with_the_callers_own_calls_goes_to_the_caller_first(program, standin, at, stream, load):
    serve(at(standin))
    both = [("c1", "get_weather", {"city": "Oslo"}), ("c2", "read_file", {"path": "a"})]
    standin.play(Say("Both.", both))
    tools = [program.tool("read_file", OWN), {"type": "threadloom", "name": "get_weather"}]
    text, called, why, _ = await program.ask(stream=stream, tools=tools)
    assert (text, called, why) == ("Both.", ["read_file"], "tool_calls")
    assert not await off_loop(ExchangeCall.objects.exists)


@each_way
@each_sdk
async def test_both_search_and_tools_in_one_turn(program, sdk, standin, stream, load, searched):
    load("web_search")
    serve(openai_at(standin))
    weather, search = ("c1", "get_weather", {"city": "Oslo"}), ("c2", "web_search", {"query": "tea"})
    standin.play(Say("", [weather, search]), Say("", [("c3", *search[1:])]), Say("Done."))
    more = {"tools": [{"type": "threadloom", "name": "get_weather"}, {"type": "web_search_20250305"}]}
    text, called, why, _ = await program.ask(stream=stream, **more)
    assert (text, called, why) == ("Done.", [], "stop")
    assert len(searched) == 1


@each_way
@each_sdk
async def test_a_caller_that_leaves_stops_the_tools(program, standin, stream, load, monkeypatch):
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_ever() -> str:
        """Waits."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    own = ServerTools(ToolRegistry([wait_for_ever]))
    monkeypatch.setattr(hooked, "server_tools", lambda: own)
    serve(openai_at(standin))
    standin.play(Say("Wait.", [("c1", "wait_for_ever", {})]))
    asked = asyncio.create_task(
        program.ask(stream=stream, tools=[{"type": "threadloom", "name": "wait_for_ever"}])
    )
    async with asyncio.timeout(30):
        await started.wait()
        assert await off_loop(lambda: ExchangeCall.objects.get().state) == "claimed"
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await stopped.wait()
        while await off_loop(lambda: ExchangeCall.objects.get().state) == "claimed":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await off_loop(lambda: ExchangeCall.objects.get().state) == "unknown"
    assert len(standin.exchanges) == 1


REFUSALS = {
    "fly": ("bad", "there is no server tool 'fly'; there are get_clothing_advice, get_weather"),
    "send_email": ("denied", "nobody can be asked here"),
}
ERRORS = {
    ("openai", "bad"): openai.BadRequestError,
    ("openai", "denied"): openai.PermissionDeniedError,
    ("anthropic", "bad"): anthropic.BadRequestError,
    ("anthropic", "denied"): anthropic.PermissionDeniedError,
}


@each_way
@each_sdk
@pytest.mark.parametrize("name", REFUSALS)
async def test_a_tool_that_cannot_be_had_is_an_error_of_the_sdk(program, sdk, standin, stream, load, name):
    serve(openai_at(standin))
    kind, words = REFUSALS[name]
    with pytest.raises(ERRORS[sdk, kind], match=re.escape(words)):
        await program.ask(stream=stream, tools=[{"type": "threadloom", "name": name}])
    assert standin.exchanges == []


@each_way
@each_sdk
async def test_a_rule_of_the_house_is_an_error_of_the_sdk(program, sdk, standin, stream, load, settings):
    load("rules")
    settings.GATEWAY_RULES = "refuse codename (?i)nightingale\nmask card \\d{4}-\\d{4}\ncap 50"
    serve(openai_at(standin))
    secret = [{"role": "user", "content": "Tell me of Nightingale"}]
    with pytest.raises(ERRORS[sdk, "denied"], match="codename"):
        await program.ask(stream=stream, messages=secret)
    assert standin.exchanges == []
    standin.play(Say("Yes."))
    card = [{"role": "user", "content": "My card is 1234-5678"}]
    text, _, _, _ = await program.ask(stream=stream, messages=card)
    assert text == "Yes."
    assert "My card is [card]" in standin.exchanges[0].body.decode()
    assert standin.exchanges[0].json["max_tokens"] == 50


@openais
async def test_a_request_for_several_answers_does_not_get_past_the_rules(program, standin, load, settings):
    load("rules")
    settings.GATEWAY_RULES = "refuse codename (?i)nightingale\nmask card \\d{4}-\\d{4}"
    serve(openai_at(standin))
    asked = program.client.chat.completions.create
    with pytest.raises(openai.PermissionDeniedError, match="codename"):
        await asked(model=MODEL, n=2, messages=[{"role": "user", "content": "Nightingale"}])
    await asked(model=MODEL, n=2, messages=[{"role": "user", "content": "1234-5678"}])
    [exchange] = standin.exchanges
    assert exchange.json["messages"][0]["content"] == "[card]"
    assert exchange.json["n"] == 2


@openais
async def test_several_answers_cannot_use_the_servers_tools(program, standin, load):
    serve(openai_at(standin))
    asked = program.client.chat.completions.create
    tools = [{"type": "threadloom", "name": "get_weather"}]
    with pytest.raises(openai.BadRequestError, match="get_weather") as error:
        await asked(model=MODEL, n=2, messages=QUESTION, tools=tools)
    assert error.value.param == "n"
    assert standin.exchanges == []
