"""Threads, runs, messages and tool calls: lists that lead to each other, and a page for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Max, QuerySet
from django.db.models.functions import Substr
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chatsite.adminkit.base import (
    NOTHING,
    USERNAME,
    Link,
    ReadOnlyAdmin,
    as_json,
    as_json_text,
    as_text,
    link_to,
    list_url,
    row_url,
)
from chatsite.adminkit.filters import DayFilter
from chatsite.care import asking, holds
from chatsite.chat import attachments, uploads
from chatsite.chat.admin import eventlog, filters, transcript
from chatsite.chat.models import Attachment, Message, Run, Thread, ToolCall
from chatsite.chat.render import words

START_OF_TEXT = 120
SHORT_ID = 10


@admin.register(Thread)
class ThreadAdmin(ReadOnlyAdmin):
    fields = ("title", "public_id", "owner", "model", "head", "created_at", "updated_at")
    list_display = (
        "__str__", "transcript", "owner", "model", "messages", "last_state", "last_stop_reason",
        "updated_at",
    )  # fmt: skip
    list_select_related = ("owner",)
    sortable_by = ("updated_at",)
    list_filter = (
        filters.LastStateFilter,
        filters.LastStopReasonFilter,
        filters.ModelFilter,
        filters.OwnerFilter,
        DayFilter,
    )
    search_fields = ("title", "public_id", f"owner__{USERNAME}")
    search_help_text = "Title, thread id or the owner's user name."
    actions = ("hold",)

    def has_hold_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.add_hold"))

    @admin.action(description=gettext_lazy("Hold selected threads…"), permissions=["hold"])
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

    def complete(self, rows: list[Any]) -> None:
        pks = [row.pk for row in rows]
        newest = Run.objects.filter(thread__in=pks).values("thread").annotate(last=Max("pk")).values("last")
        runs = {run.thread_id: run for run in Run.objects.filter(pk__in=newest)}
        counts = Message.objects.filter(thread__in=pks).values_list("thread").annotate(Count("pk"))
        many = dict(counts)
        for row in rows:
            row.last_run = runs.get(row.pk)
            row.message_count = many.get(row.pk, 0)

    def links(self, row: Any) -> Sequence[Link]:
        return (
            ("Transcript", transcript_url(row.pk)),
            ("Runs", list_url(Run, thread__id__exact=row.pk)),
            ("Messages", list_url(Message, thread__id__exact=row.pk)),
            ("Tool calls", list_url(ToolCall, run__thread__id__exact=row.pk)),
        )

    @admin.display(description="messages")
    def messages(self, row: Any) -> SafeString:
        return link_to(row.message_count, list_url(Message, thread__id__exact=row.pk))

    @admin.display(description="last run")
    def last_state(self, row: Any) -> SafeString | str:
        return link_to(row.last_run.state, row_url(row.last_run)) if row.last_run else NOTHING

    @admin.display(description="stop reason")
    def last_stop_reason(self, row: Any) -> str:
        return (row.last_run and row.last_run.stop_reason) or NOTHING

    @admin.display(description="transcript")
    def transcript(self, row: Any) -> SafeString:
        return link_to("Read", transcript_url(row.pk))

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
        content = attachments.read(row)
        if content is None:
            raise Http404
        return HttpResponse(content, headers=uploads.headers_of(row))

    def transcript_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        self.require_view(request)
        thread = get_object_or_404(Thread.objects.select_related("owner"), pk=pk)
        context = {
            **self.admin_site.each_context(request),
            **transcript.page_of(thread, request.GET.get("page"), request.GET.get("run")),
            "links": (("Details", row_url(thread)), *self.links(thread)[1:]),
        }
        return TemplateResponse(request, "admin/chat/transcript.html", context)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    fields = (
        "public_id", "thread", "parent", "continuation", "state", "stop_reason", "finish_reason", "error_code", "error",
        "door", "provider", "model", "turns", "tokens", "created_at", "finished_at", "duration",
        "stop_requested", "what_a_stop_met", "owner", "beat", "heartbeat_at",
    )  # fmt: skip
    list_display = (
        "short_id", "in_thread", "state", "stop_reason", "finish_reason", "error_code", "model", "turns",
        "duration", "door", "created_at",
    )  # fmt: skip
    list_select_related = ("thread",)
    heavy = ("usage", "error", "receipt")
    sortable_by = ("state", "stop_reason", "model", "created_at")
    list_filter = (
        "state",
        filters.StopReasonFilter,
        filters.ModelFilter,
        filters.DoorFilter,
        filters.ErrorCodeFilter,
        DayFilter,
    )
    search_fields = ("public_id", "thread__title", "thread__public_id")
    search_help_text = "Run id, or the thread's title or id."

    def links(self, row: Any) -> Sequence[Link]:
        return (
            ("In the transcript", transcript_url(row.thread_id, run=row.pk)),
            ("Event log", reverse("admin:chat_run_events", args=[row.pk])),
            ("Messages", list_url(Message, run__id__exact=row.pk)),
            ("Tool calls", list_url(ToolCall, run__id__exact=row.pk)),
        )

    @admin.display(description="run")
    def short_id(self, row: Any) -> str:
        return row.public_id if len(row.public_id) <= SHORT_ID else f"{row.public_id[: SHORT_ID - 1]}…"

    @admin.display(description="thread")
    def in_thread(self, row: Any) -> SafeString:
        return link_to(row.thread, transcript_url(row.thread_id, run=row.pk))

    @admin.display(description="duration")
    def duration(self, row: Any) -> str:
        return words.duration(transcript.lasted(row)) or NOTHING

    @admin.display(description="receipt")
    def what_a_stop_met(self, row: Any) -> SafeString | str:
        return as_json(row.receipt) if row.receipt else NOTHING

    @admin.display(description="usage")
    def tokens(self, row: Any) -> SafeString | str:
        return as_json(row.usage)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.events_view)
        return [path("<int:pk>/events/", view, name="chat_run_events"), *super().get_urls()]

    def events_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        self.require_view(request)
        run = get_object_or_404(Run.objects.select_related("thread"), pk=pk)
        context = {
            **self.admin_site.each_context(request),
            **eventlog.page_of(run, request.GET.get("page")),
            "title": "Event log",
            "subtitle": str(run),
            "opts": self.opts,
            "media": self.media,
        }
        return TemplateResponse(request, "admin/chat/events.html", context)


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    fields = (
        "public_id", "thread", "run", "parent", "role", "finish_reason", "stop_reason", "whole_text",
        "pretty_parts", "pretty_metadata", "client_id", "created_at",
    )  # fmt: skip
    list_display = ("start_of_text", "role", "ended", "by_model", "in_thread", "created_at")
    list_select_related = ("thread",)
    heavy = ("text", "parts")
    list_annotations = {"start": Substr("text", 1, START_OF_TEXT)}
    sortable_by = ("created_at",)
    list_filter = ("role", filters.FinishReasonFilter, DayFilter)
    search_fields = ("text", "public_id", "thread__public_id")
    search_help_text = "Text, or the id of the message or of its thread."

    def links(self, row: Any) -> Sequence[Link]:
        return (
            ("In the transcript", transcript_url(row.thread_id, run=row.run_id)),
            ("What follows", list_url(Message, parent__id__exact=row.pk)),
            ("Beside it", siblings_url(row)),
        )

    @admin.display(description="text")
    def start_of_text(self, row: Any) -> str:
        return row.start.strip() or f"(no text) {row.public_id}"

    @admin.display(description="finish reason", ordering="finish_reason")
    def ended(self, row: Any) -> str:
        return transcript.finish_words(row.role, row.finish_reason)

    @admin.display(description="model")
    def by_model(self, row: Any) -> str:
        return words.plain(str(row.metadata.get("model", ""))) or NOTHING

    @admin.display(description="thread")
    def in_thread(self, row: Any) -> SafeString:
        return link_to(row.thread, transcript_url(row.thread_id, run=row.run_id))

    @admin.display(description="stop reason")
    def stop_reason(self, row: Any) -> str:
        return str(row.metadata.get("stopReason") or NOTHING)

    @admin.display(description="text")
    def whole_text(self, row: Any) -> SafeString | str:
        return as_text(row.text)

    @admin.display(description="parts")
    def pretty_parts(self, row: Any) -> SafeString | str:
        return as_json(row.parts)

    @admin.display(description="metadata")
    def pretty_metadata(self, row: Any) -> SafeString | str:
        return as_json(row.metadata)


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnlyAdmin):
    fields = (
        "call_id", "run", "name", "state", "error_code", "pretty_arguments", "pretty_edit", "pretty_result",
        "created_at", "claimed_at", "finished_at", "duration",
    )  # fmt: skip
    list_display = ("name", "state", "error_code", "duration", "of_run", "created_at")
    list_select_related = ("run",)
    heavy = ("arguments", "edited_arguments", "result")
    sortable_by = ("name", "state", "created_at")
    list_filter = ("state", filters.ToolNameFilter, filters.ErrorCodeFilter, DayFilter)
    search_fields = ("name", "call_id", "arguments")
    search_help_text = "Name, call id or arguments."
    link_lookups = frozenset({"run__thread__id__exact"})

    def links(self, row: Any) -> Sequence[Link]:
        return (
            ("In the transcript", transcript_url(row.run.thread_id, run=row.run_id)),
            ("Calls of its run", list_url(ToolCall, run__id__exact=row.run_id)),
        )

    @admin.display(description="run")
    def of_run(self, row: Any) -> SafeString:
        return link_to(row.run, row_url(row.run))

    @admin.display(description="duration")
    def duration(self, row: Any) -> str:
        return words.duration(row.duration_ms) or NOTHING

    @admin.display(description="arguments")
    def pretty_arguments(self, row: Any) -> SafeString | str:
        return as_json_text(row.arguments)

    @admin.display(description="edited by a person")
    def pretty_edit(self, row: Any) -> SafeString | str:
        return as_json_text(row.edited_arguments)

    @admin.display(description="result")
    def pretty_result(self, row: Any) -> SafeString | str:
        return as_json_text(row.result)


def transcript_url(thread_pk: int, run: int | None = None) -> str:
    address = reverse("admin:chat_thread_transcript", args=[thread_pk])
    return f"{address}?run={run}#run-{run}" if run else address


def siblings_url(row: Message) -> str:
    """The messages that share its place in the tree, itself among them."""
    if row.parent_id:
        return list_url(Message, parent__id__exact=row.parent_id)
    return list_url(Message, thread__id__exact=row.thread_id, parent__isnull=True)
