"""Filters of the chat's lists, beside those that every list may have.

values in an indexed column     the index is walked from value to value (`distinct_values`)
error codes                     those that have words, and those of the newest rows
"""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, Model, OuterRef, QuerySet
from django.http import HttpRequest

from agent.messages import FINISH_REASONS
from chatsite.adminkit.base import USERNAME
from chatsite.adminkit.filters import MOST_CHOICES, PersonFilter, ValueFilter, distinct_values
from chatsite.chat.models import Message, Run, ToolCall
from chatsite.chat.render import words

NEWEST = 2_000
"""How many rows, newest first, are looked at for values of a column without an index."""


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


class OwnerFilter(PersonFilter):
    title = "owner"
    inputs = {"owner": {"label": "User name", "type": "search"}}
    path = f"owner__{USERNAME}"
