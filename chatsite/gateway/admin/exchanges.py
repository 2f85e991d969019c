"""Exchanges and tool calls: lists by what an index answers, and a page with everything about one exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent.messages import Message
from chatsite.accounts.models import ApiKey
from chatsite.adminkit import reading
from chatsite.adminkit.base import NOTHING, Link, ReadOnlyAdmin, as_json_text, link_to, list_url, row_url
from chatsite.adminkit.filters import DayFilter, FormFilter, UserFilter, ValueFilter, distinct_values
from chatsite.adminkit.reading import Subject
from chatsite.gateway.admin import conversation
from chatsite.gateway.admin.conversation import Asked
from chatsite.gateway.models import Counted, Exchange, ExchangeCall, Round
from chatsite.phrases import count, duration, money, number, plain

SHORT_ID = 18
MOST_MESSAGES = 100
"""Of one request, on the page; how many came before them is said."""
MOST_ROUNDS = 50
PIECES = ("request", "response")


# -- filters -------------------------------------------------------------------------------------------------


class ModelFilter(ValueFilter):
    title = _("model")
    parameter_name = "model"

    def values(self) -> list[str]:
        return distinct_values(Exchange, "model")


class StatusFilter(ValueFilter):
    title = _("status")
    parameter_name = "status"

    def values(self) -> list[str]:
        return [str(status) for status in distinct_values(Exchange, "status")]

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


# -- the lists -----------------------------------------------------------------------------------------------


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


def in_and_out(row: Counted) -> str:
    tokens = {"input": number(row.input_tokens), "output": number(row.output_tokens)}
    return gettext("%(input)s in, %(output)s out") % tokens


def subject_of(row: Exchange) -> Subject:
    return Subject(f"exchange {row.public_id}", row.user_id, "exchange.opened")


def has_content(row: Exchange) -> bool:
    """Whether anything that was said is kept of it."""
    if row.request or row.response:
        return True
    return row.rounds.exclude(request="", response="").exists()


def exchange_url(pk: int) -> str:
    return reverse("admin:gateway_exchange_change", args=[pk])


# -- the page ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept text: set out in lines, and where it stands alone."""

    title: str
    text: SafeString | str
    url: str


@dataclass(frozen=True, slots=True)
class RoundView:
    row: Round
    title: str
    facts: tuple[Link, ...]
    added: SafeString | None
    answer: SafeString | None
    kept: tuple[Kept, ...]


def page_of(exchange: Exchange, *, content: bool = True) -> dict[str, Any]:
    """The page of an exchange. Without `content`: what it came to, and nothing that was said."""
    if not content:
        facts = tuple(_facts(exchange, None))
        return {"exchange": exchange, "facts": facts, "closed": True, "links": _links(exchange)}
    asked = conversation.asked_in(exchange.request, exchange.dialect)
    answer = conversation.answered_in(exchange.response, exchange.dialect)
    rows = list(exchange.rounds.order_by("number")[: MOST_ROUNDS + 1])
    return {
        "exchange": exchange,
        "facts": tuple(_facts(exchange, asked)),
        "system": asked.system if asked else "",
        "earlier": max(0, len(asked.messages) - MOST_MESSAGES) if asked else 0,
        "conversation": _conversation(asked, answer),
        "kept": tuple(_kept(exchange)),
        "rounds": tuple(_round_views(rows[:MOST_ROUNDS])),
        "more_rounds": exchange.round_count - MOST_ROUNDS,
        "calls": tuple(ExchangeCall.objects.filter(exchange_id=exchange.public_id).order_by("pk")),
        "links": _links(exchange),
    }


def _conversation(asked: Asked | None, answer: Message | None) -> SafeString | None:
    messages = [*(asked.messages[-MOST_MESSAGES:] if asked else ()), *([answer] if answer else ())]
    return conversation.html_of(messages, "x") if messages else None


def _links(exchange: Exchange) -> tuple[Link, ...]:
    if exchange.key is None:
        return ()
    return (
        (_("Its key"), row_url(exchange.key)),
        (_("All of its key"), list_url(Exchange, key__id__exact=exchange.key.pk)),
    )


def _facts(row: Exchange, asked: Asked | None) -> Iterator[Link]:
    yield (
        _("Status"),
        f"{row.status or NOTHING}" + (gettext(" (the caller had left)") if row.status == 499 else ""),
    )
    if row.error_code:
        yield _("Error"), row.error_code
    yield _("Model"), row.model or NOTHING
    yield _("Dialect"), row.dialect + (gettext(", streamed") if row.stream else "")
    yield _("Key"), str(row.key or NOTHING)
    yield _("User"), str(row.user or NOTHING)
    yield _("Started"), f"{row.created_at:%Y-%m-%d %H:%M:%S} UTC"
    yield _("Rounds"), count(row.round_count, "round")
    yield from _counted(row)
    if asked and asked.tools:
        yield _("Tools"), plain(", ".join(asked.tools), 300)


def _counted(row: Counted) -> Iterator[Link]:
    yield _("Tokens"), in_and_out(row)
    for name, tokens in (
        (_("Reasoning"), row.reasoning_tokens),
        (_("From cache"), row.cached_input_tokens),
        (_("To cache"), row.cache_write_input_tokens),
    ):
        if tokens:
            yield name, number(tokens)
    yield _("Cost"), NOTHING if row.cost is None else money(row.cost)
    yield _("Took"), duration(row.ms)
    if row.first_byte_ms is not None:
        yield _("First byte"), duration(row.first_byte_ms)


def _round_views(rows: Sequence[Round]) -> Iterator[RoundView]:
    before: Asked | None = None
    for row in rows:
        asked = conversation.asked_in(row.request, row.dialect)
        added = asked.since(before)[-MOST_MESSAGES:] if asked and row.depth else ()
        answer = conversation.answered_in(row.response, row.dialect)
        yield RoundView(
            row=row,
            title=_title(row),
            facts=tuple(_round_facts(row)),
            added=conversation.html_of(added, f"a{row.number}") if added else None,
            answer=conversation.html_of([answer], f"r{row.number}") if answer else None,
            kept=tuple(_kept(row)),
        )
        before = asked or before


def _title(row: Round) -> str:
    named = {"number": row.number, "depth": row.depth, "hook": row.asked_by}
    if row.asked_by:
        return gettext("Round %(number)s: rerun %(depth)s, asked for by %(hook)s") % named
    if row.depth:
        return gettext("Round %(number)s: rerun %(depth)s") % named
    return gettext("Round %(number)s") % named


def _round_facts(row: Round) -> Iterator[Link]:
    yield _("Endpoint"), row.endpoint or NOTHING
    yield _("Model"), row.model or NOTHING
    yield _("Dialect"), row.dialect or NOTHING
    yield _("Status"), str(row.status or _("no answer"))
    if row.error_code:
        yield _("Error"), row.error_code
    if row.stop_reason:
        yield _("Stop reason"), row.stop_reason
    yield from _counted(row)


def _kept(row: Exchange | Round) -> Iterator[Kept]:
    """The texts of an exchange or a round that there are."""
    name, at = "admin:gateway_exchange_kept", [row.pk]
    if isinstance(row, Round):
        name, at = "admin:gateway_round_kept", [row.exchange_id, row.number]
    for piece, title in zip(PIECES, (_("Request"), _("Answer")), strict=True):
        if text := getattr(row, piece):
            yield Kept(title, as_json_text(text), reverse(name, args=[*at, piece]))
