"""Sums onto the rows of their days. Whoever books holds a transaction, so nothing is counted twice or lost.

The statements are written out: what the ORM makes of these sums takes 5 ms to build, some twenty times as long as the
database takes to carry it out, and it is built at each commit of the gateway's records.
"""

from __future__ import annotations

import json
from functools import cache

from django.db import connection, transaction

from chatsite.usage.models import Day
from chatsite.usage.tally import Key, Sum, Tally, spread_of

ADDED = ("count", "errors", "input_tokens", "output_tokens", "cost", "ms")
"""What simply adds up. `spread` is merged here, between the two statements."""


def book(tally: Tally) -> None:
    """Add the sums to their rows. Always in one order: two processes that book the same days do not lock each other."""
    if not tally:
        return
    sums = tally.sums
    with transaction.atomic(), connection.cursor() as cursor:
        spreads = []
        for key in sorted(sums):
            cursor.execute(_add_statement(), _values(key, sums[key]))
            pk, spread = cursor.fetchone()
            spreads.append((_merged(spread, sums[key]), pk))
        cursor.executemany(f"UPDATE {_table()} SET spread = %s WHERE id = %s", spreads)  # noqa: S608 - our own name


@cache
def _add_statement() -> str:
    """The row holds the sums behind it, and is locked until the transaction ends; its spread is the one from before."""
    table = _table()
    columns = ", ".join(map(_quoted, ("day", "source", "about", "value", *ADDED, "spread")))
    added = ", ".join(
        f"{_quoted(name)} = {table}.{_quoted(name)} + EXCLUDED.{_quoted(name)}" for name in ADDED
    )
    places = ", ".join("%s" for _ in range(len(ADDED) + 5))
    return (
        f"INSERT INTO {table} ({columns}) VALUES ({places})"  # noqa: S608 - our own names
        f" ON CONFLICT (about, day, source, value) DO UPDATE SET {added} RETURNING id, spread"
    )


def _values(key: Key, more: Sum) -> tuple[object, ...]:
    day, source, about, value = key
    sums = (getattr(more, name) for name in ADDED)
    return (connection.ops.adapt_datefield_value(day), source, about, value, *sums, "{}")


def _merged(spread: str, more: Sum) -> str:
    """`spread` is JSON's text: from a raw statement Django reads no values."""
    buckets = spread_of(json.loads(spread).items()) + more.spread
    return json.dumps({str(bucket): count for bucket, count in sorted(buckets.items())})


def _table() -> str:
    return _quoted(Day._meta.db_table)


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)
