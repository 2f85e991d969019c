"""Endpoints and models, made and tried by administrators."""

from __future__ import annotations

import asyncio
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from chatsite.adminkit.base import NOTHING
from chatsite.adminkit.races import OnceOnly
from chatsite.audit import log
from chatsite.catalog import entries
from chatsite.catalog.forms import EndpointForm
from chatsite.catalog.models import Endpoint, Model, Route
from chatsite.catalog.trying import try_endpoint
from chatsite.policies.models import GroupPolicy
from chatsite.policies.values import fits


class Recorded(OnceOnly, admin.ModelAdmin):
    """Who changed what is in the audit log: the names of the fields, and what of `told` holds now. Never a key."""

    what = ""
    told: frozenset[str] = frozenset()
    """Fields whose values are small, and no secret."""
    list_per_page = 50
    show_full_result_count = False

    class Media:
        css = {"all": ["chat/admin.css"]}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        changed = sorted(form.changed_data)
        now = {name: getattr(obj, name) for name in changed if name in self.told}
        self._record(request, obj, "changed" if change else "made", fields=changed, now=now)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        routes = routes_of(obj)  # they go with it
        super().delete_model(request, obj)
        self._record(request, obj, "deleted", routes=routes)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def _record(self, request: HttpRequest, row: Any, how: str, **facts: Any) -> None:
        log.record(
            f"{self.what}.{how}",
            actor=request.user,
            subject=f"{self.what} {row.name}",
            door="admin",
            facts=facts,
        )


def routes_of(row: Endpoint | Model) -> str:
    """`house at local as own-name, ...`: one text, which the log cuts where it would refuse a long list."""
    routes = row.routes.select_related("model", "endpoint")
    return ", ".join(
        f"{route.model.name} at {route.endpoint.name}"
        + (f" as {route.name_there}" if route.name_there else "")
        for route in routes
    )


@admin.register(Endpoint)
class EndpointAdmin(Recorded):
    what = "endpoint"
    told = frozenset(("dialect", "base_url", "lists_models", "enabled"))
    form = EndpointForm
    change_form_template = "admin/catalog/endpoint.html"
    list_display = ("name", "dialect", "base_url", "has_key", "lists_models", "enabled")
    readonly_fields = ("has_key",)

    @admin.display(description=gettext_lazy("has a key"), boolean=True)
    def has_key(self, row: Endpoint) -> bool:
        return bool(row.sealed_key)

    def get_urls(self) -> list[Any]:
        tried = self.admin_site.admin_view(require_POST(self.try_view))
        return [path("<int:pk>/try/", tried, name="catalog_endpoint_try"), *super().get_urls()]

    def try_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied  # its key is used
        if pk >= 2**63:
            raise Http404
        row = get_object_or_404(Endpoint, pk=pk)
        route = row.routes.select_related("model").first()
        model = (route.name_there or route.model.name) if route is not None else ""
        outcome = asyncio.run(try_endpoint(entries.entry_of(row), model))
        self._record(request, row, "tried", well=outcome.well, base_url=row.base_url)
        level = messages.SUCCESS if outcome.well else messages.ERROR
        self.message_user(request, f"{row.name}: {outcome.words}", level)
        return redirect(reverse("admin:catalog_endpoint_change", args=[row.pk]))


class RouteInline(admin.TabularInline):
    model = Route
    extra = 0


@admin.register(Model)
class ModelAdmin(Recorded):
    what = "model"
    told = frozenset(("enabled", "price_input", "price_output", "price_cached", "context", "images", "tools"))
    inlines = (RouteInline,)
    list_display = ("name", "label", "prices", "context", "images", "tools", "served_by", "enabled")
    search_fields = ("name", "label")
    list_filter = ("enabled",)
    readonly_fields = ("groups",)
    fieldsets = (
        (None, {"fields": ("name", "label", "enabled", "groups")}),
        (gettext_lazy("What it costs"), {"fields": ("price_input", "price_output", "price_cached")}),
        (gettext_lazy("What it can do"), {"fields": ("context", "images", "tools")}),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).prefetch_related("routes__endpoint")

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if any(formset.has_changed() for formset in formsets):
            self._record(request, form.instance, "routed", routes=routes_of(form.instance))

    @admin.display(description=gettext_lazy("prices"))
    def prices(self, row: Model) -> str:
        if row.price_input is None or row.price_output is None:
            return NOTHING
        return f"{row.price_input.normalize():f} / {row.price_output.normalize():f}"

    @admin.display(description=gettext_lazy("served by"))
    def served_by(self, row: Model) -> str:
        return ", ".join(route.endpoint.name for route in row.routes.all()) or _("the environment")

    @admin.display(description=gettext_lazy("groups"))
    def groups(self, row: Model) -> str:
        """Who may use it. It is written where a group's policy is, and read here."""
        policies = GroupPolicy.objects.select_related("group").order_by("group__name")
        lines = [
            (
                reverse("admin:policies_grouppolicy_change", args=[policy.pk]),
                policy.group.name if policy.group is not None else _("everybody else"),
                _("yes") if _opens(policy, row.name) else _("no"),
            )
            for policy in policies
        ]
        if not lines:
            return _("Everybody: no group has a policy.")
        return format_html("<ul>{}</ul>", format_html_join("", '<li><a href="{}">{}</a>: {}</li>', lines))


def _opens(policy: GroupPolicy, model: str) -> bool:
    return not policy.allowed_models or any(fits(name, model) for name in policy.allowed_models)
