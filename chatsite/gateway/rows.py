"""Exchanges as rows. Texts that a column cannot hold are cut, so that no record is lost to a long name.

The statements are built once: Django's ORM takes 130 us for an exchange and its round, most of it for building them
anew, and while the thread that writes computes, nobody's request does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Model

from agent.messages import Usage
from agent.text import storable
from chatsite.gateway.kept import text_of
from chatsite.gateway.models import Exchange, Round
from chatsite.gateway.records import ExchangeRecord, RoundRecord

MOST_MS = 2**31 - 1
USED = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
)
COUNTED = (*USED, "cost", "ms", "first_byte_ms")
EXCHANGE = (
    *("public_id", "request_id", "key", "user", "dialect", "model", "stream", "status", "error_code"),
    *("round_count", "request", "response", "created_at", *COUNTED),
)
ROUND = (
    *("number", "depth", "asked_by", "endpoint", "model", "dialect", "status", "error_code", "stop_reason"),
    *("request", "response", *COUNTED),
)


def insert(records: Sequence[ExchangeRecord]) -> None:
    """The caller holds the transaction. No signals are sent."""
    with connection.cursor() as cursor:
        cursor.executemany(_into_exchanges(), [_exchange_values(record) for record in records])
        if rounds := [values for record in records for values in _values_of_rounds(record)]:
            cursor.executemany(_into_rounds(), rounds)


@cache
def _into_exchanges() -> str:
    places = ", ".join("%s" for _ in EXCHANGE)
    return f"INSERT INTO {_table(Exchange)} ({_columns(Exchange, EXCHANGE)}) VALUES ({places})"  # noqa: S608 - our own names


@cache
def _into_rounds() -> str:
    """A round finds its exchange by the id that is unique, so nobody has to be told the key of the row."""
    places = ", ".join("%s" for _ in ROUND)
    exchange = f"SELECT id FROM {_table(Exchange)} WHERE public_id = %s"  # noqa: S608 - our own names
    columns = _columns(Round, ("exchange", *ROUND))
    return f"INSERT INTO {_table(Round)} ({columns}) VALUES (({exchange}), {places})"  # noqa: S608 - likewise


def _exchange_values(record: ExchangeRecord) -> tuple[Any, ...]:
    return (
        record.id,
        fitting(record.request_id, 200),
        record.key_pk,
        record.user_id,
        fitting(record.dialect, 20),
        fitting(record.model, 200),
        record.stream,
        record.status,
        fitting(record.error_code, 100),
        len(record.rounds),
        text_of(record.request),
        text_of(record.response),
        connection.ops.adapt_datetimefield_value(record.started_at),
        *_counted(record, record.usage),
    )


def _values_of_rounds(record: ExchangeRecord) -> Iterator[tuple[Any, ...]]:
    for number, each in enumerate(record.rounds, 1):
        yield (
            record.id,
            number,
            each.depth,
            fitting(each.asked_by, 200),
            fitting(each.endpoint, 200),
            fitting(each.model, 200),
            fitting(each.dialect, 20),
            each.status,
            fitting(each.error_code, 100),
            fitting(each.stop_reason, 100),
            text_of(each.request),
            text_of(each.response),
            *_counted(each, each.usage),
        )


def _counted(record: ExchangeRecord | RoundRecord, usage: Usage) -> tuple[Any, ...]:
    cost = record.cost
    return (
        *(max(0, getattr(usage, name)) for name in USED),
        None if cost is None else connection.ops.adapt_decimalfield_value(cost, 18, 8),
        min(max(0, record.ms), MOST_MS),
        record.first_byte_ms,
    )


def _columns(model: type[Model], names: Sequence[str]) -> str:
    return ", ".join(connection.ops.quote_name(model._meta.get_field(name).column) for name in names)


def _table(model: type[Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def fitting(text: str, most: int) -> str:
    """The text as a column of `most` characters holds it."""
    return storable(text)[:most]
