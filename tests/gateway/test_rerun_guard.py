"""The rails of the gateway's loop."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.messages import Usage
from agent.rerun import Call
from agent.rerun_guard import STOPPED, Guard, Limits, fingerprint, max_loops

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(
    st.tuples(st.sampled_from(["find", "read"]), st.dictionaries(st.text(max_size=3), VALUES, max_size=4)),
    max_size=4,
)


def shuffled(value, rnd):
    if isinstance(value, dict):
        keys = list(value)
        rnd.shuffle(keys)
        return {key: shuffled(value[key], rnd) for key in keys}
    return [shuffled(item, rnd) for item in value] if isinstance(value, list) else value


@given(CALLS, st.integers(0, 2**32))
def test_ids_order_of_calls_and_order_of_keys_do_not_count(calls, seed):
    rnd = random.Random(seed)
    one = [Call(f"a{i}", name, arguments) for i, (name, arguments) in enumerate(calls)]
    other = [Call(f"b{i}", name, shuffled(arguments, rnd), " ") for i, (name, arguments) in enumerate(calls)]
    rnd.shuffle(other)
    assert fingerprint(one) == fingerprint(other)


@given(CALLS, CALLS)
def test_other_names_or_arguments_are_another_fingerprint(calls, others):
    def plain(each):
        return sorted((name, repr(_sorted(arguments))) for name, arguments in each)

    same = plain(calls) == plain(others)
    one, other = ([Call("c", *each) for each in them] for them in (calls, others))
    assert (fingerprint(one) == fingerprint(other)) == same


def _sorted(value):
    if isinstance(value, dict):
        return [(key, _sorted(value[key])) for key in sorted(value)]
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def test_one_and_true_and_the_text_one_are_three_things():
    prints = {fingerprint([Call("c", "f", {"x": value})]) for value in (1, True, "1")}
    assert len(prints) == 3


def calls(*queries):
    return tuple(Call(f"c{i}", "find", {"q": q}) for i, q in enumerate(queries))


def test_a_request_is_rerun_three_times_and_then_no_more():
    guard = Guard()
    for depth in range(3):
        assert guard.depth == depth
        assert guard.stop(calls(str(depth))) is None
        guard.begin_rerun(calls(str(depth)))
    assert guard.stop(calls("4")) == "max_agentic_loops"


def test_the_same_calls_with_fresh_ids_stop_the_loop():
    guard = Guard()
    guard.begin_rerun(calls("tea"))
    assert guard.stop((Call("fresh", "find", {"q": "tea"}),)) == "repeated_calls"
    assert guard.stop(calls("milk")) is None


def test_reruns_without_calls_are_counted_and_nothing_more():
    guard = Guard(Limits(max_reruns=2))
    guard.begin_rerun(())
    assert guard.stop(()) is None
    guard.begin_rerun(())
    assert guard.stop(()) == "max_agentic_loops"


def test_time_tokens_and_money_of_all_rounds_are_added():
    now = [0.0]
    guard = Guard(Limits(seconds=10, tokens=100, cost=1.0), clock=lambda: now[0])
    guard.book(Usage(40, 10), 0.4)
    assert guard.stop(calls("a")) is None
    guard.book(Usage(40, 10), 0.1)
    assert guard.stop(calls("a")) == "tokens"
    guard.limits = Limits(cost=0.5)
    assert guard.stop(calls("a")) == "cost"
    guard.limits = Limits(seconds=10)
    now[0] = 9.9
    assert guard.stop(calls("a")) is None
    now[0] = 10
    assert guard.stop(calls("a")) == "deadline"


def test_what_a_round_cost_may_be_unknown():
    guard = Guard(Limits(cost=1))
    guard.book(Usage(1, 1))
    assert guard.stop(()) is None


def test_the_model_is_told_in_words_about_every_rail():
    assert {"max_agentic_loops", "repeated_calls", "deadline", "tokens", "cost"} < set(STOPPED)


@pytest.mark.parametrize(("value", "number"), [(1, 1), (7, 7), ("5", 5), (" 5 ", 5)])
def test_a_number_of_reruns_may_be_text(value, number):
    assert max_loops(value, "GATEWAY_MAX_RERUNS") == number


@pytest.mark.parametrize("value", [0, -1, "0", "-3", "three", "", 2.5, True, None, [3], "1.5", "--2"])
def test_what_is_no_number_from_one_is_refused_by_name(value):
    with pytest.raises(ValueError, match="GATEWAY_MAX_RERUNS must be"):
        max_loops(value, "GATEWAY_MAX_RERUNS")
