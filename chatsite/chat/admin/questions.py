"""Questions to people, and what they answered: who, when, by which door. And their standing answers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from chatsite.adminkit.base import USERNAME, Link, ReadOnlyAdmin, as_json, link_to, list_url, row_url
from chatsite.adminkit.filters import DayFilter
from chatsite.adminkit.reading import Subject
from chatsite.chat.admin import naming
from chatsite.chat.admin.subjects import in_thread, name_for, name_threads, subject_of, transcript_url
from chatsite.chat.models import ApprovalRule, Interrupt, ToolCall


@admin.register(Interrupt)
class InterruptAdmin(ReadOnlyAdmin):
    fields = (
        "public_id", "run", "tool_name", "tool_call_id", "status", "pretty_data", "pretty_edit", "reason",
        "answered_by", "answered_at", "door", "resumed_by", "expires_at", "created_at",
    )  # fmt: skip
    list_display = ("tool_name", "status", "answered_by", "answered_at", "by_door", "in_thread", "created_at")
    list_select_related = ("thread", "answered_by")
    heavy = ("data", "edited_arguments")
    ordering = ("-created_at", "-pk")
    list_filter = ("status", DayFilter)
    search_fields = found_by = ("tool_name", "thread__public_id", f"answered_by__{USERNAME}")
    search_help_text = _("Tool, id of the thread, or who answered.")

    def complete(self, rows: list[Any], request: HttpRequest) -> None:
        name_threads(rows, request)

    def subject_of(self, row: Any) -> Subject | None:
        return subject_of(row.thread)

    def links(self, row: Any) -> tuple[Link, ...]:
        return (
            (_("In the transcript"), transcript_url(row.thread_id, run=row.run_id)),
            (_("Its call"), list_url(ToolCall, run__id__exact=row.run_id)),
            (_("Other questions of its thread"), list_url(Interrupt, thread__id__exact=row.thread_id)),
        )

    @admin.display(description=_("thread"))
    def in_thread(self, row: Any) -> SafeString:
        return in_thread(row)

    @admin.display(description=_("door"))
    def by_door(self, row: Any) -> str:
        return naming.called(naming.DOORS, row.door)

    @admin.display(description=_("as it was asked"))
    def pretty_data(self, row: Any) -> SafeString | str:
        return as_json(row.data)

    @admin.display(description=_("edited arguments"))
    def pretty_edit(self, row: Any) -> SafeString | str:
        return as_json(row.edited_arguments)


@admin.register(ApprovalRule)
class ApprovalRuleAdmin(ReadOnlyAdmin):
    fields = ("tool_name", "thread", "created_by", "created_at")
    list_display = ("tool_name", "of_thread", "created_by", "created_at")
    list_select_related = ("thread", "created_by")
    list_filter = (DayFilter,)
    search_fields = found_by = ("thread__public_id", f"created_by__{USERNAME}")
    search_help_text = _("Id of the thread, or who made it.")

    def complete(self, rows: list[Any], request: HttpRequest) -> None:
        for row in rows:
            row.thread_name = name_for(request.user, row.thread)

    @admin.display(description=_("thread"))
    def of_thread(self, row: Any) -> SafeString:
        return link_to(row.thread_name, row_url(row.thread))
