"""Requests that hooks look at, through the whole gateway."""

from __future__ import annotations

import asyncio
import json

import anthropic
import httpx
import openai
import pytest

from agent import relay
from agent.rerun import BaseHook, Patch, Plan, Refusal
from agent.rerun_answers import rerun_with
from chatsite.accounts.models import ApiKey
from chatsite.gateway import hooked
from chatsite.gateway.hooks.loading import as_hook
from chatsite.gateway.models import Exchange
from chatsite.gateway.recorder import recorder
from tests.gateway.conftest import off_loop
from tests.gateway.litellm_hooks import TOOL, Decides, Declared, Documented
from tests.gateway.served import CHAT, MESSAGES, MODEL, anthropic_at, asking, openai_at, serve
from tests.gateway.test_pass_on import FULL, recorded
from tests.standin import Broken, Raw, Say

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
TOOLS = {
    CHAT: [
        {"type": "function", "function": {"name": name, "description": "", "parameters": SCHEMA}}
        for name in (TOOL, "theirs")
    ],
    MESSAGES: [{"name": name, "description": "", "input_schema": SCHEMA} for name in (TOOL, "theirs")],
}
each_door = pytest.mark.parametrize(
    ("path", "dialect", "at"),
    [
        (CHAT, "openai", openai_at),
        (MESSAGES, "anthropic", anthropic_at),
        (CHAT, "openai", anthropic_at),
        (MESSAGES, "anthropic", openai_at),
    ],
    ids=["chat at openai", "messages at anthropic", "chat at anthropic", "messages at openai"],
)
own_door = pytest.mark.parametrize(
    ("path", "dialect", "at"),
    [(CHAT, "openai", openai_at), (MESSAGES, "anthropic", anthropic_at)],
    ids=["openai", "anthropic"],
)

ASKS = Say("Let me see.", calls=[("c1", TOOL, {"q": "one"})], usage=(10, 5))
SAYS = Say("It is one.", usage=(20, 7))
MIXED = Say("Both.", calls=[("c1", TOOL, {"q": "one"}), ("c2", "theirs", {"q": "two"})], usage=(10, 5))


@pytest.fixture
def hooks(monkeypatch):
    def load(*instances):
        made = tuple(as_hook("tests.hook", instance) for instance in instances)
        monkeypatch.setattr(hooked, "loaded_hooks", lambda: made)

    return load


class Idle(BaseHook):
    """Looks at everything and wants nothing."""

    async def look(self, turn, call):
        return None


class IdleButDeclared(Idle):
    serves = frozenset({"get_weather", TOOL})


class Serves(BaseHook):
    serves = frozenset({TOOL})

    def __init__(self):
        self.calls = []
        self.waits = None

    async def look(self, turn, call):
        self.calls += [each.arguments for each in turn.calls if each.name == TOOL]
        if self.waits is not None:
            await self.waits.wait()
        return rerun_with(turn, {each.id: "one" for each in turn.calls if each.name == TOOL}, call)


class ServesOpenly(Serves):
    """Declares nothing, so a stream of messages is told round by round."""

    serves = frozenset()

    async def claims(self, turn, call):
        return tuple(each for each in turn.calls if each.name == TOOL) or None


class GivesPlan(BaseHook):
    def __init__(self, plan):
        self.plan = plan

    async def look(self, turn, call):
        return self.plan


def events_of(answer):
    """The JSON of each event."""
    lines = [line[5:].strip() for line in answer.text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text_of(path, body):
    if path == CHAT:
        return body["choices"][0]["message"]["content"]
    return "".join(block.get("text", "") for block in body["content"])


# -- a hook that says no changes nothing ---------------------------------------------------------------------


@own_door
@pytest.mark.parametrize("hook", [Idle, IdleButDeclared, Documented, Declared])
@pytest.mark.parametrize("size", [1, 5, 64, 100_000])
async def test_a_stream_passes_byte_for_byte_by_a_hook_that_does_nothing(
    http, standin, hooks, path, dialect, at, hook, size
):
    hooks(hook())
    serve(at(standin))
    whole = recorded(standin, dialect, FULL)
    standin.play(Raw([whole[i : i + size] for i in range(0, len(whole), size)]))
    weather = json.loads(json.dumps(TOOLS[path]).replace("theirs", "get_weather"))
    answer = await http.post(path, json=asking(stream=True, tools=weather))
    assert answer.content == whole


@own_door
async def test_the_request_and_the_answer_in_one_piece_pass_byte_for_byte_too(
    http, standin, hooks, path, dialect, at
):
    hooks(Idle())
    serve(at(standin))
    standin.play(FULL)
    body = json.dumps(asking(tools=TOOLS[path]), indent=3).encode()
    answer = await http.post(path, content=body)
    assert standin.exchanges[-1].body == body
    assert answer.content == recorded(standin, dialect, FULL, stream=False)
    assert answer.headers["x-threadloom-rounds"] == "1"


@own_door
async def test_a_stream_that_breaks_off_under_a_hook_ends_in_an_error(
    http, standin, hooks, path, dialect, at
):
    hooks(IdleButDeclared())
    serve(at(standin))
    for kind in ("cut", "cut_call", "reset", "error"):
        standin.play(Broken(kind))
        answer = await http.post(path, json=asking(stream=True, tools=TOOLS[path]))
        assert events_of(answer)[-1]["error"]["message"]
        assert b"[DONE]" not in answer.content
        assert b"message_stop" not in answer.content


# -- a rerun, unseen -----------------------------------------------------------------------------------------


@each_door
@pytest.mark.parametrize("hook", [Serves, Documented])
async def test_who_waits_for_one_piece_gets_the_last_answer_alone(
    http, standin, hooks, path, dialect, at, hook
):
    hooks(hook())
    serve(at(standin))
    standin.play(ASKS, SAYS)
    answer = await http.post(path, json=asking(tools=TOOLS[path], max_tokens=77, temperature=0.5))
    assert answer.status_code == 200
    body = answer.json()
    assert text_of(path, body) == "It is one."
    usage = body["usage"]
    assert (usage.get("prompt_tokens", usage.get("input_tokens"))) == 30
    assert (usage.get("completion_tokens", usage.get("output_tokens"))) == 12
    assert answer.headers["x-threadloom-rounds"] == "2"
    second = standin.exchanges[-1].json
    assert (second["max_tokens"], second["temperature"]) == (77, 0.5)
    assert "one" in json.dumps(second["messages"][-1])


@each_door
async def test_a_stream_of_two_rounds_is_one(http, standin, hooks, path, dialect, at):
    hooks(Serves())
    serve(at(standin))
    standin.play(ASKS, SAYS)
    answer = await http.post(
        path,
        json=asking(
            stream=True,
            tools=TOOLS[path],
            **({"stream_options": {"include_usage": True}} if path == CHAT else {}),
        ),
    )
    events = events_of(answer)
    assert TOOL not in answer.text
    if path == MESSAGES:
        kinds = [event["type"] for event in events if event["type"] != "ping"]
        assert [kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop")] == [1, 1, 1]
        starts = [event["index"] for event in events if event["type"] == "content_block_start"]
        assert starts == [0, 1]
        last = next(event for event in events if event["type"] == "message_delta")
        assert last["delta"]["stop_reason"] == "end_turn"
        assert (last["usage"]["input_tokens"], last["usage"]["output_tokens"]) == (30, 12)
    else:
        assert len({event["id"] for event in events}) == 1
        deltas = [choice["delta"] for event in events for choice in event["choices"]]
        assert sum("role" in delta for delta in deltas) == 1
        reasons = [choice["finish_reason"] for event in events for choice in event["choices"]]
        assert [reason for reason in reasons if reason] == ["stop"]
        [counts] = [event["usage"] for event in events if event.get("usage")]
        assert (counts["prompt_tokens"], counts["completion_tokens"]) == (30, 12)
        assert answer.text.count("[DONE]") == 1


async def test_both_sdks_read_the_joined_stream(url, key, standin, hooks):
    hooks(Serves())
    serve(openai_at(standin, listed=("a",)), anthropic_at(standin, listed=("b",)))
    thinks = Say("Let me see.", calls=[("c1", TOOL, {"q": "one"})], thinking="Hm.", usage=(10, 5))
    standin.play(thinks, SAYS, thinks, SAYS)
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as sdk,
        sdk.chat.completions.stream(model="a", messages=asking()["messages"], tools=TOOLS[CHAT]) as stream,
    ):
        completion = await stream.get_final_completion()
    assert completion.choices[0].message.content == "Let me see.It is one."
    assert not completion.choices[0].message.tool_calls
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key=key) as sdk,
        sdk.messages.stream(
            model="b", max_tokens=9, messages=asking()["messages"], tools=TOOLS[MESSAGES]
        ) as stream,
    ):
        message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text", "text"]
    assert "".join(block.text for block in message.content[1:]) == "Let me see.It is one."
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 12)


@pytest.mark.parametrize("form", ["default", "header", "key"])
async def test_messages_can_be_told_round_by_round(http, key, standin, hooks, form):
    hooks(ServesOpenly() if form == "default" else Serves())
    serve(anthropic_at(standin))
    standin.play(ASKS, SAYS)
    headers = {"x-agentic-stream": "append"} if form == "header" else {}
    if form == "key":
        await off_loop(lambda: ApiKey.objects.update(stream_form="append"))
    answer = await http.post(MESSAGES, json=asking(stream=True, tools=TOOLS[MESSAGES]), headers=headers)
    assert answer.content == recorded(standin, "anthropic", ASKS) + recorded(standin, "anthropic", SAYS)


async def test_the_header_asks_for_one_message_where_nothing_is_declared(http, standin, hooks):
    hooks(ServesOpenly())
    serve(anthropic_at(standin))
    standin.play(ASKS, SAYS)
    body = asking(stream=True, tools=TOOLS[MESSAGES])
    answer = await http.post(MESSAGES, json=body, headers={"x-agentic-stream": "single"})
    assert answer.text.count('"message_start"') == 1
    refused = await http.post(MESSAGES, json=body, headers={"x-agentic-stream": "both"})
    assert refused.status_code == 400


@each_door
@pytest.mark.parametrize("stream", [False, True])
async def test_a_mixed_turn_keeps_the_callers_calls(http, standin, hooks, path, dialect, at, stream):
    hook = Serves()
    hooks(hook)
    serve(at(standin))
    standin.play(MIXED)
    answer = await http.post(path, json=asking(stream=stream, tools=TOOLS[path]))
    assert "theirs" in answer.text
    assert TOOL not in answer.text
    assert "tool_calls" in answer.text or "tool_use" in answer.text
    assert hook.calls == []
    assert len(standin.exchanges) == 1
    if stream and path == CHAT:
        calls = [
            c for e in events_of(answer) for ch in e["choices"] for c in ch["delta"].get("tool_calls", ())
        ]
        assert {call["index"] for call in calls} == {0}
    if stream and path == MESSAGES:
        starts = [e["index"] for e in events_of(answer) if e["type"] == "content_block_start"]
        assert starts == [0, 1]


@each_door
@pytest.mark.parametrize("stream", [False, True])
async def test_a_loop_without_end_ends_with_words(http, standin, hooks, path, dialect, at, stream):
    hooks(Serves())
    serve(at(standin))
    standin.play(*[Say("", calls=[(f"c{n}", TOOL, {"q": f"{n}"})]) for n in range(4)], Say("That is all."))
    answer = await http.post(path, json=asking(stream=stream, tools=TOOLS[path]))
    assert len(standin.exchanges) == 5
    assert "That is all." in (answer.text if not stream else "".join(re_text(answer)))
    last = standin.exchanges[-1].json
    assert not last.get("tools") or last["tool_choice"] in ({"type": "none"}, "none")


def re_text(answer):
    for event in events_of(answer):
        yield (event.get("delta") or {}).get("text", "")
        for choice in event.get("choices", ()):
            yield choice["delta"].get("content") or ""


# -- the other plans -----------------------------------------------------------------------------------------

OVERRIDES = {
    CHAT: {
        "id": "x",
        "object": "chat.completion",
        "model": MODEL,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Mine."}, "finish_reason": "stop"}
        ],
    },
    MESSAGES: {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": "Mine."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}


@own_door
@pytest.mark.parametrize("form", ["ours", "litellm"])
async def test_an_override_goes_out_as_it_is(http, standin, hooks, path, dialect, at, form):
    plan = Plan(response_override=OVERRIDES[path])
    hooks(GivesPlan(plan) if form == "ours" else Decides(plan))
    serve(at(standin))
    answer = await http.post(path, json=asking())
    assert answer.json() == OVERRIDES[path]
    hooks(GivesPlan(Plan(response_override={})))
    assert (await http.post(path, json=asking())).json() == {}


@own_door
async def test_an_override_is_told_in_a_stream(http, standin, hooks, path, dialect, at):
    hooks(GivesPlan(Plan(response_override=OVERRIDES[path])))
    serve(at(standin))
    standin.play(ASKS)
    answer = await http.post(
        path, json=asking(stream=True, tools=TOOLS[path]), headers={"x-agentic-stream": "single"}
    )
    assert "".join(re_text(answer)) == "Let me see.Mine."
    assert TOOL not in answer.text


@own_door
@pytest.mark.parametrize("stream", [False, True])
async def test_a_terminated_loop_sends_the_turn_without_what_was_claimed(
    http, standin, hooks, path, dialect, at, stream
):
    hook = Serves()

    async def look(turn, call):
        return Plan(terminate=True)

    hook.look = look
    hooks(hook)
    serve(at(standin))
    standin.play(ASKS)
    answer = await http.post(path, json=asking(stream=stream, tools=TOOLS[path]))
    assert TOOL not in answer.text
    assert "tool_use" not in answer.text.replace("tool_use_id", "")
    assert "tool_calls" not in answer.text
    assert len(standin.exchanges) == 1


@own_door
async def test_a_rule_before_the_call_changes_or_refuses_it(http, standin, hooks, path, dialect, at):
    class Rule(BaseHook):
        async def pre_call(self, body, call):
            if "secret" in json.dumps(body["messages"]):
                return Refusal("Not with secrets.", status=403, code="no_secrets")
            return {**body, "max_tokens": 7}

    hooks(Rule())
    serve(at(standin))
    for stream in (False, True):
        answer = await http.post(path, json=asking(stream=stream))
        assert (answer.status_code, answer.headers["x-threadloom-rounds"]) == (200, "1")
        assert standin.exchanges[-1].json["max_tokens"] == 7
        assert standin.exchanges[-1].json.get("stream", False) is stream
    refused = await http.post(path, json=asking("a secret", stream=True))
    assert (refused.status_code, refused.json()["error"]["message"]) == (403, "Not with secrets.")
    assert len(standin.exchanges) == 2


@own_door
async def test_a_rule_behind_the_call_shapes_the_answer(http, standin, hooks, path, dialect, at):
    seen = []

    class Report(BaseHook):
        async def post_call(self, body, call):
            seen.append(body)
            return {**body, "checked": True}

    hooks(Report())
    serve(at(standin))
    assert (await http.post(path, json=asking())).json()["checked"] is True
    standin.play(FULL)
    answer = await http.post(path, json=asking(stream=True))
    assert answer.content == recorded(standin, dialect, FULL)
    assert "Grüße" in json.dumps(seen[1], ensure_ascii=False)


async def test_a_patch_to_another_model_goes_there_under_its_public_name(http, standin, hooks):
    class Bigger(BaseHook):
        async def look(self, turn, call):
            return (
                None
                if call.depth
                else Plan(run_agentic_loop=True, request_patch=Patch(model="bigger", max_tokens=50))
            )

    hooks(Bigger())
    endpoint = openai_at(standin)
    serve(endpoint, named={"bigger": [(endpoint, "stand-in-mini")]})
    answer = await http.post(CHAT, json=asking())
    assert answer.status_code == 200
    assert (standin.exchanges[-1].json["model"], standin.exchanges[-1].json["max_tokens"]) == (
        "stand-in-mini",
        50,
    )
    assert "stand-in-mini" not in answer.text


# -- time ----------------------------------------------------------------------------------------------------


@own_door
async def test_who_waits_for_a_hook_hears_pings(url, key, standin, hooks, path, dialect, at, monkeypatch):
    """It goes on when three were heard."""
    monkeypatch.setattr(relay, "PING_EVERY", 0.02)
    hook = Serves()
    hook.waits = asyncio.Event()
    hooks(hook)
    serve(at(standin))
    standin.play(ASKS, SAYS)
    ping, heard = '{"type":"ping"}' if path == MESSAGES else "\n: \n", ""
    headers, body = {"authorization": f"Bearer {key}"}, asking(stream=True, tools=TOOLS[path])
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream("POST", url + path, json=body, headers=headers) as answer,
    ):
        async for piece in answer.aiter_text():
            heard += piece
            if heard.count(ping) >= 3:
                hook.waits.set()
    assert "".join(re_text(httpx.Response(200, text=heard))) == "Let me see.It is one."


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_that_leaves_ends_the_hooks_and_the_reruns(url, key, standin, hooks, stream):
    looking, ended = asyncio.Event(), asyncio.Event()

    class Hangs(Serves):
        async def look(self, turn, call):
            looking.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    hooks(Hangs())
    serve(openai_at(standin))
    standin.play(ASKS)
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as sdk:

        async def ask():
            made = await sdk.chat.completions.create(
                model=MODEL, messages=asking()["messages"], tools=TOOLS[CHAT], stream=stream
            )
            async for _ in made:
                pass

        asked = asyncio.create_task(ask())
        await asyncio.wait_for(looking.wait(), 20)
        asked.cancel()
        await asyncio.wait({asked})
        await asyncio.wait_for(ended.wait(), 20)
    assert len(standin.exchanges) == 1


async def test_every_round_is_on_record_under_its_exchange(http, standin, hooks):
    hooks(Serves())
    serve(openai_at(standin))
    standin.play(ASKS, SAYS)
    answer = await http.post(CHAT, json=asking(tools=TOOLS[CHAT]))
    assert await asyncio.to_thread(recorder.flush, 30)
    exchange = await off_loop(lambda: Exchange.objects.get())
    rounds = await off_loop(lambda: list(exchange.rounds.order_by("pk")))
    assert exchange.request_id == answer.headers["x-request-id"]
    assert [(r.depth, r.status) for r in rounds] == [(0, 200), (1, 200)]
    assert rounds[1].asked_by
    assert (exchange.input_tokens, exchange.output_tokens) == (30, 12)
