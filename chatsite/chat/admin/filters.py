"""Filters of the lists.

None of them reads a whole table to say what there is to choose from:

    values in an indexed column     the index is walked from value to value (`distinct_values`)
    error codes                     those that have words, and those of the newest rows
    people, days                    are typed in
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db import connections, router
from django.db.models import Exists, Model, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_date

from agent.messages import FINISH_REASONS
from chatsite.chat.admin.base import USERNAME
from chatsite.chat.models import Message, Run, ToolCall
from chatsite.chat.render import words

MOST_CHOICES = 50
NEWEST = 2_000
"""How many rows, newest first, are looked at for values of a column without an index."""

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


class ValueFilter(admin.SimpleListFilter):
    """One value of a column. The one that is chosen is listed even if nothing else names it."""

    empty = "(none)"

    def values(self) -> list[str]:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        values = self.values()
        chosen = self.value()
        if chosen is not None and chosen not in values:
            values.append(chosen)
        return [(value, words.plain(value) or self.empty) for value in values]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        value = self.value()
        return None if value is None else self.chosen(queryset, value)

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(**{str(self.parameter_name): value})


class ModelFilter(ValueFilter):
    title = "model"
    parameter_name = "model"

    def values(self) -> list[str]:
        return distinct_values(Run, "model")


class StopReasonFilter(ValueFilter):
    title = "stop reason"
    parameter_name = "stop_reason"

    def values(self) -> list[str]:
        return distinct_values(Run, "stop_reason")


class ToolNameFilter(ValueFilter):
    title = "tool"
    parameter_name = "name"

    def values(self) -> list[str]:
        return distinct_values(ToolCall, "name")


class ErrorCodeFilter(ValueFilter):
    title = "error code"
    parameter_name = "error_code"

    def __init__(self, request: HttpRequest, params: Any, model: type[Model], model_admin: Any) -> None:
        self.model = model
        self.known = words.ERROR_WORDS if model is Run else words.CALL_WORDS
        super().__init__(request, params, model, model_admin)

    def values(self) -> list[str]:
        # A tool's own codes are known only by the rows that have them.
        rows = self.model._default_manager
        newest = rows.order_by("-pk").values("pk")[:NEWEST]
        found = rows.filter(pk__in=newest).values_list("error_code", flat=True).distinct()
        return sorted({"", *self.known, *found[:MOST_CHOICES]})


class DoorFilter(ValueFilter):
    title = "door"
    parameter_name = "door"

    def values(self) -> list[str]:
        return ["page", "api", "websocket"]


class FinishReasonFilter(ValueFilter):
    title = "finish reason"
    parameter_name = "finish_reason"
    empty = "none: it broke off"

    def values(self) -> list[str]:
        return [*sorted(FINISH_REASONS), ""]

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        if value:
            return rows.filter(finish_reason=value)
        return rows.filter(role=Message.Role.ASSISTANT, finish_reason=None)


# -- threads by their last run -------------------------------------------------------------------------------


def threads_whose_last_run(**conditions: Any) -> QuerySet[Any]:
    newer = Run.objects.filter(thread=OuterRef("thread"), pk__gt=OuterRef("pk"))
    return Run.objects.filter(~Exists(newer), **conditions).values("thread_id")


class LastStateFilter(ValueFilter):
    title = "last run's state"
    parameter_name = "state"

    def values(self) -> list[str]:
        return list(Run.State.values)

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(pk__in=threads_whose_last_run(state=value))


class LastStopReasonFilter(StopReasonFilter):
    title = "last run's stop reason"

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(pk__in=threads_whose_last_run(stop_reason=value))


# -- typed in ------------------------------------------------------------------------------------------------


class FormFilter(admin.ListFilter):
    """A filter with inputs instead of a list of choices."""

    template = "admin/chat/form_filter.html"
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


class OwnerFilter(PersonFilter):
    title = "owner"
    inputs = {"owner": {"label": "User name", "type": "search"}}
    path = f"owner__{USERNAME}"


class KeyUserFilter(PersonFilter):
    title = "user"
    inputs = {"user": {"label": "User name", "type": "search"}}
    path = f"user__{USERNAME}"


class DayFilter(FormFilter):
    """Rows made from one day on, up to the end of another, in the site's time zone."""

    title = "day"
    inputs = {"since": {"label": "From", "type": "date"}, "until": {"label": "To", "type": "date"}}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        since, until = (_day(self.used_parameters.get(name, "")) for name in ("since", "until"))
        if since:
            queryset = queryset.filter(created_at__gte=_midnight(since))
        if until:
            queryset = queryset.filter(created_at__lt=_midnight(until + timedelta(days=1)))
        return queryset


def _day(text: str) -> date | None:
    """None for what is no day, and for days at the ends of the calendar, which no clock shows."""
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return day if day and 1970 <= day.year < 9999 else None


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
