"""What a request cost, or may cost, by MODEL_PRICES and the models' rows: by the name that the endpoint knows first."""

from __future__ import annotations

from decimal import Decimal

from agent.errors import InvalidRequest
from agent.messages import Usage
from agent.prices import Price, price_table
from agent.tally import Cost
from chatsite.catalog import entries
from chatsite.catalog.entries import Prices
from chatsite.gateway.bodies import Body

PLACES = Decimal("0.00000001")
BYTES_A_TOKEN = 4
LONG_ANSWER = 4096
"""Tokens of an answer whose request sets no limit."""


def cost_of(usage: Usage, *models: str) -> Decimal | None:
    """None when no price is known for any of these names. Nothing used costs nothing, where there are prices."""
    prices = entries.prices()
    if not prices:
        return None
    cost = _table(prices)
    for model in models:
        try:
            return Decimal(cost(model, usage)).quantize(PLACES)
        except InvalidRequest:
            continue
    return None


def may_cost(body: Body, models: tuple[str, ...]) -> Decimal:
    """What a request may cost, by its size and by the longest answer that it allows; nothing without a price."""
    usage = Usage(len(body.raw) // BYTES_A_TOKEN, body.limit or LONG_ANSWER)
    return cost_of(usage, *models) or Decimal(0)


_last_table: tuple[Prices, Cost] | None = None


def _table(prices: Prices) -> Cost:
    """Made anew when the mapping is another one: a request asks several times."""
    global _last_table
    last = _last_table
    if last is None or last[0] is not prices:
        table = {
            model: Price(input=known[0], output=known[1], cached_input=known[2] if len(known) > 2 else None)
            for model, known in prices.items()
        }
        last = _last_table = prices, price_table(table)
    return last[1]
