"""The request of the next round, and an answer without the calls that were settled here."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.rerun import Call, Patch, Turn
from agent.rerun_body import last_body, next_body, without_calls, without_control, without_orphans

ANTHROPIC = {
    "model": "claude",
    "max_tokens": 100,
    "temperature": 0.2,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "stream": True,
    "tools": [{"name": "find", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "tool", "name": "find", "disable_parallel_tool_use": True},
    "messages": [{"role": "user", "content": "tea?"}],
    "some_new_field": {"kept": True},
}
OPENAI = {
    "model": "gpt",
    "max_completion_tokens": 100,
    "temperature": 0.2,
    "stream": True,
    "stream_options": {"include_usage": True},
    "tools": [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}],
    "tool_choice": "required",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "tea?"}],
    "some_new_field": {"kept": True},
}
BODIES = {"anthropic": ANTHROPIC, "openai": OPENAI}
CALLED = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "find", "input": {"q": 1}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "green"}]},
]
CALLED_IN_CHAT = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q":1}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "green"},
]
TURN = Turn(
    text="Hm.",
    calls=(Call("c1", "find", {"q": 1}, '{"q":1}'),),
    content=(
        {"type": "text", "text": "Hm."},
        {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": 1}},
    ),
)
both = pytest.mark.parametrize("dialect", ["openai", "anthropic"])

# -- the caller's request survives ---------------------------------------------------------------------------

FIELDS = st.dictionaries(
    st.sampled_from(["temperature", "top_p", "seed", "some_new_field", "metadata", "max_agentic_loops"])
    | st.text(min_size=1, max_size=8).map(lambda text: "_agentic_" + text)
    | st.text(min_size=1, max_size=8).map(lambda text: "litellm_" + text),
    st.integers() | st.none(),
    max_size=5,
)


@given(st.sampled_from(["openai", "anthropic"]), FIELDS, FIELDS, FIELDS, st.none() | st.integers(1, 9))
def test_whatever_is_patched_nothing_else_of_the_callers_request_changes(
    dialect, extra, optional, kwargs, limit
):
    body = BODIES[dialect] | extra
    before = copy.deepcopy(body)
    made = next_body(body, Patch(optional_params=optional, kwargs=kwargs, max_tokens=limit), dialect)
    assert body == before
    touched = set(optional) | set(kwargs) | {"tool_choice", "max_tokens", "max_completion_tokens"}
    for field in set(body) - touched:
        if field.startswith("_agentic_") or field == "max_agentic_loops":
            assert field not in made
        else:
            assert made[field] == body[field]
    assert not [field for field in made if field.startswith("_agentic_") or field == "max_agentic_loops"]
    assert not [field for field in made if field.startswith("litellm_") and field not in extra]


@both
def test_an_empty_patch_keeps_the_limit_the_sampling_and_the_system(dialect):
    made = next_body(BODIES[dialect], Patch(), dialect)
    assert {k: v for k, v in made.items() if k != "tool_choice"} == {
        k: v for k, v in BODIES[dialect].items() if k != "tool_choice"
    }


@both
def test_a_patch_is_laid_over_the_request(dialect):
    patch = Patch(model="other", max_tokens=7, optional_params={"temperature": 1, "top_p": 0.5})
    made = next_body(BODIES[dialect], patch, dialect)
    limit = {"openai": "max_completion_tokens", "anthropic": "max_tokens"}[dialect]
    assert (made["model"], made[limit], made["temperature"], made["top_p"]) == ("other", 7, 1, 0.5)


def test_a_limit_has_one_name_only():
    made = next_body(OPENAI, Patch(optional_params={"max_tokens": 5}), "openai")
    assert made["max_tokens"] == 5
    assert "max_completion_tokens" not in made


def test_none_takes_a_field_out():
    assert "temperature" not in next_body(OPENAI, Patch(optional_params={"temperature": None}), "openai")


def test_of_kwargs_only_fields_of_a_request_reach_it():
    patch = Patch(kwargs={"temperature": 0.9, "metadata": {"a": 1}, "litellm_call_id": "x", "api_key": "k"})
    made = next_body(OPENAI, patch, "openai")
    assert made["temperature"] == 0.9
    assert not {"metadata", "litellm_call_id", "api_key"} & set(made)


def test_a_patch_reaches_neither_the_stream_nor_an_endpoint():
    optional = {"stream": False, "stream_options": None, "api_key": "k", "api_base": "u", "messages": []}
    assert next_body(OPENAI, Patch(optional_params=optional | {"model": "m"}), "openai") == next_body(
        OPENAI, Patch(), "openai"
    )


def test_a_caller_cannot_set_the_loops_own_fields():
    body = {"model": "m", "_agentic_loop_depth": -99, "max_agentic_loops": 99, "_other": 1}
    assert without_control(body) == {"model": "m", "_other": 1}
    assert without_control(OPENAI) is OPENAI


# -- a choice that forces ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "choice", "released"),
    [
        ("openai", "required", None),
        ("openai", {"type": "function", "function": {"name": "find"}}, None),
        ("openai", "auto", "auto"),
        ("openai", "none", "none"),
        (
            "openai",
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [1]}},
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [1]}},
        ),
        ("anthropic", {"type": "any"}, None),
        ("anthropic", {"type": "tool", "name": "find"}, None),
        (
            "anthropic",
            {"type": "any", "disable_parallel_tool_use": True},
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
        ("anthropic", {"type": "auto"}, {"type": "auto"}),
        ("anthropic", {"type": "none"}, {"type": "none"}),
    ],
)
def test_a_forced_choice_is_released_after_the_round_that_obeyed_it(dialect, choice, released):
    body = BODIES[dialect] | {"tool_choice": choice}
    assert next_body(body, Patch(), dialect).get("tool_choice") == released
    # A hook that hands all of the caller's parameters back means no new choice by that.
    assert (
        next_body(body, Patch(optional_params={"tool_choice": choice}), dialect).get("tool_choice")
        == released
    )


def test_a_choice_that_the_patch_makes_holds():
    choice = {"type": "tool", "name": "read"}
    made = next_body(ANTHROPIC, Patch(optional_params={"tool_choice": choice}), "anthropic")
    assert made["tool_choice"] == choice
    assert "tool_choice" not in next_body(made, Patch(), "anthropic")


def test_no_tools_means_no_choice_either():
    made = next_body(OPENAI | {"parallel_tool_calls": False}, Patch(tools=[]), "openai")
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(made)


# -- either dialect ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [CALLED, CALLED_IN_CHAT], ids=["blocks", "chat"])
def test_messages_of_a_patch_may_speak_either_dialect(written):
    made = next_body(OPENAI, Patch(messages=[*OPENAI["messages"], *written]), "openai")
    assert made["messages"] == [*OPENAI["messages"], *CALLED_IN_CHAT]
    made = next_body(ANTHROPIC, Patch(messages=[*ANTHROPIC["messages"], *written]), "anthropic")
    assert made["messages"] == [*ANTHROPIC["messages"], *CALLED]


def test_a_system_message_goes_to_the_top_where_it_belongs():
    made = next_body(ANTHROPIC, Patch(messages=OPENAI["messages"]), "anthropic")
    assert made["messages"] == [{"role": "user", "content": "tea?"}]
    assert made["system"] == [*ANTHROPIC["system"], {"type": "text", "text": "Be brief."}]


def test_tools_of_a_patch_may_speak_either_dialect():
    chat = {
        "type": "function",
        "function": {"name": "read", "description": "d", "parameters": {"type": "object"}},
    }
    messages = {"name": "read", "description": "d", "input_schema": {"type": "object"}}
    native = {"type": "web_search_20250305", "name": "web_search"}
    for tools in ([chat, native], [messages, native]):
        assert next_body(OPENAI, Patch(tools=tools), "openai")["tools"] == [chat, native]
        assert next_body(ANTHROPIC, Patch(tools=tools), "anthropic")["tools"] == [messages, native]


# -- the last round ------------------------------------------------------------------------------------------


def test_the_last_request_has_no_tools_and_says_why():
    made = last_body(OPENAI, TURN, "max_agentic_loops", "openai")
    assert not {"tools", "tool_choice"} & set(made)
    assert made["messages"][-2]["tool_calls"][0]["id"] == "c1"
    assert made["messages"][-2]["content"] == "Hm."
    assert "limit of tool rounds" in made["messages"][-1]["content"]
    assert made["max_completion_tokens"] == 100


def test_anthropics_last_request_keeps_its_tools_and_forbids_them():
    made = last_body(ANTHROPIC, TURN, "repeated_calls", "anthropic")
    assert made["tools"] == ANTHROPIC["tools"]
    assert made["tool_choice"] == {"type": "none"}
    result = made["messages"][-1]["content"][0]
    assert (result["tool_use_id"], result["is_error"]) == ("c1", True)


# -- without the calls ---------------------------------------------------------------------------------------

IDS = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)


@given(IDS, st.sets(st.sampled_from("abcdefxyz")))
def test_only_the_claimed_calls_go_and_going_twice_is_going_once(ids, claimed):
    use = [{"type": "tool_use", "id": id, "name": "t", "input": {}} for id in ids]
    message = {"content": [{"type": "text", "text": "x"}, *use], "stop_reason": "tool_use", "usage": {"a": 1}}
    calls = [{"id": id, "type": "function", "function": {"name": "t"}} for id in ids]
    answer = {"role": "assistant", "content": "x", "tool_calls": calls}
    chat = {"choices": [{"index": 0, "message": answer, "finish_reason": "tool_calls"}], "usage": {"a": 1}}
    left = [id for id in ids if id not in claimed]

    made = without_calls(message, claimed, "anthropic")
    assert [block["id"] for block in made["content"][1:]] == left
    assert made["stop_reason"] == ("tool_use" if left else "end_turn")
    assert (made["content"][0], made["usage"]) == (message["content"][0], {"a": 1})
    assert without_calls(made, claimed, "anthropic") == made

    made = without_calls(chat, claimed, "openai")
    choice = made["choices"][0]
    assert [call["id"] for call in choice["message"].get("tool_calls", [])] == left
    assert choice["finish_reason"] == ("tool_calls" if left else "stop")
    assert (choice["message"]["content"], made["usage"]) == ("x", {"a": 1})
    assert without_calls(made, claimed, "openai") == made


@pytest.mark.parametrize("odd", [{}, {"content": "text"}, {"choices": [None]}, {"choices": [{"message": 5}]}])
@both
def test_an_answer_of_another_form_stays_as_it_is(odd, dialect):
    assert without_calls(odd, {"c"}, dialect) == odd


@pytest.mark.parametrize("answered", [CALLED, CALLED_IN_CHAT], ids=["blocks", "chat"])
def test_a_call_without_a_result_does_not_go_back(answered):
    assert without_orphans(answered, {"c1"}) == answered
    assert without_orphans(answered[:1], {"c1"}) == []
    assert without_orphans(answered[:1], {"other"}) == answered[:1]


def test_what_stands_beside_the_orphan_stays():
    entry = {"role": "assistant", "content": [{"type": "text", "text": "x"}, CALLED[0]["content"][0]]}
    assert without_orphans([entry], {"c1"}) == [entry | {"content": [{"type": "text", "text": "x"}]}]
    chat = {"role": "assistant", "content": "x", "tool_calls": CALLED_IN_CHAT[0]["tool_calls"]}
    assert without_orphans([chat], {"c1"}) == [{"role": "assistant", "content": "x"}]
