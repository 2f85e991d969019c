"""Holds and erasures in Django admin, each with a reason."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatsite.adminkit.base import NOTHING, USERNAME, ReadOnlyAdmin, as_json
from chatsite.care import asking, erasing, holds
from chatsite.care.forms import HoldForm, PersonForm
from chatsite.care.models import Erasure, Hold
from chatsite.phrases import plain

LONGEST_WAIT = 10.0
"""Seconds that an administrator waits for an erasure; upkeep does the rest."""


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

    lift = asking.action(
        "lift",
        gettext_lazy("Lift selected holds…"),
        title=gettext_lazy("Lift holds"),
        explain=gettext_lazy("From then on the rules of retention apply again to:"),
        button=gettext_lazy("Lift them"),
        related=("user",),
        do=lambda hold, reason, actor: holds.lift(hold, reason=reason, actor=actor, door="admin"),
    )

    @admin.display(description=gettext_lazy("what"))
    def of(self, row: Hold) -> str:
        return plain(row.thread) if row.thread else _("everything")

    @admin.display(description=gettext_lazy("reason"))
    def short_reason(self, row: Hold) -> str:
        return plain(row.reason) or NOTHING


@admin.register(Erasure)
class ErasureAdmin(ReadOnlyAdmin):
    fields = (
        "user_name", "user_id", "reason", "asked_by", "door", "started_at", "finished_at", "rows_before", "whole_proof",
    )  # fmt: skip
    list_display = ("user_name", "state", "asked_by", "started_at", "finished_at")
    search_fields = ("user_name",)
    search_help_text = gettext_lazy("User name.")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.add_erasure"))

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = PersonForm(request.POST or None, initial=request.GET.dict())
        if form.is_valid():
            try:
                return self._erase(request, **form.cleaned_data)
            except holds.Refused as refused:
                form.add_error(None, str(refused))
        return asking.ask(
            self,
            request,
            form,
            title=_("Erase a user"),
            explain=_(
                "All that is theirs goes: threads, files, keys, requests, sessions, the account. There is no way back; "
                "export it before, if somebody may need it."
            ),
            button=_("Erase for good"),
        )

    def _erase(self, request: HttpRequest, user: Any, reason: str) -> HttpResponse:
        erasure = erasing.begin(user, reason=reason, actor=request.user, door="admin")
        if erasing.run(erasure, seconds=LONGEST_WAIT):
            messages.success(request, _("The user was erased. Below is the proof."))
        else:
            messages.info(request, _("The account is shut; the rest goes in the background, bit by bit."))
        return asking.to(reverse("admin:care_erasure_change", args=[erasure.pk]))

    @admin.display(description=gettext_lazy("state"))
    def state(self, row: Erasure) -> str:
        return _("done") if row.finished_at else _("under way")

    @admin.display(description=gettext_lazy("rows before"))
    def rows_before(self, row: Erasure) -> SafeString | str:
        return as_json(row.before)

    @admin.display(description=gettext_lazy("proof"))
    def whole_proof(self, row: Erasure) -> SafeString | str:
        return as_json(row.proof)
