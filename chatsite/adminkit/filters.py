"""Filters of the lists.

None of them reads a whole table to say what there is to choose from:

    values in an indexed column     the index is walked from value to value (`distinct_values`)
    people, days                    are typed in
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db import connections, router
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext_lazy as _

from chatsite.adminkit.base import USERNAME
from chatsite.phrases import plain

MOST_CHOICES = 50
MOST_AMOUNT = 1e15

Choices = list[tuple[str, str]]


def distinct_values(model: type[Model], column: str) -> list[str]:
    """The values of an indexed column, by one look into the index for each."""
    connection = connections[router.db_for_read(model)]
    quote = connection.ops.quote_name
    names = {"t": quote(model._meta.db_table), "c": quote(model._meta.get_field(column).column)}
    query = """
        WITH RECURSIVE found(value) AS (
            SELECT MIN({c}) FROM {t}
            UNION ALL
            SELECT (SELECT MIN({c}) FROM {t} WHERE {c} > found.value) FROM found WHERE found.value IS NOT NULL
        )
        SELECT value FROM found WHERE value IS NOT NULL LIMIT %s
    """
    with connection.cursor() as cursor:
        cursor.execute(query.format(**names), [MOST_CHOICES])
        return [value for (value,) in cursor.fetchall()]


class ValueFilter(admin.SimpleListFilter, ABC):
    """One value of a column. The one that is chosen is listed even if nothing else names it."""

    empty: Any = _("(none)")
    names: Mapping[str, Any] = {}
    """What values are called; one that is not here is called by itself."""

    @abstractmethod
    def values(self) -> list[str]:
        """What there is to choose from."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        values = self.values()
        chosen = self.value()
        if chosen is not None and chosen not in values:
            values.append(chosen)
        return [(value, self.names.get(value) or plain(value) or self.empty) for value in values]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        return None if value is None else self.chosen(queryset, value)

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(**{str(self.parameter_name): value})


class ColumnFilter(ValueFilter):
    """The values that an indexed column of `of` holds."""

    of: type[Model]
    column = ""
    """Empty: called like the parameter."""

    def values(self) -> list[str]:
        return [str(value) for value in distinct_values(self.of, self.column or str(self.parameter_name))]


# -- typed in ------------------------------------------------------------------------------------------------


class FormFilter(admin.ListFilter):
    """A filter with inputs instead of a list of choices."""

    template = "admin/form_filter.html"
    inputs: dict[str, dict[str, str]] = {}
    """Parameter -> attributes of its input."""

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: Any, model_admin: Any
    ) -> None:
        super().__init__(request, params, model, model_admin)
        for name in self.inputs:
            if name in params:
                self.used_parameters[name] = params.pop(name)[-1]

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str]:
        return list(self.inputs)

    def choices(self, changelist: ChangeList) -> Iterator[dict[str, Any]]:
        others = {name: value for name, value in changelist.params.items() if name not in self.inputs}
        inputs = [
            {"name": name, "value": self.used_parameters.get(name, ""), **more}
            for name, more in self.inputs.items()
        ]
        clear = changelist.get_query_string(dict.fromkeys(self.inputs)) if self.used_parameters else ""
        yield {"others": others, "inputs": inputs, "clear": clear}


class PersonFilter(FormFilter):
    path: str

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        name = self.used_parameters.get(next(iter(self.inputs)), "").strip()
        return queryset.filter(**{self.path: name}) if name else queryset


class UserFilter(PersonFilter):
    title = _("user")
    inputs = {"user": {"label": _("User name"), "type": "search"}}
    path = f"user__{USERNAME}"


class DayFilter(FormFilter):
    """Rows made from one day on, up to the end of another, in the site's time zone."""

    title = _("day")
    column = "created_at"
    inputs = {"since": {"label": _("From"), "type": "date"}, "until": {"label": _("To"), "type": "date"}}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        since, until = (_day(self.used_parameters.get(name, "")) for name in ("since", "until"))
        if since:
            queryset = queryset.filter(**{f"{self.column}__gte": _midnight(since)})
        if until:
            queryset = queryset.filter(**{f"{self.column}__lt": _midnight(until + timedelta(days=1))})
        return queryset


@dataclass(frozen=True, slots=True)
class Amount:
    """A column of numbers. People write it in units of `times` of the column's."""

    column: str
    label: Any
    step: str = "1"
    times: int = 1


class AmountsFilter(FormFilter):
    """Rows that are counted (`ReadOnlyAdmin.counted`) and whose numbers are at least, and at most, so much. What is no
    number asks for nothing."""

    template = "admin/amounts_filter.html"
    amounts: tuple[Amount, ...] = ()
    help_text: Any = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.inputs = {
            f"{bound}_{each.column}": {"type": "number", "step": each.step, "min": "0"}
            for each in cls.amounts
            for bound in ("min", "max")
        }

    def choices(self, changelist: ChangeList) -> Iterator[dict[str, Any]]:
        (choice,) = super().choices(changelist)
        inputs = iter(choice.pop("inputs"))
        yield choice | {
            "help_text": self.help_text,
            "rows": [(each.label, next(inputs), next(inputs)) for each in self.amounts],
        }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        for each in self.amounts:
            for bound, lookup in (("min", "gte"), ("max", "lte")):
                number = _number(self.used_parameters.get(f"{bound}_{each.column}", ""))
                if number is not None:
                    queryset = queryset.filter(calls__isnull=False)
                    queryset = queryset.filter(**{f"{each.column}__{lookup}": number * each.times})
        return queryset


def _number(text: str) -> float | None:
    """None for what is no number, or one that no column holds."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < MOST_AMOUNT else None


def _day(text: str) -> date | None:
    """None for what is no day, and for days at the ends of the calendar, which no clock shows."""
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return day if day and 1970 <= day.year < 9999 else None


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
