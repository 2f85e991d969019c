"""Threads: their list, a page for each, its transcript, the files in it, and the thread as a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
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
    link_to,
    list_url,
    row_url,
)
from chatsite.adminkit.filters import DayFilter
from chatsite.care import asking, holds
from chatsite.chat.actions import organizing
from chatsite.chat.admin import exports, filters, naming, transcript
from chatsite.chat.admin.subjects import name_for, subject_of, transcript_url
from chatsite.chat.counting import figures
from chatsite.chat.files import disk, downloads
from chatsite.chat.models import Attachment, Message, Run, Thread, ToolCall
from chatsite.chat.models.threads import FIGURES
from chatsite.chat.render import words


@admin.register(Thread)
class ThreadAdmin(ReadOnlyAdmin):
    fields = ("title", "public_id", "owner", "model", "head", "created_at", "updated_at")
    list_display = (
        "name", "transcript", "owner", "model", "messages", "last_state", "last_stop_reason", "turns", "tools",
        "failures", "tokens", "money_spent", "took", "created_at", "updated_at",
    )  # fmt: skip
    list_select_related = ("owner",)
    ordering = ("-created_at", "-pk")
    sortable_by = ("turns", "tools", "failures", "tokens", "money_spent", "took", "created_at")
    counted = FIGURES
    list_filter = (
        filters.LastStateFilter,
        filters.LastStopReasonFilter,
        filters.ThreadCalledFilter,
        filters.OwnerFilter,
        filters.FiguresFilter,
        DayFilter,
    )
    search_fields = found_by = ("public_id", f"owner__{USERNAME}")
    search_help_text = _("Thread id, or the owner's user name.")
    actions = ("export", "hold", "erase", "as_csv")

    def has_export_permission(self, request: HttpRequest) -> bool:
        return reading.may_read(request.user)

    @admin.action(description=_("Export selected threads…"), permissions=["export"])
    def export(self, request: HttpRequest, queryset: QuerySet[Thread]) -> HttpResponseBase:
        return exports.several(self, request, queryset)

    def has_hold_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.add_hold"))

    hold = asking.action(
        "hold",
        _("Hold selected threads…"),
        title=_("Place a hold"),
        explain=_("No rule of retention, no deletion and no erasure touches these threads then:"),
        button=_("Place the hold"),
        related=("owner",),
        named=lambda thread: thread.public_id,
        do=lambda thread, reason, actor: holds.place(
            user=thread.owner, thread=thread.public_id, reason=reason, actor=actor, door="admin"
        ),
    )

    def has_erase_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.add_erasure"))

    erase = asking.action(
        "erase",
        _("Erase selected threads…"),
        title=_("Erase threads"),
        explain=_("These threads go with all that is theirs, and nobody can take them back:"),
        button=_("Erase for good"),
        related=("owner",),
        named=lambda thread: thread.public_id,
        do=lambda thread, reason, actor: organizing.throw_away_for_good(
            thread=thread, reason=reason, actor=actor
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
        not_yet = figures.sums_of(Run.objects.filter(thread__in=pks, booked=False))
        for row in rows:
            row.thread_name = name_for(request.user, row)
            row.last_run = runs.get(row.pk)
            row.message_count = many.get(row.pk, 0)
            for name, amount in not_yet.get(row.pk, {}).items():
                setattr(row, name, (getattr(row, name) or 0) + amount)

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
        if not row.last_run:
            return NOTHING
        return link_to(naming.called(naming.RUN_STATES, row.last_run.state), row_url(row.last_run))

    @admin.display(description=_("stop reason"))
    def last_stop_reason(self, row: Any) -> str:
        return naming.called(naming.STOP_REASONS, row.last_run and row.last_run.stop_reason)

    @admin.display(description=_("tool calls"), ordering="calls")
    def tools(self, row: Any) -> SafeString | str:
        return link_to(row.calls, list_url(ToolCall, run__thread__id__exact=row.pk)) if row.calls else NOTHING

    @admin.display(description=_("errors"), ordering="errors")
    def failures(self, row: Any) -> str:
        return str(row.errors or NOTHING)

    @admin.display(description=_("cost"), ordering="cost")
    def money_spent(self, row: Any) -> str:
        return words.money(row.cost) if row.cost else NOTHING

    @admin.display(description=_("duration"), ordering="duration_ms")
    def took(self, row: Any) -> str:
        return words.duration(row.duration_ms) or NOTHING

    @admin.display(description=_("transcript"))
    def transcript(self, row: Any) -> SafeString:
        return link_to(_("Read"), transcript_url(row.pk))

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.transcript_view)
        files = self.admin_site.admin_view(self.attachment_view)
        exported = self.admin_site.admin_view(self.export_view)
        return [
            path("<int:pk>/transcript/", view, name="chat_thread_transcript"),
            path("<int:pk>/transcript/export/<str:kind>", exported, name="chat_thread_export"),
            path("<int:pk>/transcript/attachments/<str:id>", files, name="chat_thread_attachment"),
            *super().get_urls(),
        ]

    def attachment_view(self, request: HttpRequest, pk: int, id: str) -> HttpResponse:
        """A file that the transcript shows, for whoever may read that."""
        self.require_view(request)
        thread = get_object_or_404(Thread, pk=pk)
        row = get_object_or_404(Attachment, threads=thread, public_id=id)
        asked = reading.opening(request, subject_of(thread), f"attachment {row.public_id}", further=True)
        if asked is not None:
            return asked
        content = disk.read(row)
        if content is None:
            raise Http404
        return HttpResponse(content, headers=downloads.headers_of(row))

    def export_view(self, request: HttpRequest, pk: int, kind: str) -> HttpResponse:
        """The thread as a file, as its owner would get it."""
        self.require_view(request)
        thread = get_object_or_404(Thread, pk=pk)
        if kind not in exports.KINDS:
            raise Http404
        asked = reading.opening(request, subject_of(thread), f"export {kind}")
        return exports.file_of(thread, kind) if asked is None else asked

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
            "links": (
                (_("Details"), row_url(thread)),
                *self.links(thread)[1:],
                *(
                    (text, reverse("admin:chat_thread_export", args=[pk, kind]))
                    for kind, text in exports.KINDS.items()
                ),
            ),
        }
        return TemplateResponse(request, "admin/chat/transcript.html", context)
