"""The page of figures: pictures with their tables, for a period, of the chat, the gateway or both; and each as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from chatsite import outcomes
from chatsite.adminkit.base import NOTHING
from chatsite.adminkit.pages import PageAdmin
from chatsite.adminkit.sheets import csv_response
from chatsite.phrases import duration, money, number
from chatsite.usage import charts
from chatsite.usage.charts import Series
from chatsite.usage.figures import KINDS, Figures, Line, Top, figures_of, lines_of
from chatsite.usage.models import Day

PERIODS = (7, 30, 90, 365)
LONGEST = 3 * 366
TABLES = ("days", *KINDS)
MOST_DRAWN = 15
MOST_DAYS = 400
COLUMNS = ("count", "errors", "input_tokens", "output_tokens", "cost", "mean_ms", "p50_ms", "p95_ms")


@dataclass(frozen=True, slots=True)
class Period:
    since: date
    until: date


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers below a picture. `name` is what its CSV is called by."""

    name: str
    title: str
    first: str
    pictures: tuple[SafeString, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int
    """Days that are in the CSV alone."""


@admin.register(Day)
class DayAdmin(PageAdmin):
    page_template = "admin/usage/usage.html"
    page_title = gettext_lazy("Usage")

    def answer(self, request: HttpRequest) -> HttpResponse:
        if (wanted := request.GET.get("csv")) is not None:
            return _csv(wanted, period_of(request), source_of(request))
        return super().answer(request)

    def content(self, request: HttpRequest) -> dict[str, Any]:
        period, source = period_of(request), source_of(request)
        figures = figures_of(period.since, period.until, source)
        return {
            "period": period,
            "days": (period.until - period.since).days + 1,
            "periods": PERIODS,
            "source": source,
            "sources": Day.Source.choices,
            "facts": tuple(_facts(figures.total)),
            "tables": tuple(tables_of(figures)),
        }


def period_of(request: HttpRequest) -> Period:
    """The days that one asked for, or the last thirty; what is no period is not taken for one."""
    today = timezone.now().date()
    since, until = (_day(request.GET.get(name, "")) for name in ("since", "until"))
    if since and until and since <= until and (until - since).days < LONGEST:
        return Period(since, until)
    days = request.GET.get("days", "")
    many = int(days) if days in map(str, PERIODS) else 30
    return Period(today - timedelta(days=many - 1), today)


def source_of(request: HttpRequest) -> str:
    source = request.GET.get("source", "")
    return source if source in Day.Source.values else ""


def _day(text: str) -> date | None:
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return day if day and 1970 <= day.year < 9000 else None


# -- numbers -------------------------------------------------------------------------------------------------


def _facts(total: Line) -> Iterator[tuple[str, str]]:
    amount = total.sum
    yield _("Runs"), number(amount.count)
    yield _("Errors"), f"{number(amount.errors)} ({_percent(amount.errors, amount.count)})"
    yield _("Tokens"), _("%(sent)s in, %(received)s out") % {
        "sent": number(amount.input_tokens), "received": number(amount.output_tokens),
    }  # fmt: skip
    yield _("Cost"), _money(amount.cost)
    yield _("Half took at most"), duration(total.p50) or NOTHING
    yield _("95 of 100 took at most"), duration(total.p95) or NOTHING


def _percent(part: int, whole: int) -> str:
    return f"{number(part / whole * 100, 1)} %" if whole else NOTHING


def _money(amount: float) -> str:
    return f"{getattr(settings, 'MODEL_PRICES_UNIT', '$')}{money(Decimal(str(round(amount, 6))))}"


def _csv(wanted: str, period: Period, source: str) -> HttpResponse:
    if wanted not in TABLES:
        raise Http404
    rows = [
        (
            line.name, line.sum.count, line.sum.errors, line.sum.input_tokens, line.sum.output_tokens,
            round(line.sum.cost, 6), line.mean, line.p50, line.p95,
        )
        for line in lines_of(wanted, period.since, period.until, source)
    ]  # fmt: skip
    return csv_response(f"usage-{wanted}-{period.since}-{period.until}.csv", (wanted[:-1], *COLUMNS), rows)


# -- pictures and tables -------------------------------------------------------------------------------------


def tables_of(figures: Figures) -> Iterator[Table]:
    days = [_cells(line) for line in reversed(figures.days) if line.sum.count]
    pictures = tuple(_of_days(figures.days))
    yield Table(
        "days", _("By day"), _("Day"), pictures, tuple(days[:MOST_DAYS]), max(0, len(days) - MOST_DAYS)
    )
    for name, title, first, top in (
        ("models", _("By model"), _("Model"), figures.models),
        ("endpoints", _("By endpoint"), _("Endpoint"), figures.endpoints),
        ("users", _("By user"), _("User"), figures.users),
        ("tools", _("By tool"), _("Tool"), figures.tools),
        ("ends", _("How they ended"), _("Stop reason"), figures.ends),
    ):
        top = replace(top, lines=tuple(map(_in_words, top.lines))) if name == "ends" else top
        pictures = tuple(_of_lines(name, title, top.lines[:MOST_DRAWN]))
        yield Table(name, title, first, pictures, tuple(_with_others(top)), 0)


def _of_days(days: Sequence[Line]) -> Iterator[SafeString]:
    places = [line.name for line in days]

    def series(name: str, values: Iterator[float | None]) -> Series:
        return Series(name, tuple(values))

    good = series(_("ended well"), (line.sum.count - line.sum.errors for line in days))
    bad = series(_("errors"), (line.sum.errors for line in days))
    yield charts.bars("runs", _("Runs a day"), places, (good, bad), number)
    sent = series(_("tokens in"), (line.sum.input_tokens for line in days))
    received = series(_("tokens out"), (line.sum.output_tokens for line in days))
    yield charts.bars("tokens", _("Tokens a day"), places, (sent, received), number)
    spent = series(_("cost"), (line.sum.cost for line in days))
    yield charts.bars("cost", _("Cost a day"), places, (spent,), _money)
    half = series(_("half took at most"), (line.p50 for line in days))
    slow = series(_("95 of 100 took at most"), (line.p95 for line in days))
    yield charts.lines(
        "latency", _("How long they took"), places, (half, slow), lambda ms: duration(round(ms))
    )


def _of_lines(name: str, title: str, lines: Sequence[Line]) -> Iterator[SafeString]:
    if lines:
        rows = [(line.name, float(line.sum.count)) for line in lines]
        yield charts.lying(name, title, rows, number)


def _in_words(line: Line) -> Line:
    return replace(line, name=outcomes.called(outcomes.STOP_REASONS, line.name))


def _with_others(top: Top) -> Iterator[tuple[str, ...]]:
    yield from (_cells(line) for line in top.lines if line.sum.count)
    if top.others is not None:
        words = ngettext("and %(n)s other", "and %(n)s others", top.many) % {"n": number(top.many)}
        yield (words, *_cells(top.others)[1:])


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.name, number(line.sum.count), number(line.sum.errors), number(line.sum.input_tokens),
        number(line.sum.output_tokens), _money(line.sum.cost), duration(line.mean) or NOTHING,
        duration(line.p50) or NOTHING, duration(line.p95) or NOTHING,
    )  # fmt: skip
