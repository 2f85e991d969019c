"""Sums onto the rows of their days. Whoever books holds a transaction, so nothing is counted twice or lost."""

from __future__ import annotations

from django.db import transaction

from chatsite.usage.models import Day
from chatsite.usage.tally import Key, Sum, Tally, spread_of

COLUMNS = ("count", "errors", "input_tokens", "output_tokens", "cost", "ms", "spread")


def book(tally: Tally) -> None:
    """Add the sums to their rows. Always in one order: two processes that book the same days do not lock each other."""
    if not tally:
        return
    sums = tally.sums
    keys = sorted(sums)
    with transaction.atomic():
        Day.objects.bulk_create((_empty(key) for key in keys), ignore_conflicts=True)
        rows = [(_held(key), sums[key]) for key in keys]
        for row, more in rows:
            _add(row, more)
        Day.objects.bulk_update([row for row, _ in rows], COLUMNS, batch_size=100)


def _empty(key: Key) -> Day:
    day, source, about, value = key
    return Day(day=day, source=source, about=about, value=value)


def _held(key: Key) -> Day:
    day, source, about, value = key
    return Day.objects.select_for_update().get(day=day, source=source, about=about, value=value)


def _add(row: Day, more: Sum) -> None:
    row.count += more.count
    row.errors += more.errors
    row.input_tokens += more.input_tokens
    row.output_tokens += more.output_tokens
    row.cost += more.cost
    row.ms += more.ms
    spread = spread_of(row.spread.items()) + more.spread
    row.spread = {str(bucket): count for bucket, count in sorted(spread.items())}
