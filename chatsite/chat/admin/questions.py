"""Questions to people, and what they answered: who, when, by which door. And their standing answers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString

from chatsite.adminkit.base import USERNAME, Link, ReadOnlyAdmin, as_json, link_to, list_url, row_url
from chatsite.adminkit.filters import DayFilter
from chatsite.chat.admin.records import transcript_url
from chatsite.chat.models import ApprovalRule, Interrupt, ToolCall


@admin.register(Interrupt)
class InterruptAdmin(ReadOnlyAdmin):
    fields = (
        "public_id", "run", "tool_name", "tool_call_id", "status", "pretty_data", "pretty_edit", "reason",
        "answered_by", "answered_at", "door", "resumed_by", "expires_at", "created_at",
    )  # fmt: skip
    list_display = ("tool_name", "status", "answered_by", "answered_at", "door", "in_thread", "created_at")
    list_select_related = ("thread", "answered_by")
    heavy = ("data", "edited_arguments")
    list_filter = ("status", "door", DayFilter)
    search_fields = ("tool_name", "public_id", "thread__public_id", f"answered_by__{USERNAME}")
    search_help_text = "Tool, id of the question or of its thread, or who answered."

    def links(self, row: Any) -> tuple[Link, ...]:
        return (
            ("In the transcript", transcript_url(row.thread_id, run=row.run_id)),
            ("Its call", list_url(ToolCall, run__id__exact=row.run_id)),
            ("Other questions of its thread", list_url(Interrupt, thread__id__exact=row.thread_id)),
        )

    @admin.display(description="thread")
    def in_thread(self, row: Any) -> SafeString:
        return link_to(row.thread, transcript_url(row.thread_id, run=row.run_id))

    @admin.display(description="as it was asked")
    def pretty_data(self, row: Any) -> SafeString | str:
        return as_json(row.data)

    @admin.display(description="edited arguments")
    def pretty_edit(self, row: Any) -> SafeString | str:
        return as_json(row.edited_arguments)


@admin.register(ApprovalRule)
class ApprovalRuleAdmin(ReadOnlyAdmin):
    fields = ("tool_name", "thread", "created_by", "created_at")
    list_display = ("tool_name", "of_thread", "created_by", "created_at")
    list_select_related = ("thread", "created_by")
    list_filter = (DayFilter,)
    search_fields = ("tool_name", "thread__public_id", f"created_by__{USERNAME}")
    search_help_text = "Tool, id of the thread, or who made it."

    @admin.display(description="thread")
    def of_thread(self, row: Any) -> SafeString:
        return link_to(row.thread, row_url(row.thread))
