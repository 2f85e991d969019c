"""What tokens cost, for `max_cost` and for telling people.

    Agent(..., cost=price_table({"some-model": Price(input=3.0, output=15.0, cached_input=0.3)}))

A price is for a million tokens, in whatever money `max_cost` is given in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent.errors import InvalidRequest
from agent.messages import Usage
from agent.tally import Cost

MILLION = 1_000_000
DATED = re.compile(r"[-@:](?:latest|\d{4,8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What the provider does not price by itself costs what other input does."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write_input: float | None = None

    def of(self, usage: Usage) -> float:
        cached, written = usage.cached_input_tokens, usage.cache_write_input_tokens
        plain = max(0, usage.input_tokens - cached - written)
        cost = plain * self.input + usage.output_tokens * self.output
        cost += cached * (self.input if self.cached_input is None else self.cached_input)
        cost += written * (self.input if self.cache_write_input is None else self.cache_write_input)
        return cost / MILLION


def price_table(prices: Mapping[str, Price], *, default: Price | None = None) -> Cost:
    """The price of a model is that of its name, also without its date (`gpt-5` for `gpt-5-2025-08-07`). One that has
    none costs `default`; without that it is an InvalidRequest, since a budget that does not count is none."""

    def cost(model: str, usage: Usage) -> float:
        price = prices.get(model) or prices.get(DATED.sub("", model)) or default
        if price is None:
            raise InvalidRequest(f"There is no price for the model {model[:100]!r}.", code="unknown_price")
        return price.of(usage)

    return cost
