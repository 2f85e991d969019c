"""What a request cost, by MODEL_PRICES. The name that the endpoint knows comes first, then the public one."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from agent.errors import InvalidRequest
from agent.messages import Usage
from agent.prices import Price, price_table
from agent.tally import Cost
from chatsite.gateway.conf import setting

PLACES = Decimal("0.00000001")


def cost_of(usage: Usage, *models: str) -> Decimal | None:
    """None when no price is known for any of these names. Nothing used costs nothing, where there are prices."""
    table = setting("MODEL_PRICES")
    if not table:
        return None
    cost = _table(tuple((name, tuple(prices)) for name, prices in table.items()))
    for model in models:
        try:
            return Decimal(cost(model, usage)).quantize(PLACES)
        except InvalidRequest:
            continue
    return None


@lru_cache(maxsize=4)
def _table(prices: tuple[tuple[str, tuple[float, ...]], ...]) -> Cost:
    return price_table(
        {
            model: Price(input=known[0], output=known[1], cached_input=known[2] if len(known) > 2 else None)
            for model, known in prices
        }
    )
