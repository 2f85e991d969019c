"""Filters of the chat's lists, beside those that every list may have. Each is answered by an index."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, Model, OuterRef, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from agent.messages import FINISH_REASONS
from chatsite.adminkit.base import USERNAME
from chatsite.adminkit.filters import (
    Amount,
    AmountsFilter,
    ColumnFilter,
    PersonFilter,
    ValueFilter,
    distinct_values,
)
from chatsite.chat.admin import naming
from chatsite.chat.models import Message, Run, ToolCall

NEWEST = 5_000
"""Of the runs in one state, how many a list of threads looks at: what ended long ago is found by its runs."""


class StateFilter(ValueFilter):
    title = _("state")
    parameter_name = "state"

    def __init__(self, request: HttpRequest, params: Any, model: type[Model], model_admin: Any) -> None:
        self.states = list(model.State.values)
        self.names = naming.RUN_STATES if model is Run else naming.CALL_STATES
        super().__init__(request, params, model, model_admin)

    def values(self) -> list[str]:
        return list(self.states)


class ModelFilter(ColumnFilter):
    title = _("model")
    parameter_name = "model"
    of = Run


class StopReasonFilter(ColumnFilter):
    title = _("stop reason")
    parameter_name = "stop_reason"
    of = Run
    names = naming.STOP_REASONS


class ToolNameFilter(ColumnFilter):
    title = _("tool")
    parameter_name = column = "name"
    of = ToolCall


class CalledFilter(ToolNameFilter):
    """Runs that called a tool."""

    title = _("called tool")
    parameter_name = "tool"

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        newest = ToolCall.objects.filter(name=value).order_by("-created_at").values("run_id")[:NEWEST]
        return rows.filter(pk__in=newest)


class ThreadCalledFilter(CalledFilter):
    """Threads in which a tool was called."""

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        newest = ToolCall.objects.filter(name=value).order_by("-created_at")
        return rows.filter(pk__in=newest.values("run__thread_id")[:NEWEST])


class ErrorCodeFilter(ValueFilter):
    title = _("error code")
    parameter_name = "error_code"

    def __init__(self, request: HttpRequest, params: Any, model: type[Model], model_admin: Any) -> None:
        self.model = model
        self.names = naming.RUN_ERRORS if model is Run else naming.CALL_ERRORS
        super().__init__(request, params, model, model_admin)

    def values(self) -> list[str]:
        return sorted({"", *self.names, *distinct_values(self.model, "error_code")})


class RoleFilter(ValueFilter):
    """Assistants' messages are found by how they ended."""

    title = _("role")
    parameter_name = "role"

    def values(self) -> list[str]:
        return [role for role in Message.Role.values if role != Message.Role.ASSISTANT]

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(role=value, finish_reason=None)


class FinishReasonFilter(ValueFilter):
    title = _("finish reason")
    parameter_name = "finish_reason"
    empty = _("none: it broke off")

    def values(self) -> list[str]:
        return [*sorted(FINISH_REASONS), ""]

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(role=Message.Role.ASSISTANT, finish_reason=value or None)


class FiguresFilter(AmountsFilter):
    """Of runs and of threads, whose columns have the same names."""

    title = _("figures")
    help_text = _("They are counted about a minute after a run has ended.")
    amounts = (
        Amount("turns", _("Turns")),
        Amount("calls", _("Tool calls")),
        Amount("errors", _("Errors")),
        Amount("tokens", _("Tokens")),
        Amount("cost", _("Cost"), step="any"),
        Amount("duration_ms", _("Seconds"), step="any", times=1000),
    )


# -- threads by their last run -------------------------------------------------------------------------------


def threads_whose_last_run(**conditions: Any) -> QuerySet[Any]:
    newest = Run.objects.filter(**conditions).order_by("-created_at").values("pk")[:NEWEST]
    newer = Run.objects.filter(thread=OuterRef("thread"), pk__gt=OuterRef("pk"))
    return Run.objects.filter(~Exists(newer), pk__in=newest).values("thread_id")


class LastStateFilter(StateFilter):
    title = _("last run's state")

    def __init__(self, request: HttpRequest, params: Any, model: type[Model], model_admin: Any) -> None:
        super().__init__(request, params, Run, model_admin)

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(pk__in=threads_whose_last_run(state=value))


class LastStopReasonFilter(StopReasonFilter):
    title = _("last run's stop reason")

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        return rows.filter(pk__in=threads_whose_last_run(stop_reason=value))


class OwnerFilter(PersonFilter):
    title = _("owner")
    inputs = {"owner": {"label": _("User name"), "type": "search"}}
    path = f"owner__{USERNAME}"


class RunOwnerFilter(OwnerFilter):
    path = f"thread__owner__{USERNAME}"
