"""A page of the admin that asks for a reason before something is done, and does it then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from chatsite.care.forms import ReasonForm
from chatsite.care.holds import Refused

MOST = 100
"""Rows that one action takes: each is a transaction, and an entry of the audit log."""


def action(
    name: str,
    description: Any,
    *,
    do: Callable[[Any, str, Any], object],
    related: Sequence[str] = (),
    named: Callable[[Any], str] = str,
    **words: Any,
) -> Any:
    """An action of a list for whoever has the permission of its name: `do` is told row, reason and who acts.

    `related`: what of a row is read along. `words`: title, explain, button.
    """

    @admin.action(description=description, permissions=[name])
    def start(
        page: admin.ModelAdmin[Any], request: HttpRequest, queryset: QuerySet[Any]
    ) -> HttpResponse | None:
        return _each_with_reason(
            page,
            request,
            queryset.select_related(*related) if related else queryset,
            action=name,
            do=lambda row, reason: do(row, reason, request.user),
            name=named,
            **words,
        )

    return start


def _each_with_reason(
    page: admin.ModelAdmin[Any],
    request: HttpRequest,
    rows: Iterable[Any],
    *,
    action: str,
    title: str,
    explain: str,
    button: str,
    do: Callable[[Any, str], object],
    name: Callable[[Any], str],
) -> HttpResponse | None:
    """Asks once, then does it to each row; what is refused is said, row by row."""
    rows = list(rows)[:MOST]
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    if form.is_valid():
        done = sum(_done(request, row, form.cleaned_data["reason"], do, name) for row in rows)
        messages.info(request, _("Done: %(done)s of %(all)s.") % {"done": done, "all": len(rows)})
        return None
    hidden = [("action", action), *((ACTION_CHECKBOX_NAME, row.pk) for row in rows)]
    names = [name(row) for row in rows]
    return ask(page, request, form, title=title, explain=explain, button=button, rows=names, hidden=hidden)


def _done(
    request: HttpRequest,
    row: Any,
    reason: str,
    do: Callable[[Any, str], object],
    name: Callable[[Any], str],
) -> bool:
    try:
        do(row, reason)
    except Refused as refused:
        messages.error(request, f"{name(row)}: {refused}")
        return False
    return True


def ask(page: admin.ModelAdmin[Any], request: HttpRequest, form: forms.Form, **context: Any) -> HttpResponse:
    """`context`: title, explain, button; and `rows` and `hidden`, where they are chosen already."""
    shown = {
        **page.admin_site.each_context(request),
        "opts": page.opts,
        "media": page.media,
        "form": form,
        **context,
    }
    return TemplateResponse(request, "admin/care/ask.html", shown)


def to(address: str) -> HttpResponse:
    return HttpResponseRedirect(address, status=303)
