"""API keys. They are made by a command or by their users; here they are seen, and revoked."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from chatsite.chat import access
from chatsite.chat.admin.base import USERNAME, ReadOnlyAdmin
from chatsite.chat.admin.filters import DayFilter, KeyUserFilter
from chatsite.chat.models import ApiKey
from chatsite.chat.render.words import count


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    actions = ("revoke",)
    fields = ("label", "hint", "user", "created_at", "last_used_at", "revoked_at")
    list_display = ("begins_with", "label", "user", "created_at", "last_used_at", "revoked_at")
    list_select_related = ("user",)
    list_filter = (("revoked_at", admin.EmptyFieldListFilter), KeyUserFilter, DayFilter)
    search_fields = ("label", "hint", f"user__{USERNAME}")
    search_help_text = "Label, the key's first characters, or user name."

    @admin.display(description="key")
    def begins_with(self, row: ApiKey) -> str:
        return f"{row.hint}…"

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("chat.change_apikey"))

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Revoked keys stay revoked, at the time it first happened."""
        done = 0
        for key in queryset.filter(revoked_at=None):
            if access.revoke(key):
                self.log_change(request, key, "Revoked.")
                done += 1
        self.message_user(request, f"Revoked {count(done, 'key')}.", messages.SUCCESS)
