"""Hooks in LiteLLM's form, asked as the relay asks them, on both protocols."""

import inspect
import json

import pytest

from agent.asking import Asking
from agent.events import TurnEnd
from agent.messages import Message, TextPart, ToolCallPart, Usage
from agent.rerun import Refusal, RelayContext, turn_of
from agent.wire import anthropic, openai_chat
from chatsite.gateway.hooks import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger
from chatsite.gateway.hooks.litellm_form import LiteLLMHook
from tests.gateway.litellm_hooks import TOOL, Decides, Declared, Documented, InChat, Older

CODECS = {"anthropic": anthropic, "openai": openai_chat}
TOOLS = {
    "anthropic": [{"name": TOOL, "input_schema": {"type": "object"}}],
    "openai": [{"type": "function", "function": {"name": TOOL, "parameters": {"type": "object"}}}],
}
both = pytest.mark.parametrize("dialect", ["openai", "anthropic"])


def request(dialect, **fields):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "tea?"}]}
    body |= {"tools": TOOLS[dialect], "temperature": 0.5}
    return RelayContext(
        dialect=dialect,
        model="m",
        body=body,
        request_id="req_1",
        exchange_id="x_1",
        key_label="Ann's",
        provider="openai",
        **fields,
    )


class Loop:
    """One request's rounds, without the network."""

    def __init__(self, dialect, *hooks, **fields):
        self.dialect = dialect
        self.asking = Asking([LiteLLMHook(hook) for hook in hooks], request(dialect, **fields))

    async def ask(self, *calls, text="Hm."):
        parts = ([TextPart(text)] if text else []) + [
            ToolCallPart(id, name, arguments) for id, name, arguments in calls
        ]
        message = Message("a", "assistant", tuple(parts))
        end = TurnEnd("tool_calls" if calls else "stop", Usage(3, 4))
        response = CODECS[self.dialect].encode_response(message, end, id="r", model="m", created=1)
        return await self.asking.ask(turn_of(message, end, "m"), response)


CALL = ("c1", TOOL, '{"q": "tea"}')
OTHER = ("c2", "mine", "{}")


@both
@pytest.mark.parametrize("kind", [Documented, Declared])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_documented_hook_fulfils_its_tool_on_both_protocols(dialect, kind, stream):
    hook = kind()
    decision = await Loop(dialect, hook, stream=stream).ask(CALL)
    assert (decision.action, decision.hook, decision.calls) == ("rerun", kind.__name__, {"c1"})
    assert hook.ran == [{"q": "tea"}]
    body = decision.call.body
    assert {key: body[key] for key in ("max_tokens", "temperature", "tools")} == {
        "max_tokens": 9,
        "temperature": 0.5,
        "tools": TOOLS[dialect],
    }
    asked, told = body["messages"][1:]
    if dialect == "openai":
        assert asked["tool_calls"][0]["function"] == {"name": TOOL, "arguments": '{"q":"tea"}'}
        assert told == {"role": "tool", "tool_call_id": "c1", "content": "result for {'q': 'tea'}"}
    else:
        assert asked["content"][0]["input"] == {"q": "tea"}
        assert told["content"][0]["content"] == "result for {'q': 'tea'}"


@both
async def test_a_turn_without_its_tool_is_the_callers(dialect):
    assert (await Loop(dialect, Documented()).ask(OTHER)).action == "keep"
    assert (await Loop(dialect, Documented()).ask()).action == "keep"


@both
async def test_a_mixed_turn_keeps_the_callers_call_and_runs_nothing(dialect):
    hook = Documented()
    decision = await Loop(dialect, hook).ask(CALL, OTHER)
    assert (decision.action, decision.calls, hook.ran) == ("strip", {"c1"}, [])


async def test_a_hook_for_chat_is_asked_on_chat_alone():
    assert Loop("anthropic", InChat()).asking.hooks == ()
    decision = await Loop("openai", InChat()).ask(CALL)
    body = decision.call.body
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("bigger", 50, 0)
    assert [entry["role"] for entry in body["messages"]] == ["user", "assistant", "tool"]
    assert body["messages"][1]["content"] == "Hm."


@both
async def test_an_answer_in_the_place_of_the_models_is_given_as_it_is(dialect):
    for given in ({"mine": True}, {}):
        plan = AgenticLoopPlan(response_override=given)
        decision = await Loop(dialect, Decides(plan)).ask(CALL)
        assert (decision.action, decision.response) == ("answer", given)


@both
async def test_an_end_leaves_the_claimed_calls_out_and_asks_nobody_else(dialect):
    later = Decides(AgenticLoopPlan())
    decision = await Loop(dialect, Decides(AgenticLoopPlan(terminate=True)), later).ask(CALL)
    assert (decision.action, decision.calls, later.seen) == ("strip", {"c1"}, [])


@both
async def test_the_last_answer_goes_through_the_hook_that_asked_for_it(dialect):
    patch = AgenticLoopRequestPatch(messages=[{"role": "user", "content": "again"}])
    hook = Decides(AgenticLoopPlan(run_agentic_loop=True, request_patch=patch, metadata={"by": "me"}))
    loop = Loop(dialect, hook)
    await loop.ask(CALL)
    assert await loop.asking.finish({"id": "r"}) == {"id": "r", "shaped_by": "me"}
    await loop.asking.close()
    assert hook.seen[-1] == "cleaned up"


@both
async def test_kwargs_say_where_the_loop_stands_and_hold_no_secret(dialect, settings):
    settings.OPENAI_API_KEY = "sk-secret"
    patch = AgenticLoopRequestPatch(kwargs={"mine": 1, "max_agentic_loops": 99, "_agentic_loop_depth": -1})
    hook = Decides(AgenticLoopPlan(run_agentic_loop=True, request_patch=patch))
    loop = Loop(dialect, hook)
    await loop.ask(text="one")
    await loop.ask(text="two")
    surface = {"openai": "chat_completions", "anthropic": "anthropic_messages"}[dialect]
    first, second = hook.seen
    assert first == {
        "_agentic_loop_depth": 0,
        "max_agentic_loops": 3,
        "_agentic_loop_fingerprints": [],
        "_agentic_loop_api_surface": surface,
        "custom_llm_provider": "openai",
        "litellm_call_id": "x_1",
        "litellm_metadata": {"user_api_key_alias": "Ann's"},
    }
    assert second == first | {"_agentic_loop_depth": 1, "mine": 1}
    assert "secret" not in json.dumps(hook.seen)


@both
async def test_what_a_gate_leaves_in_kwargs_is_there_for_the_plan(dialect):
    class Leaves(CustomLogger):
        async def async_should_run_agentic_loop(self, kwargs, **rest):
            kwargs["_mine"] = "left"
            return True, {}

        async def async_build_agentic_loop_plan(self, kwargs, **rest):
            return AgenticLoopPlan(response_override={"found": kwargs.get("_mine")})

    assert (await Loop(dialect, Leaves()).ask()).response == {"found": "left"}


# -- the older form, and mixed classes -----------------------------------------------------------------------


class OlderInChat(CustomLogger):
    async def async_should_run_chat_completion_agentic_loop(self, **rest):
        return True, {}

    async def async_run_chat_completion_agentic_loop(self, optional_params, **rest):
        return {"from": "chat", "limit": optional_params["max_tokens"]}


class GateAndChatPlan(Documented):
    """As the documentation says for chat: only the plan of the other protocol, without a gate of its own."""

    async def async_build_chat_completion_agentic_loop_plan(self, tools, optional_params, **rest):
        return AgenticLoopPlan(response_override={"chat": [call["id"] for call in tools["tool_calls"]]})


@both
async def test_what_the_older_form_returns_is_the_answer_and_none_keeps_the_one_there_is(dialect):
    decision = await Loop(dialect, Older({"mine": 1})).ask(CALL)
    assert (decision.action, decision.response) == ("answer", {"mine": 1})
    assert (await Loop(dialect, Older(None)).ask(CALL)).action == "keep"


async def test_the_older_form_for_chat():
    assert (await Loop("openai", OlderInChat()).ask(CALL)).response == {"from": "chat", "limit": 9}


async def test_the_plan_for_chat_is_used_there_also_behind_the_other_gate():
    assert (await Loop("openai", GateAndChatPlan()).ask(CALL)).response == {"chat": ["c1"]}
    assert (await Loop("anthropic", GateAndChatPlan()).ask(CALL)).action == "rerun"


class Broken(CustomLogger):
    def __init__(self, gate):
        super().__init__()
        self.gate = gate

    async def async_should_run_agentic_loop(self, **rest):
        return self.gate() if callable(self.gate) else self.gate


@both
@pytest.mark.parametrize(
    "gate",
    [None, True, (True,), "yes", lambda: 1 / 0],
    ids=["None", "True", "a tuple of one", "text", "raises"],
)
async def test_a_gate_that_gives_nonsense_is_a_no_and_the_next_is_asked(dialect, gate, caplog):
    decision = await Loop(dialect, Broken(gate), Documented()).ask(CALL)
    assert (decision.action, decision.hook) == ("rerun", "Documented")
    assert "Broken" in caplog.text


@both
async def test_a_plan_that_is_none_is_nonsense_only_when_it_is_something(dialect, caplog):
    assert (await Loop(dialect, Decides("rerun!")).ask(CALL)).action == "keep"
    assert "'rerun!'" in caplog.text


# -- what the methods are given ------------------------------------------------------------------------------


class Notes(CustomLogger):
    def __init__(self):
        super().__init__()
        self.gate = self.plan = None

    async def async_should_run_agentic_loop(self, **given):
        self.gate = given
        return True, {"kept": [1]}

    async def async_build_agentic_loop_plan(self, **given):
        self.plan = given
        return AgenticLoopPlan()


@both
async def test_methods_are_called_with_the_arguments_of_their_signatures(dialect):
    hook = Notes()
    await Loop(dialect, hook, stream=True).ask(CALL)
    for given, method in (
        (hook.gate, "async_should_run_agentic_loop"),
        (hook.plan, "async_build_agentic_loop_plan"),
    ):
        assert set(given) == set(inspect.signature(getattr(CustomLogger, method)).parameters) - {"self"}
    assert (hook.gate["model"], hook.gate["stream"], hook.gate["tools"]) == ("m", True, TOOLS[dialect])
    assert hook.gate["messages"] == [{"role": "user", "content": "tea?"}]
    assert hook.plan["tools"] == {"kept": [1]}
    assert hook.plan["anthropic_messages_optional_request_params"] == {
        "max_tokens": 9,
        "temperature": 0.5,
        "tools": TOOLS[dialect],
    }
    log = hook.plan["logging_obj"]
    assert (log.litellm_call_id, log.model_call_details["agentic_loop_params"]["model"]) == ("x_1", "m")


async def test_on_chat_the_answer_is_openais_with_the_blocks_beside_it():
    hook = Notes()
    await Loop("openai", hook).ask(CALL)
    response = hook.gate["response"]
    assert response.choices[0].message.tool_calls[0].function.name == TOOL
    assert [block["type"] for block in response.content] == ["text", "tool_use"]
    assert response.usage.completion_tokens == 4


async def test_the_signatures_are_litellms():
    for gate in ("async_should_run_agentic_loop", "async_should_run_chat_completion_agentic_loop"):
        assert list(inspect.signature(getattr(CustomLogger, gate)).parameters)[1:] == [
            "response",
            "model",
            "messages",
            "tools",
            "stream",
            "custom_llm_provider",
            "kwargs",
        ]
    chat = inspect.signature(CustomLogger.async_build_chat_completion_agentic_loop_plan).parameters
    assert list(chat)[1:] == [
        "tools",
        "model",
        "messages",
        "response",
        "optional_params",
        "logging_obj",
        "stream",
        "kwargs",
    ]


# -- which calls it claims -----------------------------------------------------------------------------------


class Claims(CustomLogger):
    server_fulfilled_tool_names = frozenset({TOOL})

    def __init__(self, tools):
        super().__init__()
        self.tools = tools

    async def async_should_run_agentic_loop(self, **rest):
        return True, self.tools

    async def async_build_agentic_loop_plan(self, **rest):
        return AgenticLoopPlan(terminate=True)


class WithId:
    id = "c2"


@pytest.mark.parametrize(
    ("tools", "ids"),
    [
        ({"tool_calls": [{"id": "c1"}, {"id": "c2"}]}, {"c1", "c2"}),
        ({"deep": [{"er": ("c1", {"x": "c2"})}]}, {"c1", "c2"}),
        ([{"call_id": "c1"}, WithId()], {"c1", "c2"}),
    ],
)
async def test_the_claimed_calls_are_those_whose_id_the_gate_gave(tools, ids):
    assert (await Loop("anthropic", Claims(tools)).ask(CALL, OTHER)).calls == ids


async def test_without_an_id_they_are_those_of_its_declared_tools():
    assert (await Loop("anthropic", Claims({"note": "mine"})).ask(CALL)).calls == {"c1"}


# -- around the request --------------------------------------------------------------------------------------


class Around(CustomLogger):
    def __init__(self, answer=None, deployment=None):
        super().__init__()
        self.answer = answer
        self.deployment = deployment
        self.seen = []

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        self.seen.append((user_api_key_dict.key_alias, user_api_key_dict.api_key, call_type))
        if isinstance(self.answer, Exception) and not getattr(self.answer, "returned", False):
            raise self.answer
        return data | self.answer if isinstance(self.answer, dict) else self.answer

    async def async_pre_call_deployment_hook(self, kwargs, call_type):
        return kwargs | self.deployment if self.deployment else None

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        response.seen_by = user_api_key_dict.key_alias
        return response


class Http(Exception):
    def __init__(self, status_code, detail):
        super().__init__("internal")
        self.status_code, self.detail = status_code, detail


@both
async def test_a_pre_call_hook_changes_the_request(dialect):
    hook = Around({"temperature": 1, "max_agentic_loops": 5}, {"top_p": 0.1})
    loop = Loop(dialect, hook)
    call = await loop.asking.before()
    assert call.body == request(dialect).body | {"temperature": 1, "top_p": 0.1}
    assert loop.asking.guard.max_reruns == 5
    assert hook.seen == [
        ("Ann's", None, {"openai": "acompletion", "anthropic": "anthropic_messages"}[dialect])
    ]


async def test_what_a_pre_call_hook_notes_in_metadata_is_no_field_of_the_request():
    class Tags(CustomLogger):
        async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
            data["metadata"]["tag"] = 1
            return data

    assert (await Loop("openai", Tags()).asking.before()).body == request("openai").body


@pytest.mark.parametrize(
    ("answer", "reason", "status"),
    [
        ("Not today.", "Not today.", 400),
        (Http(403, "No tea for you."), "No tea for you.", 403),
        (Http(422, {"error": "Bad tea."}), "Bad tea.", 422),
        (Http(500, "stack trace"), "A rule of this server refused the request.", 400),
        (ValueError("the secret is 42"), "A rule of this server refused the request.", 400),
    ],
    ids=str,
)
async def test_a_pre_call_hook_refuses_with_its_words_only_when_they_are_meant_for_the_caller(
    answer, reason, status
):
    made = await Loop("openai", Around(answer)).asking.before()
    assert made == Refusal(reason, status)


async def test_a_success_hook_shapes_the_answer():
    assert await Loop("openai", Around()).asking.finish({"id": "r"}) == {"id": "r", "seen_by": "Ann's"}


def test_a_hook_that_overrides_nothing_wants_nothing():
    assert not LiteLLMHook(CustomLogger()).wants(request("openai"))
    assert LiteLLMHook(Around()).wants(request("openai"))
    assert not LiteLLMHook(InChat()).wants(request("anthropic"))


def test_methods_that_a_hook_does_not_have_cost_nothing():
    asking = Loop("openai", Around()).asking
    assert not asking.looks
    assert Loop("openai", Documented()).asking.looks
