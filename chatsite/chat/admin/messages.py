"""Messages and tool calls: lists without what they say, and a page for each, which is opened with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models.functions import Substr
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from chatsite.adminkit import reading
from chatsite.adminkit.base import (
    NOTHING,
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
from chatsite.adminkit.reading import Subject
from chatsite.chat.admin import filters, naming, transcript
from chatsite.chat.admin.subjects import in_thread, name_threads, short_id, subject_of, transcript_url
from chatsite.chat.models import Message, ToolCall
from chatsite.chat.render import words

START_OF_TEXT = 120


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
    ordering = ("-created_at", "-pk")
    sortable_by = ("created_at",)
    list_filter = (filters.RoleFilter, filters.FinishReasonFilter, DayFilter)
    search_fields = found_by = ("thread__public_id", "run__public_id")
    search_help_text = _("The id of their thread or run.")
    actions = ("as_csv",)

    def complete(self, rows: list[Any], request: HttpRequest) -> None:
        name_threads(rows, request)
        for row in rows:
            row.is_open = reading.is_open(request, subject_of(row.thread))

    def subject_of(self, row: Any) -> Subject | None:
        return subject_of(row.thread)

    def links(self, row: Any) -> Sequence[Link]:
        return (
            (_("In the transcript"), transcript_url(row.thread_id, run=row.run_id)),
            (_("What follows"), list_url(Message, parent__id__exact=row.pk)),
            (_("Beside it"), siblings_url(row)),
        )

    @admin.display(description=_("text"))
    def start_of_text(self, row: Any) -> str:
        if not row.is_open:
            return f"({_('hidden')}) {row.public_id}"
        return row.start.strip() or f"({_('no text')}) {row.public_id}"

    @admin.display(description=_("finish reason"))
    def ended(self, row: Any) -> str:
        return transcript.finish_words(row.role, row.finish_reason)

    @admin.display(description=_("model"))
    def by_model(self, row: Any) -> str:
        return words.plain(str(row.metadata.get("model", ""))) or NOTHING

    @admin.display(description=_("thread"))
    def in_thread(self, row: Any) -> SafeString:
        return in_thread(row)

    @admin.display(description=_("stop reason"))
    def stop_reason(self, row: Any) -> str:
        return naming.called(naming.STOP_REASONS, row.metadata.get("stopReason"))

    @admin.display(description=_("text"))
    def whole_text(self, row: Any) -> SafeString | str:
        return as_text(row.text)

    @admin.display(description=_("parts"))
    def pretty_parts(self, row: Any) -> SafeString | str:
        return as_json(row.parts)

    @admin.display(description=_("metadata"))
    def pretty_metadata(self, row: Any) -> SafeString | str:
        return as_json(row.metadata)


@admin.register(ToolCall)
class ToolCallAdmin(ReadOnlyAdmin):
    fields = (
        "call_id", "run", "name", "state", "error_code", "pretty_arguments", "pretty_edit", "pretty_result",
        "created_at", "claimed_at", "finished_at", "took",
    )  # fmt: skip
    list_display = ("name", "in_state", "failure", "took", "of_run", "created_at")
    list_select_related = ("run",)
    heavy = ("arguments", "edited_arguments", "result")
    ordering = ("-created_at", "-pk")
    sortable_by = ("created_at",)
    list_filter = (filters.StateFilter, filters.ToolNameFilter, filters.ErrorCodeFilter, DayFilter)
    search_fields = found_by = ("name", "run__public_id", "run__thread__public_id")
    search_help_text = _("Tool, or the id of the run or thread.")
    actions = ("as_csv",)
    link_lookups = frozenset({"run__thread__id__exact"})

    def subject_of(self, row: Any) -> Subject | None:
        return subject_of(row.run.thread)

    def links(self, row: Any) -> Sequence[Link]:
        return (
            (_("In the transcript"), transcript_url(row.run.thread_id, run=row.run_id)),
            (_("Calls of its run"), list_url(ToolCall, run__id__exact=row.run_id)),
        )

    @admin.display(description=_("state"))
    def in_state(self, row: Any) -> str:
        return naming.called(naming.CALL_STATES, row.state)

    @admin.display(description=_("error"))
    def failure(self, row: Any) -> str:
        return naming.called(naming.CALL_ERRORS, row.error_code)

    @admin.display(description=_("run"))
    def of_run(self, row: Any) -> SafeString:
        return link_to(short_id(row.run.public_id), row_url(row.run))

    @admin.display(description=_("duration"))
    def took(self, row: Any) -> str:
        return words.duration(row.duration_ms) or NOTHING

    @admin.display(description=_("arguments"))
    def pretty_arguments(self, row: Any) -> SafeString | str:
        return as_json_text(row.arguments)

    @admin.display(description=_("edited by a person"))
    def pretty_edit(self, row: Any) -> SafeString | str:
        return as_json_text(row.edited_arguments)

    @admin.display(description=_("result"))
    def pretty_result(self, row: Any) -> SafeString | str:
        return as_json_text(row.result)


def siblings_url(row: Message) -> str:
    """The messages that share its place in the tree, itself among them."""
    if row.parent_id:
        return list_url(Message, parent__id__exact=row.parent_id)
    return list_url(Message, thread__id__exact=row.thread_id, parent__isnull=True)
