"""Exchanges and tool calls: lists by what an index answers, and who may look into one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from chatsite.adminkit import reading
from chatsite.adminkit.base import NOTHING, ReadOnlyAdmin, as_json_text, link_to, row_url
from chatsite.adminkit.filters import DayFilter, UserFilter
from chatsite.adminkit.reading import Subject
from chatsite.gateway.admin.exchange_page import PIECES, has_content, in_and_out, page_of
from chatsite.gateway.admin.filters import KeyFilter, ModelFilter, StatusFilter
from chatsite.gateway.models import Exchange, ExchangeCall, Round
from chatsite.phrases import duration, money, plain

SHORT_ID = 18


@admin.register(Exchange)
class ExchangeAdmin(ReadOnlyAdmin):
    list_display = (
        "short_id", "created_at", "status", "model", "of_key", "rounds", "tokens", "money_spent", "took",
        "error_code", "of_user",
    )  # fmt: skip
    list_select_related = ("key", "user")
    heavy = ("request", "response")
    list_filter = (StatusFilter, ModelFilter, KeyFilter, UserFilter, DayFilter)
    search_fields = found_by = ("request_id", "public_id")
    search_help_text = _("Request id, as the answer's x-request-id has it.")
    link_lookups = frozenset({"key__id__exact"})
    actions = ("as_csv",)

    @admin.display(description=_("request"))
    def short_id(self, row: Exchange) -> str:
        return plain(row.request_id, SHORT_ID) or row.public_id[:SHORT_ID]

    @admin.display(description=_("key"))
    def of_key(self, row: Exchange) -> SafeString | str:
        return link_to(plain(str(row.key), 40), row_url(row.key)) if row.key else NOTHING

    @admin.display(description=_("user"))
    def of_user(self, row: Exchange) -> str:
        return str(row.user or NOTHING)

    @admin.display(description=_("rounds"), ordering="round_count")
    def rounds(self, row: Exchange) -> str:
        return str(row.round_count)

    @admin.display(description=_("tokens"))
    def tokens(self, row: Exchange) -> str:
        return in_and_out(row)

    @admin.display(description=_("cost"))
    def money_spent(self, row: Exchange) -> str:
        return NOTHING if row.cost is None else money(row.cost)

    @admin.display(description=_("took"), ordering="ms")
    def took(self, row: Exchange) -> str:
        return duration(row.ms)

    # -- one exchange ----------------------------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        kept = self.admin_site.admin_view(self.kept_view)
        return [
            path("<int:pk>/kept/<str:piece>/", kept, name="gateway_exchange_kept"),
            path("<int:pk>/kept/<int:number>/<str:piece>/", kept, name="gateway_round_kept"),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        self.require_view(request)
        if request.method not in {"GET", "HEAD"} and "reason" not in request.POST:
            raise PermissionDenied
        if not (object_id.isascii() and object_id.isdecimal() and len(object_id) < 19):
            raise Http404
        row = get_object_or_404(Exchange.objects.select_related("key", "user"), pk=int(object_id))
        shown = not has_content(row) or row.user_id == request.user.pk or reading.may_read(request.user)
        if shown and has_content(row):
            asked = reading.opening(request, subject_of(row), "exchange")
            if asked is not None:
                return asked
        context = {
            **self.admin_site.each_context(request),
            **page_of(row, content=shown),
        }
        return TemplateResponse(request, "admin/gateway/exchange.html", context)

    def kept_view(self, request: HttpRequest, pk: int, piece: str, number: int | None = None) -> HttpResponse:
        """A kept text exactly as it was kept."""
        self.require_view(request)
        if piece not in PIECES:
            raise Http404
        subject = subject_of(get_object_or_404(Exchange.objects.only("public_id", "user_id"), pk=pk))
        asked = reading.opening(request, subject, f"kept {piece}", further=True)
        if asked is not None:
            return asked
        if number is None:
            row: Any = get_object_or_404(Exchange.objects.only(piece), pk=pk)
        else:
            row = get_object_or_404(Round.objects.only(piece), exchange=pk, number=number)
        return HttpResponse(getattr(row, piece), content_type="text/plain; charset=utf-8")


@admin.register(ExchangeCall)
class ExchangeCallAdmin(ReadOnlyAdmin):
    fields = (
        "call_id", "name", "state", "error_code", "key", "of_exchange", "pretty_arguments", "pretty_result",
        "claimed_at", "finished_at",
    )  # fmt: skip
    list_display = ("name", "state", "error_code", "key", "claimed_at", "finished_at")
    list_select_related = ("key",)
    heavy = ("arguments", "result")
    list_filter = ("state",)
    search_fields = found_by = ("exchange_id",)
    search_help_text = _("The exchange's id.")

    def subject_of(self, row: Any) -> Subject | None:
        if not (row.arguments or row.result):
            return None
        return Subject(f"exchange {row.exchange_id}", row.key and row.key.user_id, "exchange.opened")

    @admin.display(description=_("exchange"))
    def of_exchange(self, row: ExchangeCall) -> SafeString | str:
        pk = Exchange.objects.filter(public_id=row.exchange_id).values_list("pk", flat=True).first()
        return link_to(row.exchange_id, exchange_url(pk)) if pk else row.exchange_id

    @admin.display(description=_("arguments"))
    def pretty_arguments(self, row: ExchangeCall) -> SafeString | str:
        return as_json_text(row.arguments)

    @admin.display(description=_("result"))
    def pretty_result(self, row: ExchangeCall) -> SafeString | str:
        return as_json_text(row.result)


def subject_of(row: Exchange) -> Subject:
    return Subject(f"exchange {row.public_id}", row.user_id, "exchange.opened")


def exchange_url(pk: int) -> str:
    return reverse("admin:gateway_exchange_change", args=[pk])
