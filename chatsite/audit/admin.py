"""The audit log, to read. Nobody changes it, whatever their permissions."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from chatsite.adminkit.base import NOTHING, ReadOnlyAdmin, as_json
from chatsite.adminkit.filters import ColumnFilter, DayFilter, PersonFilter
from chatsite.audit.models import Entry
from chatsite.phrases import plain


class ActionFilter(ColumnFilter):
    title = _("action")
    parameter_name = "action"
    of = Entry


class ActorFilter(PersonFilter):
    title = _("actor")
    inputs = {"actor": {"label": _("User name"), "type": "search"}}
    path = "actor_name"


class AtFilter(DayFilter):
    column = "at"


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    fields = (
        "number", "at", "action", "actor_name", "actor_id", "subject", "reason", "door", "pretty_facts", "previous",
        "hash",
    )  # fmt: skip
    list_display = ("number", "at", "action", "actor_name", "subject", "short_reason", "door")
    list_display_links = ("number", "action")
    ordering = ("-number",)
    list_filter = (ActionFilter, AtFilter, ActorFilter)
    search_fields = found_by = ("actor_name", "subject", "subject__startswith")
    search_help_text = _("Actor, or how the subject begins.")

    @admin.display(description=_("reason"))
    def short_reason(self, row: Entry) -> str:
        return plain(row.reason) or NOTHING

    @admin.display(description=_("facts"))
    def pretty_facts(self, row: Entry) -> SafeString | str:
        return as_json(row.facts)
