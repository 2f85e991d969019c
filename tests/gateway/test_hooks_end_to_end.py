"""Hooks of both forms through the whole gateway: each dialect, at each kind of endpoint, streamed or not."""

from __future__ import annotations

import asyncio
import json

import anthropic
import openai
import pytest

from agent import relay
from agent.wire.sse import SSEParser
from chatsite.accounts.keys import new_api_key
from chatsite.accounts.models import ApiKey
from chatsite.gateway import hooked
from chatsite.gateway.hooks import AgenticLoopPlan, BaseHook, Patch, Plan, Refusal, rerun_with
from chatsite.gateway.hooks.loading import as_hook, loaded_hooks
from chatsite.gateway.models import Exchange
from chatsite.gateway.recorder import recorder
from tests.gateway.conftest import off_loop
from tests.gateway.litellm_hooks import TOOL, Decides, Declared, Documented, Everything, InChat, Older
from tests.gateway.served import CHAT, MESSAGES, MODEL, anthropic_at, asking, openai_at, serve
from tests.gateway.test_pass_on import FULL, recorded
from tests.standin import Broken, Raw, Say

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


def tool(dialect, name=TOOL):
    if dialect == "anthropic":
        return {"name": name, "input_schema": SCHEMA}
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


PATHS = {"openai": CHAT, "anthropic": MESSAGES}
ENDPOINTS = {"openai": openai_at, "anthropic": anthropic_at}
CALLS = Say("Let me look.", [("call_1", TOOL, {"q": "tea"})], usage=(10, 5))
MIXED = Say("Hm.", [("call_1", TOOL, {"q": "tea"}), ("call_2", "mine", {"q": "x"})], usage=(10, 5))
ANSWER = Say("Tea is green.", usage=(20, 6))

each_dialect = pytest.mark.parametrize("dialect", ["openai", "anthropic"])
each_endpoint = pytest.mark.parametrize("endpoint", ["openai", "anthropic"])
streamed_or_not = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def load(monkeypatch):
    def loader(*hooks):
        loaded = tuple(as_hook(f"tests.{type(hook).__name__}", hook) for hook in hooks)
        monkeypatch.setattr(hooked, "loaded_hooks", lambda: loaded)

    return loader


class Answer:
    """What the caller got, read as a client of its dialect reads it."""

    def __init__(self, dialect, response, stream):
        self.raw = response.content
        self.status = response.status_code
        self.rounds = response.headers.get("x-threadloom-rounds")
        events = SSEParser().feed(self.raw) if stream else []
        self.values = [json.loads(event.data) for event in events if event.data != "[DONE]"]
        read = {"openai": self._chat, "anthropic": self._message}[dialect]
        self.text, self.calls, self.reason, self.usage = read(response.json() if not stream else None)

    def _message(self, whole):
        if whole is None:
            blocks = [dict(v["content_block"]) for v in self.values if v["type"] == "content_block_start"]
            for value in self.values:
                if value["type"] == "content_block_delta":
                    block, delta = blocks[value["index"]], value["delta"]
                    for key, item in (("text", delta.get("text")), ("json", delta.get("partial_json"))):
                        if item is not None:
                            block[key] = block.get(key, "") + item
            ends = [value for value in self.values if value["type"] == "message_delta"]
            whole = {
                "content": blocks,
                "stop_reason": ends[-1]["delta"]["stop_reason"],
                "usage": ends[-1]["usage"],
            }
        text = "".join(block["text"] for block in whole["content"] if block["type"] == "text")
        calls = [block["name"] for block in whole["content"] if block["type"] == "tool_use"]
        reason = {"end_turn": "stop", "tool_use": "tool_calls"}[whole["stop_reason"]]
        return text, calls, reason, (whole["usage"].get("input_tokens"), whole["usage"]["output_tokens"])

    def _chat(self, whole):
        if whole is None:
            choices = [choice for value in self.values for choice in value["choices"]]
            text = "".join(choice["delta"].get("content") or "" for choice in choices)
            entries = [entry for choice in choices for entry in choice["delta"].get("tool_calls") or ()]
            calls = [entry["function"]["name"] for entry in entries if entry["function"].get("name")]
            [reason] = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
            counts = [value["usage"] for value in self.values if value.get("usage")]
            usage = counts[-1] if counts else {}
        else:
            [choice] = whole["choices"]
            text, reason = choice["message"]["content"] or "", choice["finish_reason"]
            calls = [call["function"]["name"] for call in choice["message"].get("tool_calls") or ()]
            usage = whole["usage"]
        return text, calls, reason, (usage.get("prompt_tokens"), usage.get("completion_tokens"))


async def post(http, dialect, *names, stream=False, headers=None, **more):
    tools = [tool(dialect, name) for name in names or (TOOL,)]
    body = asking("tea?", tools=tools, stream=stream, temperature=0.5, **more)
    if stream and dialect == "openai":
        body["stream_options"] = {"include_usage": True}
    return await http.post(PATHS[dialect], json=body, headers=headers or {})


async def answer(http, dialect, *names, **more):
    response = await post(http, dialect, *names, **more)
    assert response.status_code == 200, response.text
    return Answer(dialect, response, more.get("stream", False))


class Watches(BaseHook):
    """Looks at everything and wants nothing."""

    async def look(self, turn, call):
        return None


class Finder(BaseHook):
    serves = frozenset({TOOL})

    def __init__(self):
        self.ran = []

    async def look(self, turn, call):
        calls = await self.claims(turn, call)
        self.ran += [each.arguments for each in calls]
        return rerun_with(turn, {each.id: f"result for {each.arguments}" for each in calls}, call)


# -- a tool that is fulfilled on the way ---------------------------------------------------------------------


@each_dialect
@each_endpoint
@streamed_or_not
@pytest.mark.parametrize("kind", [Finder, Declared, Documented])
async def test_a_tool_is_fulfilled_on_the_way(http, standin, load, dialect, endpoint, stream, kind):
    hook = kind()
    load(hook)
    serve(ENDPOINTS[endpoint](standin))
    standin.play(CALLS, ANSWER)
    response = await post(http, dialect, stream=stream)
    assert response.status_code == 200
    assert hook.ran == [{"q": "tea"}]
    first, second = (exchange.json for exchange in standin.exchanges)
    assert (second["max_tokens"], second["temperature"], len(second["tools"])) == (100, 0.5, 1)
    assert "result for {'q': 'tea'}" in json.dumps(second["messages"])
    assert first["messages"] == second["messages"][:1]


@each_dialect
@each_endpoint
@streamed_or_not
async def test_the_caller_gets_one_answer_with_the_usage_of_all_rounds(
    http, standin, load, dialect, endpoint, stream
):
    load(Finder())
    serve(ENDPOINTS[endpoint](standin))
    standin.play(CALLS, ANSWER)
    got = await answer(http, dialect, stream=stream)
    assert got.text == ("Let me look.Tea is green." if stream else "Tea is green.")
    assert (got.calls, got.reason, got.usage) == ([], "stop", (30, 11))
    assert b"call_1" not in got.raw
    assert got.rounds == (None if stream else "2")
    assert got.raw.count(b": x-threadloom-rounds 2\n\n") == stream
    if stream and dialect == "anthropic":
        kinds = [value["type"] for value in got.values]
        assert [kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop")] == [1, 1, 1]
        starts = [value["index"] for value in got.values if value["type"] == "content_block_start"]
        assert starts == list(range(len(starts)))
    if stream and dialect == "openai":
        assert len({value["id"] for value in got.values}) == 1
        assert got.raw.count(b"[DONE]") == 1


@each_endpoint
@pytest.mark.parametrize(
    ("kind", "header", "messages"),
    [
        (Documented, None, 2),
        (Documented, "single", 1),
        (Documented, "append", 2),
        (Declared, None, 1),
        (Declared, "append", 2),
    ],
)
async def test_a_streamed_message_is_one_or_several_as_asked(
    http, standin, load, endpoint, kind, header, messages
):
    load(kind())
    serve(ENDPOINTS[endpoint](standin))
    standin.play(CALLS, ANSWER)
    response = await post(
        http, "anthropic", stream=True, headers={"x-agentic-stream": header} if header else {}
    )
    assert response.content.count(b"event: message_start") == messages
    assert response.content.count(b"event: message_stop") == messages
    assert (b"call_1" in response.content) is (messages == 2)
    assert b"reen." in response.content


async def test_another_word_in_that_header_is_refused(http, standin, load):
    load(Declared())
    serve(anthropic_at(standin))
    response = await post(http, "anthropic", headers={"x-agentic-stream": "both"})
    assert response.status_code == 400
    assert "single or append" in response.json()["error"]["message"]


# -- a hook that does nothing --------------------------------------------------------------------------------


@each_dialect
@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
async def test_behind_a_hook_that_does_nothing_a_stream_passes_byte_for_byte(
    http, standin, load, dialect, size
):
    load(Watches())
    serve(ENDPOINTS[dialect](standin))
    whole = recorded(standin, dialect, FULL)
    standin.play(Raw([whole[i : i + size] for i in range(0, len(whole), size)]))
    response = await post(http, dialect, "get_weather", stream=True)
    assert response.content == whole
    assert "x-threadloom-rounds" not in response.headers


@each_dialect
async def test_and_so_does_an_answer_in_one_piece(http, standin, load, dialect):
    load(Watches())
    serve(ENDPOINTS[dialect](standin))
    standin.play(FULL)
    response = await post(http, dialect, "get_weather")
    assert response.content == recorded(standin, dialect, FULL, stream=False)
    assert response.headers["x-threadloom-rounds"] == "1"


@each_dialect
@streamed_or_not
async def test_a_hook_that_does_not_want_the_request_is_not_even_copied_for(
    http, standin, load, dialect, stream
):
    load(Finder())
    serve(ENDPOINTS[dialect](standin))
    standin.play(FULL)
    response = await post(http, dialect, "get_weather", stream=stream)
    assert response.content == recorded(standin, dialect, FULL, stream=stream)


# -- plans ---------------------------------------------------------------------------------------------------

OVERRIDES = {
    "anthropic": {
        "id": "msg_mine",
        "type": "message",
        "role": "assistant",
        "model": "mine",
        "content": [{"type": "text", "text": "Mine."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    "openai": {
        "id": "mine",
        "object": "chat.completion",
        "created": 1,
        "model": "mine",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Mine."}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
}


@each_dialect
async def test_an_answer_in_the_place_of_the_models_goes_out_as_it_is(http, standin, load, dialect):
    serve(ENDPOINTS[dialect](standin))
    for given in (OVERRIDES[dialect], {}):
        load(Decides(AgenticLoopPlan(response_override=given)))
        standin.play(CALLS)
        assert (await post(http, dialect)).json() == given


@each_dialect
@pytest.mark.parametrize("header", ["single", "append"])
async def test_and_streamed_too(http, standin, load, dialect, header):
    serve(ENDPOINTS[dialect](standin))
    load(Decides(AgenticLoopPlan(response_override=OVERRIDES[dialect])))
    standin.play(CALLS)
    response = await post(http, dialect, stream=True, headers={"x-agentic-stream": header})
    got = Answer(dialect, response, True) if header == "single" or dialect == "openai" else None
    assert b"Mine." in response.content
    if got is not None:
        assert (got.text, got.calls, got.reason) == ("Let me look.Mine.", [], "stop")
        assert b"call_1" not in response.content


@each_dialect
@streamed_or_not
async def test_an_end_sends_the_answer_without_the_claimed_calls(http, standin, load, dialect, stream):
    load(Decides(AgenticLoopPlan(terminate=True)))
    serve(ENDPOINTS[dialect](standin))
    standin.play(CALLS)
    got = await answer(http, dialect, stream=stream, headers={"x-agentic-stream": "single"})
    assert (got.text, got.calls, got.reason, len(standin.exchanges)) == ("Let me look.", [], "stop", 1)


@streamed_or_not
async def test_model_and_limit_of_a_patch_reach_the_endpoint(http, standin, load, stream):
    load(InChat())
    endpoint = openai_at(standin)
    serve(endpoint, named={MODEL: [(endpoint, MODEL)], "bigger": [(endpoint, "stand-in-big")]})
    standin.play(CALLS, ANSWER)
    got = await answer(http, "openai", stream=stream)
    second = standin.exchanges[-1].json
    assert (second["model"], second["max_tokens"], second["temperature"]) == ("stand-in-big", 50, 0)
    assert got.text.endswith("Tea is green.")
    assert b"stand-in-big" not in got.raw


METHODS = {
    "anthropic": ("async_should_run_agentic_loop", "async_build_agentic_loop_plan"),
    "openai": (
        "async_should_run_chat_completion_agentic_loop",
        "async_build_chat_completion_agentic_loop_plan",
    ),
}


@each_dialect
@streamed_or_not
async def test_litellms_methods_are_called_in_their_order_with_their_arguments(
    http, standin, load, dialect, stream
):
    hook = Everything(
        model="bigger", max_tokens=50, optional_params={"temperature": 0}, kwargs={"mine": 2}, tools=[]
    )
    load(hook)
    endpoint = ENDPOINTS[dialect](standin)
    serve(endpoint, named={"bigger": [(endpoint, "stand-in-big")]})
    standin.play(CALLS, ANSWER)
    got = await answer(http, dialect, stream=stream)
    assert (got.calls, got.reason, got.text.endswith("Tea is green.")) == ([], "stop", True)

    gate, plan = METHODS[dialect]
    post, cleanup = "async_post_agentic_loop_response_hook", "async_agentic_loop_cleanup_hook"
    assert [method for method, _ in hook.given] == [gate, plan, gate, post, cleanup]
    asked, planned, again, shaped, cleaned = (given for _, given in hook.given)
    for given in (asked, planned):
        assert (given["model"], given["stream"]) == (MODEL, stream)
        assert given["messages"] == [{"role": "user", "content": "tea?"}]
    assert (asked["tools"], asked["custom_llm_provider"]) == ([tool(dialect)], dialect)
    rest = planned.get("optional_params") or planned["anthropic_messages_optional_request_params"]
    assert (rest["max_tokens"], rest["temperature"], rest["tools"]) == (100, 0.5, [tool(dialect)])
    assert planned["tools"]["tool_calls"][0]["id"] == "call_1"
    assert planned["logging_obj"].litellm_call_id == planned["kwargs"]["litellm_call_id"]
    assert [given["kwargs"]["_agentic_loop_depth"] for given in (asked, again, shaped, cleaned)] == [
        0,
        1,
        1,
        1,
    ]
    assert (again["model"], again["kwargs"]["mine"]) == ("bigger", 2)
    assert "green" in json.dumps(shaped["response"])
    assert shaped["plan"].metadata == cleaned["plan"].metadata == {"mine": 1}

    second = standin.exchanges[-1].json
    assert (second["model"], second["max_tokens"], second["temperature"]) == ("stand-in-big", 50, 0)
    assert "tools" not in second
    assert "found" in json.dumps(second["messages"])
    assert b"stand-in-big" not in got.raw


@each_dialect
@streamed_or_not
async def test_what_litellms_older_form_returns_is_the_answer_and_none_keeps_the_one_there_is(
    http, standin, load, dialect, stream
):
    serve(ENDPOINTS[dialect](standin))
    single = {"x-agentic-stream": "single"}
    hook = Older(OVERRIDES[dialect])
    load(hook)
    standin.play(CALLS)
    got = await answer(http, dialect, stream=stream, headers=single)
    assert (got.text, got.calls) == ("Let me look.Mine." if stream else "Mine.", [])
    kind = "_chat_completion" if dialect == "openai" else ""
    assert hook.given == [f"async_run{kind}_agentic_loop"]
    load(Older(None))
    standin.play(CALLS)
    kept = await answer(http, dialect, stream=stream, headers=single)
    assert (kept.text, kept.calls) == ("Let me look.", [TOOL])
    assert len(standin.exchanges) == 2


@each_dialect
@streamed_or_not
async def test_a_mixed_turn_keeps_the_callers_call_and_leaves_no_orphan(http, standin, load, dialect, stream):
    hook = Finder()
    load(hook)
    serve(ENDPOINTS[dialect](standin))
    standin.play(MIXED)
    got = await answer(http, dialect, TOOL, "mine", stream=stream)
    assert (got.text, got.calls, got.reason, hook.ran) == ("Hm.", ["mine"], "tool_calls", [])
    assert b"call_1" not in got.raw


@each_dialect
@each_endpoint
@streamed_or_not
async def test_a_model_that_calls_for_ever_ends_with_words(http, standin, load, dialect, endpoint, stream):
    load(Finder())
    serve(ENDPOINTS[endpoint](standin))
    standin.play(*(Say("", [(f"call_{n}", TOOL, {"q": n})]) for n in range(4)), Say("That is all."))
    got = await answer(http, dialect, stream=stream)
    assert (got.text, got.calls, got.reason) == ("That is all.", [], "stop")
    bodies = [exchange.json for exchange in standin.exchanges]
    assert len(bodies) == 5
    last = bodies[-1]
    assert last.get("tool_choice") in ({"type": "none"}, "none") or "tools" not in last
    assert "limit of tool rounds" in json.dumps(last["messages"])


@each_dialect
@streamed_or_not
async def test_a_model_that_calls_even_then_is_asked_no_more(http, standin, load, dialect, stream):
    load(Finder())
    serve(ENDPOINTS[dialect](standin))
    standin.play(*(Say("", [(f"call_{n}", TOOL, {"q": "same"})]) for n in range(4)))
    got = await answer(http, dialect, stream=stream)
    assert got.calls == []
    assert "answered already" in got.text
    assert len(standin.exchanges) == 3


@each_dialect
async def test_a_forced_choice_is_obeyed_once(http, standin, load, dialect):
    load(Finder())
    serve(ENDPOINTS[dialect](standin))
    standin.play(CALLS, ANSWER)
    forced = {"openai": "required", "anthropic": {"type": "any"}}[dialect]
    await answer(http, dialect, tool_choice=forced)
    first, second = (exchange.json for exchange in standin.exchanges)
    assert (first["tool_choice"], "tool_choice" in second) == (forced, False)


@each_dialect
async def test_a_caller_cannot_set_the_loops_own_fields(http, standin, load, dialect):
    load(Finder())
    serve(ENDPOINTS[dialect](standin))
    standin.play(*(Say("", [(f"call_{n}", TOOL, {"q": n})]) for n in range(4)), ANSWER)
    await answer(http, dialect, max_agentic_loops=99, _agentic_loop_depth=-50)
    assert len(standin.exchanges) == 5
    assert not [key for each in standin.exchanges for key in each.json if "agentic" in key]


# -- rules ---------------------------------------------------------------------------------------------------


class Sundays(BaseHook):
    async def pre_call(self, body, call):
        if "tea" in json.dumps(body):
            return Refusal("No tea on Sundays.", 403)
        return body | {"temperature": 0.125, "stream": not call.stream}

    async def post_call(self, body, call):
        return body | {"checked": True}


@each_dialect
@streamed_or_not
async def test_a_rule_refuses_with_its_reason_in_the_callers_dialect(http, standin, load, dialect, stream):
    load(Sundays())
    serve(ENDPOINTS[dialect](standin))
    response = await post(http, dialect, stream=stream)
    assert response.status_code == 403
    assert response.json()["error"]["message"] == "No tea on Sundays."
    assert response.json().get("type") == ("error" if dialect == "anthropic" else None)
    assert standin.exchanges == []


@each_dialect
async def test_a_rule_changes_the_request_and_the_answer_but_not_how_it_is_sent(http, standin, load, dialect):
    load(Sundays())
    serve(ENDPOINTS[dialect](standin))
    response = await http.post(PATHS[dialect], json=asking("milk?"))
    assert response.json()["checked"] is True
    assert standin.exchanges[0].json["temperature"] == 0.125
    assert not standin.exchanges[0].json.get("stream")
    response = await http.post(PATHS[dialect], json=asking("milk?", stream=True))
    assert standin.exchanges[1].json["stream"] is True


# -- hooks that fail -----------------------------------------------------------------------------------------


class Raises(Finder):
    async def look(self, turn, call):
        raise RuntimeError("the secret is 42")


class Hangs(Finder):
    timeout = 0.1

    async def look(self, turn, call):
        await asyncio.Event().wait()


class ElsewhereModel(Finder):
    async def look(self, turn, call):
        return Plan(run_agentic_loop=True, request_patch=Patch(model="nowhere"))


@each_dialect
@streamed_or_not
@pytest.mark.parametrize("kind", [Raises, Hangs, ElsewhereModel])
async def test_a_hook_that_fails_leaves_the_call_to_the_caller(
    http, standin, load, dialect, stream, kind, caplog
):
    load(kind())
    serve(ENDPOINTS[dialect](standin))
    standin.play(CALLS)
    got = await answer(http, dialect, stream=stream)
    assert (got.text, got.calls, got.reason) == ("Let me look.", [TOOL], "tool_calls")
    assert b"the secret" not in got.raw
    assert kind.__name__ in caplog.text
    assert len(standin.exchanges) == 1


@each_dialect
@streamed_or_not
async def test_no_hook_opens_a_model_that_the_key_may_not_use(http, standin, load, dialect, stream, caplog):
    hook = Everything(model="bigger")
    load(hook)
    endpoint = ENDPOINTS[dialect](standin)
    serve(endpoint, named={"bigger": [(endpoint, "stand-in-big")]})
    await off_loop(lambda: ApiKey.objects.update(allowed_models=[MODEL]))
    standin.play(CALLS)
    got = await answer(http, dialect, stream=stream)
    assert (got.text, got.calls, len(standin.exchanges)) == ("Let me look.", [TOOL], 1)
    assert "Everything: the patch's model is of no use: str 'bigger'" in caplog.text


class Upgrades(BaseHook):
    async def pre_call(self, body, call):
        return body | {"model": "bigger", "temperature": 0.125}


@each_dialect
@streamed_or_not
async def test_nor_does_a_rule_and_what_else_it_changed_holds(
    http, person, standin, load, dialect, stream, caplog
):
    load(Upgrades())
    endpoint = ENDPOINTS[dialect](standin)
    serve(endpoint, named={"bigger": [(endpoint, "stand-in-big")]})
    await answer(http, dialect, stream=stream)
    narrow = await off_loop(lambda: new_api_key(person, allowed_models=[MODEL]))
    await answer(http, dialect, stream=stream, headers={"authorization": f"Bearer {narrow}"})
    sent = [(each.json["model"], each.json["temperature"]) for each in standin.exchanges]
    assert sent == [("stand-in-big", 0.125), (MODEL, 0.125)]
    assert "Upgrades: the request's model is of no use: str 'bigger'" in caplog.text


class Brings(Raises):
    async def pre_call(self, body, call):
        return body | {"tools": [tool(call.dialect)]}


@each_dialect
@streamed_or_not
async def test_a_tool_that_only_a_failing_hook_knows_never_reaches_the_caller(
    http, standin, load, dialect, stream
):
    load(Brings())
    serve(ENDPOINTS[dialect](standin))
    standin.play(CALLS, Say("Without it, then."))
    got = await answer(http, dialect, "mine", stream=stream)
    assert (got.calls, got.reason) == ([], "stop")
    assert got.text.endswith("Without it, then.")
    assert b"call_1" not in got.raw


# -- rounds that fail, callers that leave --------------------------------------------------------------------


@each_dialect
async def test_a_rerun_that_fails_is_an_error(http, standin, load, dialect):
    load(Finder())
    serve(ENDPOINTS[dialect](standin))
    standin.play(CALLS, Broken("400"))
    response = await post(http, dialect)
    assert response.status_code == 400
    assert response.json()["error"]["message"]


@each_dialect
async def test_and_in_a_stream_an_error_inside_it(http, standin, load, dialect):
    load(Finder())
    serve(ENDPOINTS[dialect](standin))
    standin.play(CALLS, Broken("cut"))
    response = await post(http, dialect, stream=True)
    assert b'"error"' in response.content
    assert b"[DONE]" not in response.content
    assert b"message_stop" not in response.content


class Waits(Finder):
    """Says when it began, and when it was stopped; goes on when told to."""

    def __init__(self):
        super().__init__()
        self.began, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def look(self, turn, call):
        self.began.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return await super().look(turn, call)

    async def cleanup(self, plan, call):
        self.ran.append("cleaned")


@each_dialect
@streamed_or_not
async def test_when_the_caller_leaves_the_hook_stops_and_nothing_is_run_again(
    url, key, standin, load, dialect, stream
):
    hook = Waits()
    load(hook)
    serve(ENDPOINTS[dialect](standin))
    standin.play(CALLS)
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    body = json.dumps(asking("tea?", tools=[tool(dialect)], stream=stream)).encode()
    head = f"POST {PATHS[dialect]} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    try:
        await asyncio.wait_for(hook.began.wait(), 20)
    finally:
        writer.close()
    await asyncio.wait_for(hook.stopped.wait(), 20)
    assert len(standin.exchanges) == 1


@each_dialect
async def test_pings_go_out_while_a_hook_is_silent(url, key, standin, load, dialect, monkeypatch):
    monkeypatch.setattr(relay, "PING_EVERY", 0.02)
    hook = Waits()
    load(hook)
    serve(ENDPOINTS[dialect](standin))
    standin.play(CALLS, ANSWER)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    body = json.dumps(asking("tea?", tools=[tool(dialect)], stream=True)).encode()
    head = (
        f"POST {PATHS[dialect]} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
    )
    writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    try:
        await asyncio.wait_for(hook.began.wait(), 20)
        seen = b""
        while seen.count(relay.PINGS[dialect]) < 3:
            seen += await asyncio.wait_for(reader.read(4096), 20)
        hook.go.set()
        seen += await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
    assert b"reen." in seen


# -- the real SDKs -------------------------------------------------------------------------------------------


@each_endpoint
async def test_openais_stream_helper_reads_the_joined_stream(url, key, standin, load, endpoint):
    load(Finder())
    serve(ENDPOINTS[endpoint](standin))
    standin.play(CALLS, ANSWER)
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30) as sdk,
        sdk.chat.completions.stream(
            model=MODEL,
            messages=[{"role": "user", "content": "tea?"}],
            tools=[tool("openai")],
            stream_options={"include_usage": True},
        ) as stream,
    ):
        kinds = [event.type async for event in stream]
        made = await stream.get_final_completion()
    [choice] = made.choices
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == (
        "Let me look.Tea is green.",
        None,
        "stop",
    )
    assert made.usage.total_tokens == 41
    assert "tool_calls.function.arguments.done" not in kinds


@each_endpoint
async def test_anthropics_stream_helper_reads_the_joined_stream(url, key, standin, load, endpoint):
    load(Finder())
    serve(ENDPOINTS[endpoint](standin))
    standin.play(Say("Let me look.", CALLS.calls, "Hm.", usage=(10, 5)), ANSWER)
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0, timeout=30) as sdk,
        sdk.messages.stream(
            model=MODEL,
            max_tokens=100,
            messages=[{"role": "user", "content": "tea?"}],
            tools=[tool("anthropic")],
        ) as stream,
    ):
        text = "".join([piece async for piece in stream.text_stream])
        made = await stream.get_final_message()
    assert text == "Let me look.Tea is green."
    assert [block.type for block in made.content] == ["thinking", "text", "text"]
    assert (made.stop_reason, made.usage.input_tokens, made.usage.output_tokens) == ("end_turn", 30, 11)


@each_endpoint
async def test_both_sdks_read_calls_of_their_own_that_no_hook_takes(url, key, standin, load, endpoint):
    load(Finder(), Watches())
    serve(ENDPOINTS[endpoint](standin))
    standin.play(MIXED, MIXED)
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0, timeout=30) as sdk,
        sdk.messages.stream(
            model=MODEL,
            max_tokens=100,
            messages=[{"role": "user", "content": "tea?"}],
            tools=[tool("anthropic"), tool("anthropic", "mine")],
        ) as stream,
    ):
        made = await stream.get_final_message()
    assert [(block.type, getattr(block, "input", None)) for block in made.content] == [
        ("text", None),
        ("tool_use", {"q": "x"}),
    ]
    assert made.stop_reason == "tool_use"
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30) as sdk,
        sdk.chat.completions.stream(
            model=MODEL,
            messages=[{"role": "user", "content": "tea?"}],
            tools=[tool("openai"), tool("openai", "mine")],
        ) as stream,
    ):
        made = await stream.get_final_completion()
    [choice] = made.choices
    [call] = choice.message.tool_calls
    assert (call.id, call.function.name, json.loads(call.function.arguments)) == (
        "call_2",
        "mine",
        {"q": "x"},
    )
    assert choice.finish_reason == "tool_calls"


# -- what is noted, and how hooks come in --------------------------------------------------------------------


async def test_each_round_is_noted_with_the_hook_that_asked_for_it(http, standin, load):
    load(Finder())
    serve(openai_at(standin))
    standin.play(CALLS, ANSWER)
    await answer(http, "openai")

    def rows():
        assert recorder.flush(30)
        made = Exchange.objects.get()
        return made, list(made.rounds.order_by("number").values_list("depth", "asked_by", "input_tokens"))

    made, rounds = await off_loop(rows)
    assert rounds == [(0, "", 10), (1, "Finder", 20)]
    assert (made.input_tokens, made.output_tokens) == (30, 11)


async def test_a_hook_is_a_file_in_the_data_folder(http, standin, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    (tmp_path / "hooks").mkdir()
    text = """
from chatsite.gateway.hooks import BaseHook

class Shouts(BaseHook):
    async def post_call(self, body, call):
        body["choices"][0]["message"]["content"] = body["choices"][0]["message"]["content"].upper()
        return body

shouts = Shouts()
"""
    (tmp_path / "hooks" / "hook_in_the_data_folder.py").write_text(text)
    settings.GATEWAY_HOOKS = ["hook_in_the_data_folder.shouts"]
    loaded_hooks.cache_clear()
    try:
        serve(openai_at(standin))
        standin.play(ANSWER)
        assert (await answer(http, "openai")).text == "TEA IS GREEN."
    finally:
        loaded_hooks.cache_clear()


async def test_the_loop_ends_at_the_rail_of_the_key(http, standin, load, key, monkeypatch):
    monkeypatch.setattr(hooked, "setting", lambda name: {"GATEWAY_MAX_RERUNS": 1}.get(name))
    load(Finder())
    serve(openai_at(standin))
    standin.play(Say("", [("c1", TOOL, {"q": 1})]), Say("", [("c2", TOOL, {"q": 2})]), ANSWER)
    assert (await answer(http, "openai")).text == "Tea is green."
    assert len(standin.exchanges) == 3


@each_dialect
@streamed_or_not
async def test_a_tool_of_the_server_is_run_for_who_asks_for_it(http, standin, dialect, stream):
    serve(ENDPOINTS[dialect](standin))
    ask = {"type": "threadloom", "name": "get_weather"}
    body = asking("How is the weather in Oslo?", tools=[ask], stream=stream)
    response = await http.post(PATHS[dialect], json=body)
    assert response.status_code == 200
    first, second = (exchange.json for exchange in standin.exchanges)
    assert "threadloom" not in json.dumps(first)
    assert "temperature" in json.dumps(second["messages"])
    assert b"call_w1" not in response.content


@each_dialect
@pytest.mark.parametrize("depth", [150, 600, 5000])
async def test_a_body_that_nests_deep_is_no_internal_error(http, standin, load, dialect, depth):
    load(Watches())
    serve(ENDPOINTS[dialect](standin))
    deep = "[" * depth + "]" * depth
    body = json.dumps(asking("tea?"))[:-1] + f', "deep": {deep}}}'
    response = await http.post(PATHS[dialect], content=body)
    assert response.status_code in (200, 400)
    assert response.status_code == 200 or response.json()["error"]["message"]


class HoldsItself(BaseHook):
    """Gives what has no end as its JSON."""

    def __init__(self, where):
        self.where = where

    async def pre_call(self, body, call):
        body["more"] = body
        return body if self.where == "body" else None

    async def look(self, turn, call):
        endless = {}
        endless["more"] = [endless, endless]
        if self.where == "answer":
            return Plan(response_override={**(call.response or {}), "more": endless})
        patch = Patch(messages=call.messages, optional_params={"metadata": endless}, kwargs={"mine": endless})
        return Plan(run_agentic_loop=True, request_patch=patch) if self.where == "patch" else None


@each_dialect
@streamed_or_not
@pytest.mark.parametrize("where", ["body", "answer", "patch"])
async def test_json_of_a_hook_that_holds_itself_does_not_hold_up_the_server(
    http, standin, load, dialect, stream, where
):
    load(HoldsItself(where))
    serve(ENDPOINTS[dialect](standin))
    async with asyncio.timeout(30):
        response = await http.post(PATHS[dialect], json=asking("tea?", stream=stream))
    assert response.status_code == 200


@each_dialect
@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": "hello"},
        {"messages": [5]},
        {"messages": []},
        {"messages": [{"role": "user", "content": 5}]},
        {"tools": "find"},
        {"tools": [5, None, {"function": 5}]},
        {"stream_options": 5},
    ],
    ids=json.dumps,
)
async def test_a_malformed_body_is_the_endpoints_to_judge(http, standin, load, dialect, wrong):
    load(Watches(), Finder(), Documented())
    serve(ENDPOINTS[dialect](standin))
    standin.play(Raw([recorded(standin, dialect, ANSWER, stream=False)], content_type="application/json"))
    response = await http.post(PATHS[dialect], json=asking("tea?") | wrong)
    assert response.status_code in (200, 400)
