"""Every row of the loop's table, and what ends a run early."""

from __future__ import annotations

import pytest

from agent import Tool, ToolRegistry, close_old_calls, next_step, tool, user_message
from agent.closing import closing_answers
from agent.messages import Message, TextPart, ToolResultPart, Transcript, open_calls
from agent.steps import Answer, CallModel, Finish, RunTools, Wait, last_turn, limited
from tests.agent.runs import answered, assistant, call, said

U1 = user_message("u1", "hi")


@tool
def echo(text: str = "") -> str:
    """Says it again."""
    return text


ASK = Tool("pick_file", "Lets the person pick a file.")
TOOLS = ToolRegistry([echo, ASK])


def step(*messages: Message):
    return next_step(Transcript(messages), TOOLS)


# -- whose turn it is


@pytest.mark.parametrize(
    "messages",
    [(), (U1,), (Message("s1", "system", (TextPart("Be brief."),)),), (assistant("m1", TextPart("a")), U1)],
    ids=["nothing", "user", "system", "user behind an answer"],
)
def test_the_model_is_called_when_somebody_else_spoke_last(messages):
    assert step(*messages) == CallModel()


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_a_turn_without_calls_ends_the_run_with_its_reason(reason):
    assert step(U1, assistant("m1", TextPart("a"), reason=reason)) == Finish(reason)


def test_tool_calls_with_no_call_at_all_ends_the_run_honestly():
    assert step(U1, assistant("m1", TextPart("a"), reason="tool_calls")) == Finish("no_calls")


def test_a_paused_turn_is_sent_back():
    assert step(U1, assistant("m1", TextPart("a"), reason="stop", paused=True)) == CallModel()


def test_a_turn_that_broke_off_is_asked_again():
    assert step(U1, assistant("m1", TextPart("a"), reason=None)) == CallModel()


def test_a_providers_own_calls_are_not_open():
    own = call("c1", "web_search", provider_executed=True)
    assert step(U1, assistant("m1", own, TextPart("Found it."), reason="stop")) == Finish("stop")


# -- calls that must not run


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("length", "max_tokens"),
        ("stop", "not_executed"),
        ("content_filter", "content_filter"),
        (None, "incomplete_stream"),
    ],
)
def test_calls_beside_any_other_reason_are_answered_and_none_runs(reason, code):
    made = step(U1, assistant("m1", call("c1"), call("c2", "pick_file"), call("c3", "nobody"), reason=reason))
    assert isinstance(made, Answer)
    assert [(result.tool_call_id, result.error) for result in made.results] == [
        (id, code) for id in ("c1", "c2", "c3")
    ]


def test_a_cut_call_tells_the_model_to_send_it_again_and_split_large_input():
    made = step(U1, assistant("m1", call("c1", arguments='{"text": "whole"}'), reason="length"))
    text = said(made.results[0])["error"]
    assert "again" in text
    assert "split large input" in text


@pytest.mark.parametrize("name", ["nobody", "", "x" * 1000])
def test_an_unknown_tool_is_an_answer_that_names_the_known_ones(name):
    made = step(U1, assistant("m1", call("c1", name), reason="tool_calls"))
    assert made.results[0].error == "unknown_tool"
    assert "echo, pick_file" in said(made.results[0])["error"]
    assert len(made.results[0].content) < 300


@pytest.mark.parametrize(
    "arguments", ["{", '{"text": "cut', "{} {}", "nonsense", '{"a": NaN}', "[" * 10_000, '"\ud800"']
)
@pytest.mark.parametrize("name", ["echo", "pick_file"])
def test_arguments_that_are_no_json_are_an_answer_wherever_the_tool_is(name, arguments):
    made = step(U1, assistant("m1", call("c1", name, arguments), reason="tool_calls"))
    assert [result.error for result in made.results] == ["invalid_arguments"]


def test_a_client_is_not_asked_what_does_not_fit_its_schema():
    pick = Tool("pick", "", {"type": "object", "required": ["folder"], "properties": {}})
    turn = assistant(
        "m1", call("c1", "pick", "{}"), call("c2", "pick", '{"folder": "/"}'), reason="tool_calls"
    )
    tools = ToolRegistry([pick])
    made = next_step(Transcript((U1, turn)), tools)
    assert [(result.tool_call_id, result.error) for result in made.results] == [("c1", "invalid_arguments")]
    assert next_step(Transcript((U1, turn, answered("c1"))), tools) == Wait(client_calls=turn.tool_calls[1:])


# -- calls that run, and calls that wait


@pytest.mark.parametrize("arguments", ["", " ", "null", "{}", '{"text": "a"}'])
def test_calls_of_known_tools_run(arguments):
    one = call("c1", arguments=arguments)
    assert step(U1, assistant("m1", one, reason="tool_calls")) == RunTools((one,))


def test_answers_stand_in_the_place_of_their_calls_among_those_that_run():
    first, last = call("c1"), call("c3")
    made = step(U1, assistant("m1", first, call("c2", "nobody"), last, reason="tool_calls"))
    assert isinstance(made, RunTools)
    assert [item.tool_call_id if isinstance(item, ToolResultPart) else item.id for item in made.calls] == [
        "c1",
        "c2",
        "c3",
    ]
    assert made.calls[1].error == "unknown_tool"


def test_only_answers_need_no_tools():
    made = step(U1, assistant("m1", call("c1", "nobody"), call("c2", arguments="{"), reason="tool_calls"))
    assert isinstance(made, Answer)
    assert [result.error for result in made.results] == ["unknown_tool", "invalid_arguments"]


def test_what_can_run_here_runs_before_the_run_waits_for_a_client():
    here, there = call("c1"), call("c2", "pick_file")
    turn = assistant("m1", there, here, reason="tool_calls")
    assert step(U1, turn) == RunTools((here,))
    assert step(U1, turn, answered("c1")) == Wait(client_calls=(there,))


def test_a_clients_result_lets_the_run_go_on():
    turn = assistant("m1", call("c2", "pick_file"), reason="tool_calls")
    assert step(U1, turn, answered("c2")) == CallModel()


def test_a_half_answered_turn_runs_only_what_is_left():
    turn = assistant("m1", call("c1"), call("c2"), reason="tool_calls")
    assert step(U1, turn, answered("c1")) == RunTools((call("c2"),))


# -- behind the results


@pytest.mark.parametrize("reason", ["tool_calls", "length", None])
def test_the_model_reads_the_results(reason):
    assert step(U1, assistant("m1", call("c1"), reason=reason), answered("c1")) == CallModel()


@pytest.mark.parametrize("reason", ["stop", "content_filter"])
def test_a_turn_that_did_not_ask_for_tools_ends_the_run_behind_its_answers(reason):
    assert step(U1, assistant("m1", call("c1"), reason=reason), answered("c1")) == Finish(reason)


def test_deciding_twice_decides_the_same():
    messages = (U1, assistant("m1", call("c1"), call("c2", "nobody"), reason="tool_calls"))
    assert step(*messages) == step(*messages)


# -- what the strategy says


BEHIND_RESULTS = Transcript((U1, assistant("m1", call("c1"), reason="tool_calls"), answered("c1")))


def test_nothing_stops_the_run():
    assert limited(BEHIND_RESULTS, None, final_answer=True) == CallModel()


def test_a_limit_ends_the_run_with_its_name():
    assert limited(BEHIND_RESULTS, "max_iterations", final_answer=False) == Finish("max_iterations")


def test_a_limit_behind_results_leaves_room_for_last_words():
    assert limited(BEHIND_RESULTS, "max_iterations", final_answer=True) == CallModel(
        last_words="max_iterations"
    )


def test_there_are_no_last_words_behind_length():
    assert limited(BEHIND_RESULTS, "length", final_answer=True) == Finish("length")


def test_there_are_no_last_words_when_no_results_are_left_unspoken():
    paused = Transcript((U1, assistant("m1", TextPart("a"), paused=True)))
    assert limited(paused, "max_iterations", final_answer=True) == Finish("max_iterations")


# -- endings before time


@pytest.mark.parametrize("code", ["aborted", "incomplete_stream"])
@pytest.mark.parametrize("reason", [None, "tool_calls"])
def test_what_is_open_at_an_early_end_gets_a_result(code, reason):
    turn = assistant("m1", call("c1"), call("c2"), reason=reason)
    results = closing_answers(Transcript((U1, turn, answered("c1"))), code)
    assert [(result.tool_call_id, result.error) for result in results] == [("c2", code)]


def test_a_turn_that_ended_for_a_reason_of_its_own_keeps_it():
    turn = assistant("m1", call("c1"), reason="length")
    assert closing_answers(Transcript((U1, turn)), "aborted")[0].error == "max_tokens"


def test_nothing_open_needs_no_answer():
    assert closing_answers(Transcript((U1,)), "aborted") == ()


def test_the_last_turn_is_the_assistants_unless_somebody_spoke_since():
    turn = assistant("m1", call("c1"))
    assert last_turn(Transcript((U1, turn, answered("c1")))) is turn
    assert last_turn(Transcript((turn, answered("c1"), U1))) is None
    assert last_turn(Transcript()) is None


# -- old calls


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("length", "max_tokens"),
        ("stop", "not_executed"),
        ("content_filter", "content_filter"),
        (None, "incomplete_stream"),
        ("tool_calls", "outcome_unknown"),
    ],
)
def test_an_old_call_without_a_result_gets_one_by_its_turns_reason(reason, code):
    old = Transcript((U1, assistant("m1", call("c1"), reason=reason), user_message("u2", "and?")))
    closed = close_old_calls(old)
    assert [message.role for message in closed] == ["user", "assistant", "tool", "user"]
    assert closed[2].tool_results[0].error == code


def test_old_calls_are_closed_right_behind_their_turn_and_its_results():
    turn = assistant("m1", call("c1"), call("c2"), call("c3"), reason="tool_calls")
    closed = close_old_calls(Transcript((turn, answered("c2"), U1)))
    assert [part.tool_call_id for message in closed for part in message.tool_results] == ["c2", "c1", "c3"]
    assert closed[-1] == U1


def test_the_last_turns_calls_stay_open():
    last = Transcript((U1, assistant("m1", call("c1"), reason="tool_calls")))
    assert close_old_calls(last) is last
    assert open_calls(last)


def test_a_whole_transcript_stays_the_very_same():
    whole = Transcript((U1, assistant("m1", call("c1")), answered("c1"), U1))
    assert close_old_calls(whole) is whole


def test_closing_is_the_same_each_time_and_does_it_once():
    old = Transcript((U1, assistant("m1", call("c1"), reason=None), user_message("u2", "and?")))
    assert close_old_calls(old) == close_old_calls(old)
    assert close_old_calls(close_old_calls(old)) == close_old_calls(old)


def test_a_providers_own_old_call_needs_no_result():
    old = Transcript((assistant("m1", call("c1", provider_executed=True)), U1))
    assert close_old_calls(old) is old
