"""Threads and runs: lists that lead to each other, and a page for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
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
    row_url,
)
from chatsite.adminkit.filters import DayFilter
from chatsite.care import asking, holds
from chatsite.chat import attachments, uploads
from chatsite.chat.admin import eventlog, filters, replay, requests_page, transcript
from chatsite.chat.admin.subjects import name_for, name_threads, short_id, subject_of, transcript_url
from chatsite.chat.models import Attachment, Message, Run, Thread, ToolCall
from chatsite.chat.render import words


@admin.register(Thread)
class ThreadAdmin(ReadOnlyAdmin):
    fields = ("title", "public_id", "owner", "model", "head", "created_at", "updated_at")
    list_display = (
        "name", "transcript", "owner", "model", "messages", "last_state", "last_stop_reason", "created_at",
        "updated_at",
    )  # fmt: skip
    list_select_related = ("owner",)
    ordering = ("-created_at", "-pk")
    sortable_by = ("created_at",)
    list_filter = (
        filters.LastStateFilter,
        filters.LastStopReasonFilter,
        filters.OwnerFilter,
        DayFilter,
    )
    search_fields = found_by = ("public_id", f"owner__{USERNAME}")
    search_help_text = _("Thread id, or the owner's user name.")
    actions = ("hold",)

    def has_hold_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.add_hold"))

    @admin.action(description=_("Hold selected threads…"), permissions=["hold"])
    def hold(self, request: HttpRequest, queryset: QuerySet[Thread]) -> HttpResponse | None:
        return asking.each_with_reason(
            self,
            request,
            queryset.select_related("owner"),
            action="hold",
            title=gettext("Place a hold"),
            explain=gettext("No rule of retention, no deletion and no erasure touches these threads then:"),
            button=gettext("Place the hold"),
            do=lambda thread, reason: holds.place(
                user=thread.owner, thread=thread.public_id, reason=reason, actor=request.user, door="admin"
            ),
        )

    def complete(self, rows: list[Any], request: HttpRequest) -> None:
        pks = [row.pk for row in rows]
        newest = Run.objects.filter(thread__in=pks).values("thread").annotate(last=Max("pk")).values("last")
        runs = {
            run.thread_id: run
            for run in Run.objects.filter(pk__in=list(newest.values_list("last", flat=True)))
        }
        counts = Message.objects.filter(thread__in=pks).values_list("thread").annotate(Count("pk"))
        many = dict(counts)
        for row in rows:
            row.thread_name = name_for(request.user, row)
            row.last_run = runs.get(row.pk)
            row.message_count = many.get(row.pk, 0)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        known = obj is not None and (obj.owner_id == request.user.pk or reading.may_read(request.user))
        return self.fields if known else tuple(name for name in self.fields if name != "title")

    def links(self, row: Any) -> Sequence[Link]:
        return (
            (_("Transcript"), transcript_url(row.pk)),
            (_("Runs"), list_url(Run, thread__id__exact=row.pk)),
            (_("Messages"), list_url(Message, thread__id__exact=row.pk)),
            (_("Tool calls"), list_url(ToolCall, run__thread__id__exact=row.pk)),
        )

    @admin.display(description=_("thread"))
    def name(self, row: Any) -> str:
        return row.thread_name

    @admin.display(description=_("messages"))
    def messages(self, row: Any) -> SafeString:
        return link_to(row.message_count, list_url(Message, thread__id__exact=row.pk))

    @admin.display(description=_("last run"))
    def last_state(self, row: Any) -> SafeString | str:
        return link_to(row.last_run.state, row_url(row.last_run)) if row.last_run else NOTHING

    @admin.display(description=_("stop reason"))
    def last_stop_reason(self, row: Any) -> str:
        return (row.last_run and row.last_run.stop_reason) or NOTHING

    @admin.display(description=_("transcript"))
    def transcript(self, row: Any) -> SafeString:
        return link_to(_("Read"), transcript_url(row.pk))

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.transcript_view)
        files = self.admin_site.admin_view(self.attachment_view)
        return [
            path("<int:pk>/transcript/", view, name="chat_thread_transcript"),
            path("<int:pk>/transcript/attachments/<str:id>", files, name="chat_thread_attachment"),
            *super().get_urls(),
        ]

    def attachment_view(self, request: HttpRequest, pk: int, id: str) -> HttpResponse:
        """A file that the transcript shows, for whoever may read that."""
        self.require_view(request)
        row = get_object_or_404(Attachment, threads=pk, public_id=id)
        thread = get_object_or_404(Thread, pk=pk)
        asked = reading.opening(request, subject_of(thread), f"attachment {row.public_id}", further=True)
        if asked is not None:
            return asked
        content = attachments.read(row)
        if content is None:
            raise Http404
        return HttpResponse(content, headers=uploads.headers_of(row))

    def transcript_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        self.require_view(request)
        thread = get_object_or_404(Thread.objects.select_related("owner"), pk=pk)
        further = bool({"page", "q"} & set(request.GET))
        asked = reading.opening(request, subject_of(thread), "transcript", further=further)
        if asked is not None:
            return asked
        context = {
            **self.admin_site.each_context(request),
            **transcript.page_of(
                thread, request.GET.get("page"), request.GET.get("run"), request.GET.get("q", "")
            ),
            "links": ((_("Details"), row_url(thread)), *self.links(thread)[1:]),
        }
        return TemplateResponse(request, "admin/chat/transcript.html", context)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    fields = (
        "public_id", "thread", "parent", "continuation", "state", "stop_reason", "finish_reason", "error_code", "error",
        "door", "provider", "model", "turns", "pretty_usage", "money_spent", "created_at", "finished_at", "took",
        "stop_requested", "what_a_stop_met", "owner", "beat", "heartbeat_at",
    )  # fmt: skip
    words_of_others = frozenset({"error", "what_a_stop_met"})
    list_display = (
        "short", "of_user", "in_thread", "state", "stop_reason", "error_code", "model", "turns", "tools",
        "tokens", "money_spent", "took", "door", "created_at",
    )  # fmt: skip
    list_select_related = ("thread__owner",)
    heavy = ("usage", "error", "receipt", "given")
    ordering = ("-created_at", "-pk")
    sortable_by = ("tokens", "money_spent", "took", "created_at")
    list_filter = (
        filters.StateFilter,
        filters.StopReasonFilter,
        filters.ModelFilter,
        filters.ErrorCodeFilter,
        filters.CalledFilter,
        filters.RunOwnerFilter,
        DayFilter,
    )
    search_fields = found_by = ("public_id", "thread__public_id", f"thread__owner__{USERNAME}")
    search_help_text = _("Run id, thread id, or the owner's user name.")

    def complete(self, rows: list[Any], request: HttpRequest) -> None:
        name_threads(rows, request)
        counts = dict(
            ToolCall.objects.filter(run__in=[row.pk for row in rows]).values_list("run").annotate(Count("pk"))
        )
        for row in rows:
            row.call_count = counts.get(row.pk, 0)

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

    @admin.display(description=_("tools"))
    def tools(self, row: Any) -> SafeString | str:
        return (
            link_to(row.call_count, list_url(ToolCall, run__id__exact=row.pk)) if row.call_count else NOTHING
        )

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
        """What the model was sent in each turn; with a number, that request as plain text."""
        self.require_view(request)
        run = get_object_or_404(Run.objects.select_related("thread"), pk=pk)
        asked = reading.opening(request, subject_of(run.thread), "requests", further=number is not None)
        if asked is not None:
            return asked
        if number is not None:
            text = requests_page.text_of(run, number)
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
