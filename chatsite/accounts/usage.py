"""What keys have used, booked on their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db import connection
from django.utils import timezone

from chatsite.accounts.keys import month_of
from chatsite.accounts.models import ApiKey


@dataclass(frozen=True, slots=True)
class Used:
    """A sum over requests."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, other: Used) -> Used:
        return Used(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost + other.cost,
        )


ADD = """
UPDATE {table} SET
  requests = requests + %s, input_tokens = input_tokens + %s, output_tokens = output_tokens + %s,
  spent = spent + CAST(%s AS NUMERIC),
  spent_this_month = CAST(%s AS NUMERIC) + CASE WHEN month = %s THEN spent_this_month ELSE 0 END,
  month = %s
WHERE id = %s"""
"""Written out: the ORM builds it for each key anew, in 0.6 ms, and whoever books has many at each commit."""


def book(sums: Mapping[int, Used]) -> None:
    """Add to the keys of these pks. A key that is gone has nobody to add to."""
    if not sums:
        return
    month = month_of(timezone.now())
    statement = ADD.format(table=connection.ops.quote_name(ApiKey._meta.db_table))
    # Always in one order: two processes that book the same keys do not lock each other.
    rows = [_values(pk, sums[pk], month) for pk in sorted(sums)]
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)


def _values(pk: int, used: Used, month: str) -> tuple[object, ...]:
    cost = connection.ops.adapt_decimalfield_value(used.cost, 18, 8)
    return used.requests, used.input_tokens, used.output_tokens, cost, cost, month, month, pk
