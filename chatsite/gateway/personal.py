"""What the gateway has of people (`chatsite.care.lines`)."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from chatsite.care.lines import Rows
from chatsite.gateway.models import Exchange, ExchangeCall


class Calls(Rows):
    """By their key, and by the exchange they ran for: a key may be gone before them."""

    __slots__ = ()

    def of(self, pk: Any) -> QuerySet[Any]:
        exchanges = Exchange.objects.filter(user=pk).values("public_id")
        return ExchangeCall.objects.filter(Q(key__user=pk) | Q(exchange_id__in=exchanges))


LINES = (
    Calls("gateway.ExchangeCall", "key__user"),
    Rows("gateway.Round", "exchange__user"),
    Rows("gateway.Exchange", "user"),
)
