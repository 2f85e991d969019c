"""Filters of the list of exchanges."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from chatsite.accounts.models import ApiKey
from chatsite.adminkit.filters import ColumnFilter, FormFilter
from chatsite.gateway.models import Exchange


class ModelFilter(ColumnFilter):
    title = _("model")
    parameter_name = "model"
    of = Exchange


class StatusFilter(ColumnFilter):
    title = _("status")
    parameter_name = "status"
    of = Exchange

    def chosen(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        # Beyond what the column holds, PostgreSQL would refuse the question.
        known = value.isascii() and value.isdecimal() and len(value) < 9
        return rows.filter(status=int(value)) if known else rows.none()


class KeyFilter(FormFilter):
    title = _("key")
    inputs = {"key": {"label": _("Label, or how it begins"), "type": "search"}}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        given = self.used_parameters.get("key", "").strip()
        if not given:
            return queryset
        keys = ApiKey.objects.filter(Q(label=given) | Q(hint=given.rstrip("…")))
        return queryset.filter(key__in=list(keys.values_list("pk", flat=True)[:200]))
