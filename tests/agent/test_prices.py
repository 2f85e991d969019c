"""What tokens cost, and the budgets that stop at it."""

from __future__ import annotations

import pytest

from agent import InvalidRequest, Price, max_cost, price_table, tool
from agent.messages import Usage
from agent.providers.scripted import Turn
from tests.agent.runs import play

PRICES = {
    "big": Price(input=3.0, output=15.0, cached_input=0.3, cache_write_input=3.75),
    "small": Price(input=1, output=2),
}


@tool
async def echo(text: str = "") -> str:
    return text


@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        ("big", Usage(), 0),
        ("big", Usage(1_000_000, 1_000_000), 18.0),
        (
            "big",
            Usage(1_000_000, 0, cached_input_tokens=400_000, cache_write_input_tokens=100_000),
            1.5 + 0.12 + 0.375,
        ),
        ("small", Usage(500_000, 0, cached_input_tokens=500_000), 0.5),
        ("small", Usage(10, 0, cached_input_tokens=20), 0.00002),
        ("small-2026-01-31", Usage(1_000_000), 1.0),
        ("small@20260131", Usage(1_000_000), 1.0),
        ("small:latest", Usage(1_000_000), 1.0),
    ],
)
def test_a_usage_costs_what_its_model_does(model, usage, cost):
    assert price_table(PRICES)(model, usage) == pytest.approx(cost)


@pytest.mark.parametrize("model", ["other", "small-mini", "smaller", ""])
def test_a_model_without_a_price_is_an_error_and_not_for_nothing(model):
    with pytest.raises(InvalidRequest) as refused:
        price_table(PRICES)(model, Usage(1, 1))
    assert refused.value.code == "unknown_price"
    assert price_table(PRICES, default=Price(input=1, output=1))(model, Usage(1_000_000)) == 1.0


def script(request):
    return (
        Turn("Sorry.")
        if request.tool_choice == "none"
        else Turn(calls=[(f"c{len(request.transcript)}", "echo", {})], usage=Usage(100_000, 10_000))
    )


async def test_a_run_stops_at_its_budget_by_name_and_still_has_words():
    agent = {
        "strategy": max_cost(0.25),
        "cost": price_table({"m": Price(input=1, output=1)}),
        "final_answer": True,
    }
    told = await play(*[script] * 9, tools=[echo], agent=agent)
    assert (told.turns, told.stop_reason, told.text) == (4, "max_cost", "Sorry.")


async def test_the_last_words_count_in_the_usage():
    turns = [Turn(calls=[("c1", "echo", {})], usage=Usage(10, 1)), Turn("Sorry.", usage=Usage(20, 2))]
    told = await play(*turns, tools=[echo], agent={"strategy": lambda state: False, "final_answer": True})
    assert told.end.usage[0].usage == Usage(30, 3)


async def test_a_model_without_a_price_ends_the_run_with_words_of_what_is_missing():
    told = await play(Turn("Hi.", usage=Usage(1, 1)), agent={"cost": price_table(PRICES)})
    assert (told.end.code, told.text) == ("unknown_price", "Hi.")
