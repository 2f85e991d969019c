"""What the gateway has of people (`chatsite.care.lines`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from chatsite.care.exporting import Part, as_lines
from chatsite.care.lines import Rows
from chatsite.gateway.models import Exchange, ExchangeCall, Round


class CallsOfExchanges(Rows):
    """Those whose key is gone, by the exchange that they ran for."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return f"{self.model} without a key"

    def of(self, pk: Any) -> QuerySet[Any]:
        exchanges = Exchange.objects.filter(user=pk).values("public_id")
        return ExchangeCall.objects.filter(exchange_id__in=exchanges, key=None)


LINES = (
    Rows("gateway.ExchangeCall", "key__user"),
    CallsOfExchanges("gateway.ExchangeCall", ""),
    Rows("gateway.Round", "exchange__user"),
    Rows("gateway.Exchange", "user"),
)


def exchanges_of(user: Any) -> Iterator[Part]:
    """What their keys say is kept: with content, or only that they were."""
    yield "exchanges.jsonl", as_lines(map(_told, _exchanges(user)))


def _exchanges(user: Any) -> Iterator[dict[str, Any]]:
    yield from Exchange.objects.filter(user=user).order_by("pk").values().iterator(chunk_size=100)


def _told(exchange: dict[str, Any]) -> dict[str, Any]:
    rounds = Round.objects.filter(exchange=exchange.pop("id")).order_by("number").values()
    calls = ExchangeCall.objects.filter(exchange_id=exchange["public_id"]).order_by("pk").values()
    exchange |= {"rounds": [_bare(row) for row in rounds], "calls": [_bare(row) for row in calls]}
    return _bare(exchange)


def _bare(row: dict[str, Any]) -> dict[str, Any]:
    """Without what only this database knows."""
    return {
        name: value for name, value in row.items() if name not in {"id", "user_id", "key_id", "exchange_id"}
    }


EXPORTS = (exchanges_of,)
