"""What a page wants to know of a period, from the rows of its days: the database sums up, times are merged here.

Rule: a page reads `MOST_LISTED` of a kind, the most frequent, and one sum of all others, however many there are. All of
them are for a file (`lines_of`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Count, QuerySet
from django.db.models import Sum as Total
from django.utils.translation import gettext as _

from chatsite.usage.models import Day
from chatsite.usage.tally import Sum, percentile, spread_of

MOST_LISTED = 50
KINDS = {"models": "model", "endpoints": "endpoint", "users": "user", "tools": "tool", "ends": "end"}
NUMBERS = ("count", "errors", "input_tokens", "output_tokens", "cost", "ms")
TOTALS = {f"{name}_": Total(name) for name in NUMBERS}
TIMED = ("all", "model")
"""Of these it is known what half of them took; of the others only what they took on average."""


@dataclass(frozen=True, slots=True)
class Line:
    """One day, model, endpoint, user, tool or end."""

    name: str
    sum: Sum

    @property
    def mean(self) -> int | None:
        return round(self.sum.ms / self.sum.count) if self.sum.count and self.sum.ms else None

    @property
    def p50(self) -> int | None:
        return percentile(self.sum.spread, 0.5)

    @property
    def p95(self) -> int | None:
        return percentile(self.sum.spread, 0.95)


@dataclass(frozen=True, slots=True)
class Top:
    """The most frequent of a kind. `others` is what the `many` behind them come to."""

    lines: tuple[Line, ...]
    many: int = 0
    others: Line | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    total: Line
    days: tuple[Line, ...]
    models: Top
    endpoints: Top
    users: Top
    tools: Top
    ends: Top


def figures_of(since: date, until: date, source: str = "") -> Figures:
    rows = _rows(since, until, source)
    days = _days(rows, since, until)
    total = Sum()
    for line in days:
        total.merge(line.sum)
    return Figures(Line("", total), days, **{name: _top(rows, about) for name, about in KINDS.items()})


def lines_of(name: str, since: date, until: date, source: str = "") -> tuple[Line, ...]:
    """All of one table: `days`, or one of `KINDS` with the most frequent first."""
    rows = _rows(since, until, source)
    return _lines(rows, KINDS[name]) if name in KINDS else _days(rows, since, until)


def _rows(since: date, until: date, source: str) -> QuerySet[Day]:
    rows = Day.objects.filter(day__range=(since, until))
    return rows.filter(source=source) if source else rows


def _days(rows: QuerySet[Day], since: date, until: date) -> tuple[Line, ...]:
    sums = _sums(rows, "all", "day")
    every = [since + timedelta(days=place) for place in range((until - since).days + 1)]
    return tuple(Line(day.isoformat(), sums.get(day, Sum())) for day in every)


def _top(rows: QuerySet[Day], about: str) -> Top:
    lines = _lines(rows, about, MOST_LISTED + 1)
    if len(lines) <= MOST_LISTED:
        return Top(lines)
    lines = lines[:MOST_LISTED]
    whole = rows.filter(about=about).aggregate(many=Count("value", distinct=True), **TOTALS)
    rest = {
        name: max(0, whole[f"{name}_"] - sum(getattr(line.sum, name) for line in lines)) for name in NUMBERS
    }
    return Top(lines, whole["many"] - MOST_LISTED, Line("", Sum(**rest)))


def _lines(rows: QuerySet[Day], about: str, most: int | None = None) -> tuple[Line, ...]:
    """The most frequent first."""
    lines = tuple(Line(value, amount) for value, amount in _sums(rows, about, "value", most).items())
    return tuple(_named(lines)) if about == "user" else lines


def _sums(rows: QuerySet[Day], about: str, by: str, most: int | None = None) -> dict[Any, Sum]:
    rows = rows.filter(about=about)
    found = rows.values(by).annotate(**TOTALS).order_by("-count_", by)[:most]
    sums = {row[by]: Sum(**{name: row[f"{name}_"] for name in NUMBERS}) for row in found}
    if about in TIMED:
        rows = rows.filter(**{f"{by}__in": list(sums)}) if most else rows
        spreads: defaultdict[Any, Counter[int]] = defaultdict(Counter)
        for value, spread in rows.values_list(by, "spread"):
            spreads[value].update(spread_of(spread.items()))
        for value, spread in spreads.items():
            sums[value].spread = spread
    return sums


def _named(lines: tuple[Line, ...]) -> Iterator[Line]:
    """Users by their names; of one who is gone, that."""
    pks = [line.name for line in lines]
    names = {
        str(pk): user.get_username() for pk, user in get_user_model()._default_manager.in_bulk(pks).items()
    }
    for line in lines:
        yield Line(names.get(line.name, _("(gone) %(key)s") % {"key": line.name}), line.sum)
