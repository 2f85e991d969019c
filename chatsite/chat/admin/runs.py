"""Runs: a list by what they came to, a page for each, and what it said, showed and asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from chatsite.adminkit import reading
from chatsite.adminkit.base import (
    NOTHING,
    USERNAME,
    Link,
    ReadOnlyAdmin,
    as_json,
    link_to,
    list_url,
)
from chatsite.adminkit.filters import DayFilter
from chatsite.care import asking
from chatsite.chat.admin import eventlog, filters, naming, replay, requests_page, stopping, transcript
from chatsite.chat.admin.subjects import name_threads, short_id, subject_of, transcript_url
from chatsite.chat.counting import figures
from chatsite.chat.models import Message, Run, ToolCall
from chatsite.chat.models.threads import FIGURES
from chatsite.chat.render import words


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    fields = (
        "public_id", "thread", "parent", "continuation", "state", "stop_reason", "finish_reason", "error_code", "error",
        "door", "provider", "model", "turns", "pretty_usage", "money_spent", "created_at", "finished_at", "took",
        "stop_requested", "what_a_stop_met", "owner", "beat", "heartbeat_at",
    )  # fmt: skip
    words_of_others = frozenset({"error", "what_a_stop_met"})
    list_display = (
        "short", "of_user", "in_thread", "in_state", "ended", "failure", "model", "turns", "tools",
        "failures", "tokens", "money_spent", "took", "by_door", "created_at",
    )  # fmt: skip
    list_select_related = ("thread__owner",)
    heavy = ("usage", "error", "receipt", "given")
    ordering = ("-created_at", "-pk")
    sortable_by = ("turns", "tools", "failures", "tokens", "money_spent", "took", "created_at")
    counted = FIGURES
    list_filter = (
        filters.StateFilter,
        filters.StopReasonFilter,
        filters.ModelFilter,
        filters.ErrorCodeFilter,
        filters.CalledFilter,
        filters.RunOwnerFilter,
        filters.FiguresFilter,
        DayFilter,
    )
    search_fields = found_by = ("public_id", "thread__public_id", f"thread__owner__{USERNAME}")
    search_help_text = _("Run id, thread id, or the owner's user name.")
    actions = ("stop", "as_csv")

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("chat.stop_run"))

    stop = asking.action(
        "stop",
        _("Stop selected runs…"),
        title=_("Stop runs"),
        explain=_("Each ends as if its owner had pressed Stop, and keeps what it has said:"),
        button=_("Stop them"),
        related=("thread",),
        do=lambda run, reason, actor: stopping.stop(run, reason=reason, actor=actor),
    )

    def complete(self, rows: list[Any], request: HttpRequest) -> None:
        name_threads(rows, request)
        not_yet = figures.called_of(row.pk for row in rows if not row.booked)
        for row in rows:
            if row.pk in not_yet:
                row.calls, failed = not_yet[row.pk]
                row.errors = failed + (row.state in figures.BAD_ENDS)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        known = obj is not None and (obj.thread.owner_id == request.user.pk or reading.may_read(request.user))
        return (
            self.fields if known else tuple(name for name in self.fields if name not in self.words_of_others)
        )

    def links(self, row: Any) -> Sequence[Link]:
        return (
            (_("In the transcript"), transcript_url(row.thread_id, run=row.pk)),
            (_("Event log"), reverse("admin:chat_run_events", args=[row.pk])),
            (_("Replay"), reverse("admin:chat_run_replay", args=[row.pk])),
            (_("Requests"), reverse("admin:chat_run_requests", args=[row.pk])),
            (_("Messages"), list_url(Message, run__id__exact=row.pk)),
            (_("Tool calls"), list_url(ToolCall, run__id__exact=row.pk)),
        )

    @admin.display(description=_("run"))
    def short(self, row: Any) -> str:
        return short_id(row.public_id)

    @admin.display(description=_("user"))
    def of_user(self, row: Any) -> str:
        return str(row.thread.owner)

    @admin.display(description=_("thread"))
    def in_thread(self, row: Any) -> SafeString:
        return link_to(row.thread_name, transcript_url(row.thread_id, run=row.pk))

    @admin.display(description=_("state"))
    def in_state(self, row: Any) -> str:
        return naming.called(naming.RUN_STATES, row.state)

    @admin.display(description=_("stop reason"))
    def ended(self, row: Any) -> str:
        return naming.called(naming.STOP_REASONS, row.stop_reason)

    @admin.display(description=_("error"))
    def failure(self, row: Any) -> str:
        return naming.called(naming.RUN_ERRORS, row.error_code)

    @admin.display(description=_("door"))
    def by_door(self, row: Any) -> str:
        return naming.called(naming.DOORS, row.door)

    @admin.display(description=_("tool calls"), ordering="calls")
    def tools(self, row: Any) -> SafeString | str:
        return link_to(row.calls, list_url(ToolCall, run__id__exact=row.pk)) if row.calls else NOTHING

    @admin.display(description=_("errors"), ordering="errors")
    def failures(self, row: Any) -> str:
        return str(row.errors or NOTHING)

    @admin.display(description=_("cost"), ordering="cost")
    def money_spent(self, row: Any) -> str:
        return words.money(row.cost) if row.cost is not None else NOTHING

    @admin.display(description=_("duration"), ordering="duration_ms")
    def took(self, row: Any) -> str:
        return words.duration(transcript.lasted(row)) or NOTHING

    @admin.display(description=_("receipt"))
    def what_a_stop_met(self, row: Any) -> SafeString | str:
        return as_json(row.receipt) if row.receipt else NOTHING

    @admin.display(description=_("usage"))
    def pretty_usage(self, row: Any) -> SafeString | str:
        return as_json(row.usage)

    def get_urls(self) -> list[Any]:
        events = self.admin_site.admin_view(self.events_view)
        replayed = self.admin_site.admin_view(self.replay_view)
        sent = self.admin_site.admin_view(self.requests_view)
        return [
            path("<int:pk>/events/", events, name="chat_run_events"),
            path("<int:pk>/replay/", replayed, name="chat_run_replay"),
            path("<int:pk>/requests/", sent, name="chat_run_requests"),
            path("<int:pk>/requests/<int:number>/", sent, name="chat_run_request"),
            *super().get_urls(),
        ]

    def replay_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """A moment of a run; with `part`, without the page around it."""
        self.require_view(request)
        run = get_object_or_404(Run.objects.select_related("thread", "parent"), pk=pk)
        asked = reading.opening(request, subject_of(run.thread), "replay", further="at" in request.GET)
        if asked is not None:
            return HttpResponse(status=403) if "part" in request.GET else asked
        moment = replay.page_of(run, request.GET.get("at"))
        if "part" in request.GET:
            return TemplateResponse(request, "admin/chat/moment.html", moment)
        context = {**self.admin_site.each_context(request), **moment, "links": self.links(run)}
        return TemplateResponse(request, "admin/chat/replay.html", context)

    def requests_view(self, request: HttpRequest, pk: int, number: int | None = None) -> HttpResponse:
        """What the model was sent in each turn; with a number, that request or what came back, as plain text."""
        self.require_view(request)
        run = get_object_or_404(Run.objects.select_related("thread"), pk=pk)
        asked = reading.opening(request, subject_of(run.thread), "requests", further=number is not None)
        if asked is not None:
            return asked
        if number is not None:
            part = requests_page.response_of if "response" in request.GET else requests_page.text_of
            text = part(run, number)
            return HttpResponse(text, content_type="text/plain; charset=utf-8")
        context = {
            **self.admin_site.each_context(request),
            **requests_page.page_of(run, request.GET.get("from")),
            "links": self.links(run),
        }
        return TemplateResponse(request, "admin/chat/requests.html", context)

    def events_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        self.require_view(request)
        run = get_object_or_404(Run.objects.select_related("thread"), pk=pk)
        asked = reading.opening(request, subject_of(run.thread), "events", further="page" in request.GET)
        if asked is not None:
            return asked
        context = {
            **self.admin_site.each_context(request),
            **eventlog.page_of(run, request.GET.get("page")),
            "title": _("Event log"),
            "subtitle": str(run),
            "opts": self.opts,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/chat/events.html", context)
