"""How far a run may go, and what its tokens cost, from the settings.

| setting | a run stops, behind the turn or the tools that reached it | its stop reason |
|---|---|---|
| RUN_MAX_TURNS | at so many model calls | max_iterations |
| RUN_MAX_TOOL_CALLS | at so many calls | max_tool_calls |
| RUN_MAX_TOKENS | at so many tokens, in and out | max_tokens |
| RUN_MAX_COST | at so much money, by MODEL_PRICES | max_cost |
| RUN_MAX_SECONDS | after so long | max_seconds |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from agent import (
    Price,
    Strategy,
    combine_strategies,
    max_cost,
    max_iterations,
    max_seconds,
    max_tokens,
    max_tool_calls,
    price_table,
    until_finish_reason,
)
from agent.events import ModelUsage
from agent.tally import Cost
from chatsite.catalog import entries
from chatsite.chat.conf import setting

LIMITS: dict[str, Callable[[Any], Strategy]] = {
    "RUN_MAX_TURNS": lambda limit: max_iterations(int(limit)),
    "RUN_MAX_TOOL_CALLS": lambda limit: max_tool_calls(int(limit)),
    "RUN_MAX_TOKENS": lambda limit: max_tokens(int(limit)),
    "RUN_MAX_COST": max_cost,
    "RUN_MAX_SECONDS": max_seconds,
}


def strategy() -> Strategy:
    """All limits that are set; and a turn that was cut by the output limit is not followed by another."""
    limits = [make(setting(name)) for name, make in LIMITS.items() if setting(name)]
    return combine_strategies([*limits, until_finish_reason(["length"])])


def cost() -> Cost | None:
    """What tokens cost; None when no price is set. A model without a price is free: the demo model, a local one."""
    prices = entries.prices()
    if not prices:
        return None
    table = {
        model: Price(
            input=figures[0], output=figures[1], cached_input=figures[2] if len(figures) > 2 else None
        )
        for model, figures in prices.items()
    }
    return price_table(table, default=Price(input=0, output=0))


def cost_of(used: Iterable[ModelUsage]) -> float | None:
    """What that much costs; None when no price is set."""
    prices = cost()
    return None if prices is None else sum(prices(each.model, each.usage) for each in used)
