"""Holds in Django admin: placed and lifted with a reason."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatsite.adminkit.base import NOTHING, USERNAME, ReadOnlyAdmin
from chatsite.care import asking, holds
from chatsite.care.forms import HoldForm
from chatsite.care.models import Hold
from chatsite.phrases import plain


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    actions = ("lift",)
    fields = ("user", "thread", "reason", "placed_by", "placed_at")
    list_display = ("user", "of", "short_reason", "placed_by", "placed_at")
    list_select_related = ("user",)
    search_fields = (f"user__{USERNAME}", "thread")
    search_help_text = gettext_lazy("User name or thread id.")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.add_hold"))

    def has_lift_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.delete_hold"))

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = HoldForm(request.POST or None, initial=request.GET.dict())
        if form.is_valid():
            try:
                holds.place(**form.cleaned_data, actor=request.user, door="admin")
            except holds.Refused as refused:
                form.add_error(None, str(refused))
            else:
                messages.success(request, _("The hold is in force."))
                return asking.to(reverse("admin:care_hold_changelist"))
        return asking.ask(
            self,
            request,
            form,
            title=_("Place a hold"),
            explain=_("What is held stays: no rule of retention, no deletion and no erasure touches it."),
            button=_("Place the hold"),
        )

    @admin.action(description=gettext_lazy("Lift selected holds…"), permissions=["lift"])
    def lift(self, request: HttpRequest, queryset: QuerySet[Hold]) -> HttpResponse | None:
        return asking.each_with_reason(
            self,
            request,
            queryset.select_related("user"),
            action="lift",
            title=_("Lift holds"),
            explain=_("From then on the rules of retention apply again to:"),
            button=_("Lift them"),
            do=lambda hold, reason: holds.lift(hold, reason=reason, actor=request.user, door="admin"),
        )

    @admin.display(description=gettext_lazy("what"))
    def of(self, row: Hold) -> str:
        return plain(row.thread) if row.thread else _("everything")

    @admin.display(description=gettext_lazy("reason"))
    def short_reason(self, row: Hold) -> str:
        return plain(row.reason) or NOTHING
