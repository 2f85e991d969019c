"""One more turn? Each strategy at its border, and the name a stop goes by."""

from __future__ import annotations

import pytest

from agent import (
    DEFAULT_STRATEGY,
    InvalidRequest,
    LoopState,
    combine_strategies,
    max_cost,
    max_iterations,
    max_seconds,
    max_tokens,
    max_tool_calls,
    no_repeated_calls,
    until_finish_reason,
    user_message,
)
from agent.messages import Message, Transcript, Usage
from agent.strategies import why_stop
from tests.agent.runs import answered, assistant, call


@pytest.mark.parametrize(
    ("strategy", "goes_on", "stops"),
    [
        (max_iterations(5), LoopState(iteration_count=4), LoopState(iteration_count=5)),
        (max_tool_calls(5), LoopState(tool_call_count=4), LoopState(tool_call_count=5)),
        (max_tokens(10), LoopState(usage=Usage(4, 5)), LoopState(usage=Usage(5, 5))),
        (max_cost(1.0), LoopState(cost=0.99), LoopState(cost=1.0)),
        (max_seconds(60), LoopState(elapsed=59.9), LoopState(elapsed=60)),
    ],
    ids=["max_iterations", "max_tool_calls", "max_tokens", "max_cost", "max_seconds"],
)
def test_a_limit_goes_on_below_it_and_stops_at_it_by_its_name(strategy, goes_on, stops, request):
    assert strategy(goes_on) is True
    assert strategy(stops) is False
    assert why_stop(strategy, goes_on) is None
    assert why_stop(strategy, stops) == request.node.callspec.id == strategy.name


def test_zero_iterations_never_go_on():
    assert not max_iterations(0)(LoopState())


def test_a_limit_on_cost_without_prices_is_an_error_and_not_a_limit_that_never_comes():
    with pytest.raises(InvalidRequest, match="costs"):
        max_cost(1.0)(LoopState())


def test_until_a_finish_reason_the_first_turn_is_always_allowed():
    assert until_finish_reason(["length"])(LoopState(iteration_count=0, finish_reason="length"))


def test_until_a_finish_reason_stops_by_that_reason():
    strategy = until_finish_reason(["length", "stop"])
    assert strategy(LoopState(iteration_count=1, finish_reason="tool_calls"))
    assert why_stop(strategy, LoopState(iteration_count=1, finish_reason="length")) == "length"
    assert why_stop(strategy, LoopState(iteration_count=1, finish_reason="stop")) == "stop"


def test_a_broken_turns_reason_is_in_no_list():
    assert until_finish_reason(["length"])(LoopState(iteration_count=1, finish_reason=None))


def test_all_combined_must_agree():
    strategy = combine_strategies([max_iterations(3), max_tool_calls(2)])
    assert strategy(LoopState(iteration_count=2, tool_call_count=1))
    assert not strategy(LoopState(iteration_count=3, tool_call_count=1))
    assert not strategy(LoopState(iteration_count=2, tool_call_count=2))


def test_an_empty_list_allows():
    assert combine_strategies([])(LoopState(iteration_count=1000))


def test_combined_are_asked_in_order_and_no_further_than_the_first_no():
    asked = []

    def strategy(name: str, answer: bool):
        def says(state: LoopState) -> bool:
            asked.append(name)
            return answer

        return says

    assert not combine_strategies([strategy("a", True), strategy("b", False), strategy("c", True)])(
        LoopState()
    )
    assert asked == ["a", "b"]


def test_combined_stop_by_the_name_of_the_one_that_said_no():
    inner = combine_strategies([until_finish_reason(["length"]), max_tokens(1)])
    strategy = combine_strategies([max_iterations(9), inner])
    assert why_stop(strategy, LoopState(iteration_count=1, usage=Usage(1))) == "max_tokens"
    assert why_stop(strategy, LoopState(iteration_count=1, finish_reason="length")) == "length"


def test_a_plain_function_is_a_strategy_and_stops_by_its_own_name():
    def bedtime(state: LoopState) -> bool:
        return False

    assert why_stop(bedtime, LoopState()) == "bedtime"
    assert why_stop(combine_strategies([bedtime]), LoopState()) == "bedtime"


def test_a_nameless_one_is_called_strategy():
    assert why_stop(lambda state: False, LoopState()) == "strategy"


def test_an_object_with_a_name_stops_by_it():
    class Budget:
        name = "budget"

        def __call__(self, state: LoopState) -> bool:
            return False

    assert why_stop(Budget(), LoopState()) == "budget"


@pytest.mark.parametrize(
    ("turns", "reason", "why"),
    [(4, "tool_calls", None), (5, "tool_calls", "max_iterations"), (1, "length", "length")],
)
def test_by_default_five_turns_and_no_further_than_length(turns, reason, why):
    assert why_stop(DEFAULT_STRATEGY, LoopState(iteration_count=turns, finish_reason=reason)) == why


# -- the same call again and again


def asked(*turns: list[tuple[str, str]], before: tuple[Message, ...] = ()) -> LoopState:
    messages = [*before, user_message("u1", "go")]
    for number, calls in enumerate(turns):
        ids = [f"c{number}-{place}" for place in range(len(calls))]
        parts = [call(id, name, arguments) for id, (name, arguments) in zip(ids, calls, strict=True)]
        messages += [assistant(f"m{number}", *parts, reason="tool_calls"), *map(answered, ids)]
    return LoopState(iteration_count=len(turns), messages=Transcript(messages))


A, B = ("look", '{"x": 1, "y": 2}'), ("look", '{"x": 2}')


def test_the_same_call_n_turns_in_a_row_stops_the_run():
    assert no_repeated_calls(3)(asked([A], [A]))
    assert why_stop(no_repeated_calls(3), asked([A], [A], [A])) == "no_repeated_calls"


def test_no_turns_in_a_row_are_refused_where_the_strategy_is_made():
    with pytest.raises(ValueError, match="1 or more"):
        no_repeated_calls(0)


def test_the_same_call_is_known_by_its_canonical_arguments():
    again = ("look", '{ "y":2, "x":1 }')
    assert not no_repeated_calls(2)(asked([A], [again]))


def test_other_arguments_or_another_name_are_another_call():
    assert no_repeated_calls(2)(asked([A], [B]))
    assert no_repeated_calls(2)(asked([A], [("see", A[1])]))


def test_a_turn_in_between_breaks_the_row():
    assert no_repeated_calls(3)(asked([A], [B], [A]))


def test_a_call_that_repeats_beside_others_counts():
    assert not no_repeated_calls(2)(asked([A, B], [("other", "{}"), A]))


def test_twice_in_one_turn_is_not_two_turns():
    assert no_repeated_calls(2)(asked([A, A]))


def test_broken_arguments_are_compared_as_they_came():
    assert not no_repeated_calls(2)(asked([("look", "{")], [("look", "{")]))
    assert no_repeated_calls(2)(asked([("look", "{")], [("look", "[")]))


def test_only_this_runs_turns_count():
    earlier = (assistant("m-1", call("c-1", *A), reason="tool_calls"), answered("c-1"))
    assert no_repeated_calls(2)(asked([A], before=earlier))
