"""The values that the gateway's hooks get and give."""

import pytest
from pydantic import ValidationError

from agent.events import TurnEnd
from agent.messages import Message, TextPart, ThinkingPart, ToolCallPart, Usage
from agent.rerun import BaseHook, Call, Patch, Plan, RelayContext, Turn, copied, turn_of
from agent.rerun_answers import answered, rerun_with
from agent.rerun_tools import client_tools, tool_names
from agent.wire.jsontext import TOO_DEEP

CALLING = Message(
    "m1",
    "assistant",
    (
        ThinkingPart("I look it up.", "signed"),
        TextPart("One moment."),
        ToolCallPart("c1", "find", '{"q": "tea"}'),
        ToolCallPart("c2", "mine", "{}"),
        ToolCallPart("p1", "web_search", "{}", True),
    ),
)
END = TurnEnd("tool_calls", Usage(5, 7), "upstream-name")


def context(**fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields.pop("body", {})}
    return RelayContext(dialect="anthropic", model="m", body=body, **fields)


def test_a_turn_is_the_same_in_values_blocks_and_message():
    turn = turn_of(CALLING, END, "public")
    assert (turn.text, turn.thinking, turn.stop_reason) == ("One moment.", "I look it up.", "tool_calls")
    assert turn.calls == (Call("c1", "find", {"q": "tea"}, '{"q": "tea"}'), Call("c2", "mine", {}, "{}"))
    assert [block["type"] for block in turn.content] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
        "server_tool_use",
    ]
    assert turn.content[0]["signature"] == "signed"
    assert [call["id"] for call in turn.message["tool_calls"]] == ["c1", "c2"]
    assert (turn.model, turn.usage) == ("public", Usage(5, 7))


def test_a_call_whose_arguments_were_cut_is_still_an_object_and_keeps_its_text():
    turn = turn_of(Message("m", "assistant", (ToolCallPart("c", "find", '{"q": "te'),)), END, "m")
    assert turn.calls == (Call("c", "find", {"_unparsed": '{"q": "te'}, '{"q": "te'),)


def test_results_go_back_with_their_calls_and_what_is_not_answered_is_left_out():
    assistant, user = answered(turn_of(CALLING, END, "m"), {"c1": "tea is here"})
    assert [block.get("id") for block in assistant["content"] if block["type"] == "tool_use"] == ["c1"]
    assert assistant["content"][0]["signature"] == "signed"
    assert user == {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "tea is here"}],
    }


def test_a_thought_that_nobody_signed_does_not_go_back():
    turn = turn_of(Message("m", "assistant", (ThinkingPart("hm"), ToolCallPart("c", "f", "{}"))), END, "m")
    assert [block["type"] for block in answered(turn, {"c": "1"})[0]["content"]] == ["tool_use"]


def test_a_failed_result_says_so():
    turn = turn_of(CALLING, END, "m")
    assert answered(turn, {"c1": "no"}, failed=frozenset({"c1"}))[1]["content"][0]["is_error"] is True


def test_a_plan_to_rerun_has_the_callers_messages_and_the_results_behind_them():
    plan = rerun_with(turn_of(CALLING, END, "m"), {"c1": "x"}, context())
    assert plan.run_agentic_loop is True
    assert [entry["role"] for entry in plan.request_patch.messages] == ["user", "assistant", "user"]


def test_what_a_hook_does_to_its_copy_reaches_nobody():
    call = context(kwargs={"a": [1]}, response={"content": [{"type": "text", "text": "x"}]})
    copy = call.own_copy()
    copy.body["messages"][0]["content"] = "changed"
    copy.kwargs["a"].append(2)
    copy.response["content"].clear()
    assert call == context(kwargs={"a": [1]}, response={"content": [{"type": "text", "text": "x"}]})


def test_a_copy_is_the_same_and_shares_nothing_however_deep_it_is():
    value = {"a": [1, {"b": (2, [3])}], "c": None}
    copy = copied(value)
    assert copy == {"a": [1, {"b": [2, [3]]}], "c": None}
    copy["a"][1]["b"][1].append(4)
    assert value == {"a": [1, {"b": (2, [3])}], "c": None}
    deep = []
    for _ in range(50_000):
        deep = [deep]
    assert isinstance(copied(deep), list)
    assert copied("text") == "text"


def test_a_copy_of_what_holds_itself_is_cut_off_there():
    value = {"a": [1], "twice": [[2]]}
    value["twice"].append(value["twice"][0])
    value["a"] += [value, value, value["a"]]
    assert copied(value) == {"a": [1, TOO_DEEP, TOO_DEEP, TOO_DEEP], "twice": [[2], [2]]}


def test_optional_params_are_the_request_without_model_messages_and_the_way_it_is_sent():
    call = context(body={"max_tokens": 5, "system": "s", "stream": True, "stream_options": {}})
    assert call.optional_params == {"max_tokens": 5, "system": "s"}


def test_a_plan_and_a_patch_say_nothing_until_something_is_set():
    assert Plan() == Plan(
        run_agentic_loop=False,
        request_patch=None,
        response_override=None,
        terminate=False,
        stop_reason=None,
        metadata={},
    )
    assert Patch().model_dump() == {
        "model": None,
        "messages": None,
        "tools": None,
        "max_tokens": None,
        "optional_params": {},
        "kwargs": {},
    }


def test_a_patch_that_is_nonsense_is_refused_where_the_hook_makes_it():
    with pytest.raises(ValidationError):
        Patch(messages="hello")


def test_tools_are_named_in_either_dialect():
    tools = [
        {"type": "function", "function": {"name": "a"}},
        {"name": "b", "input_schema": {}},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "web_search"},
        "nonsense",
        {"function": {"name": 5}},
    ]
    assert tool_names({"tools": tools}) == {"a", "b", "web_search"}
    assert tool_names({"tools": "nonsense"}) == tool_names({}) == frozenset()
    assert client_tools({"tools": tools}) == {"a", "b"}
    assert client_tools({"tools": 5}) == frozenset()


class Finder(BaseHook):
    serves = frozenset({"find"})


class Rule(Finder):
    async def pre_call(self, body, call):
        return body


async def test_a_hook_that_serves_tools_wants_only_requests_that_have_one_of_them():
    with_tool = context(body={"tools": [{"name": "find"}]})
    assert Finder().wants(with_tool)
    assert not Finder().wants(context())
    assert Rule().wants(context())
    assert BaseHook().wants(context())


async def test_a_hook_that_serves_tools_claims_their_calls_and_no_others():
    turn = turn_of(CALLING, END, "m")
    assert [call.id for call in await Finder().claims(turn, context())] == ["c1"]
    assert await Finder().claims(Turn(text="no calls"), context()) is None
    assert await BaseHook().claims(turn, context()) == ()
