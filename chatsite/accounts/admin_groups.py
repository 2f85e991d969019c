"""Groups in the admin.

Rule: nobody gives more than they have, so only who may do everything says what a group may; and it is on record.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from chatsite.adminkit.races import OnceOnly
from chatsite.audit import log

admin.site.unregister(Group)


@admin.register(Group)
class GroupsAdmin(OnceOnly, GroupAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if not change or form.changed_data:
            group = form.instance
            may = ", ".join(sorted(group.permissions.values_list("codename", flat=True)))
            self._record(request, group, "group.changed" if change else "group.made", {"may": may})

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        super().delete_model(request, obj)
        self._record(request, obj, "group.deleted", {})

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for group in queryset:
            self.delete_model(request, group)

    def _record(self, request: HttpRequest, group: Group, action: str, facts: dict[str, str]) -> None:
        log.record(action, actor=request.user, subject=f"group {group.name}", door="admin", facts=facts)
