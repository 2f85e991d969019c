"""What a page wants to know of a period, from the rows of its days: the database sums up, times are merged here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.db.models import Sum as Total
from django.utils.translation import gettext as _

from chatsite.usage.models import Day
from chatsite.usage.tally import Sum, percentile, spread_of

MOST_SHOWN = 15
NUMBERS = ("count", "errors", "input_tokens", "output_tokens", "cost", "ms")
TIMED = ("all", "model")
"""Of these it is known what half of them took; of the others only what they took on average."""


@dataclass(frozen=True, slots=True)
class Line:
    """One day, model, user, tool or end."""

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
class Figures:
    total: Line
    days: tuple[Line, ...]
    models: tuple[Line, ...]
    users: tuple[Line, ...]
    tools: tuple[Line, ...]
    ends: tuple[Line, ...]


def figures_of(since: date, until: date, source: str = "") -> Figures:
    rows = Day.objects.filter(day__range=(since, until))
    rows = rows.filter(source=source) if source else rows
    days = _sums(rows, "all", "day")
    total = Sum()
    for each in days.values():
        total.merge(each)
    every = [since + timedelta(days=place) for place in range((until - since).days + 1)]
    return Figures(
        total=Line("", total),
        days=tuple(Line(day.isoformat(), days.get(day, Sum())) for day in every),
        models=_lines(rows, "model"),
        users=tuple(_named(_lines(rows, "user"))),
        tools=_lines(rows, "tool"),
        ends=_lines(rows, "end"),
    )


def _lines(rows: QuerySet[Day], about: str) -> tuple[Line, ...]:
    """The most frequent first."""
    sums = _sums(rows, about, "value")
    return tuple(
        Line(value, sums[value]) for value in sorted(sums, key=lambda value: (-sums[value].count, value))
    )


def _sums(rows: QuerySet[Day], about: str, by: str) -> dict[Any, Sum]:
    rows = rows.filter(about=about)
    sums: defaultdict[Any, Sum] = defaultdict(Sum)
    for row in rows.values(by).annotate(**{f"{name}_": Total(name) for name in NUMBERS}):
        sums[row[by]] = Sum(**{name: row[f"{name}_"] for name in NUMBERS})
    if about in TIMED:
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
