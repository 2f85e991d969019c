"""What groups and people may use, set and seen by administrators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatsite.accounts.models import ApiKey
from chatsite.adminkit.base import NOTHING, USERNAME, ReadOnlyAdmin
from chatsite.adminkit.races import OnceOnly
from chatsite.audit import log
from chatsite.phrases import money, plain
from chatsite.policies.forms import GroupBudgetForm, GroupPolicyForm, NewUserPolicyForm, UserPolicyForm
from chatsite.policies.models import GroupBudget, GroupPolicy, LimitFields, Used, UserPolicy
from chatsite.policies.values import LIMITS

SHOWN = 3


class PolicyAdmin(OnceOnly, admin.ModelAdmin):
    list_per_page = 50
    show_full_result_count = False

    class Media:
        css = {"all": ["chat/admin.css"]}

    # Each change is in the audit log, in the transaction that makes it; the admin opens one for every form.

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        self._record(request, form.instance, "changed" if change else "made")

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self._record(request, obj, "deleted")
        super().delete_model(request, obj)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def _record(self, request: HttpRequest, row: Any, what: str) -> None:
        now = {} if what == "deleted" else facts_of(row)
        log.record(
            "policy.changed",
            actor=request.user,
            subject=subject_of(row),
            door="admin",
            facts={"what": what} | now,
        )

    @admin.display(description=gettext_lazy("limits"))
    def limits(self, row: LimitFields) -> str:
        return limits_in_words(row) or NOTHING


def limits_in_words(row: LimitFields) -> str:
    """`60 requests a minute, 2.50 money a month`."""
    words = []
    for name in LIMITS:
        limit = getattr(row, name)
        if limit is not None:
            figure = money(limit) if name == "cost_per_month" else f"{limit:,}"
            words.append(f"{figure} {row._meta.get_field(name).verbose_name}")
    return ", ".join(words)


def subject_of(row: Any) -> str:
    if isinstance(row, UserPolicy):
        return f"user {row.user}"
    return f"group {row.group.name}" if row.group is not None else "everybody else"


def facts_of(row: Any) -> dict[str, Any]:
    """What holds from now on, in short."""
    facts = {name: getattr(row, name) for name in LIMITS if getattr(row, name) is not None}
    if isinstance(row, UserPolicy):
        return facts | {"exempt": row.exempt}
    budget = GroupBudget.objects.filter(policy=row).first()
    return facts | {
        "models": ", ".join(row.allowed_models),
        "tools": ", ".join(f"{tool}: {rule}" for tool, rule in sorted(row.tools.items())),
        "retention_days": row.retention_days,
        "together": limits_in_words(budget) if budget is not None else "",
    }


class BudgetInline(admin.StackedInline):
    model = GroupBudget
    form = GroupBudgetForm
    verbose_name = gettext_lazy("What the whole group may use together")

    # It is a part of the policy: whoever may change that may change this.
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("policies.change_grouppolicy"))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("policies.view_grouppolicy")) or self.has_change_permission(request)


@admin.register(GroupPolicy)
class GroupPolicyAdmin(PolicyAdmin):
    form = GroupPolicyForm
    inlines = (BudgetInline,)
    list_display = ("__str__", "for_models", "for_tools", "limits", "together", "retention_days")
    list_select_related = ("group", "budget")
    ordering = ("group__name",)

    @admin.display(description=gettext_lazy("models"))
    def for_models(self, row: GroupPolicy) -> str:
        return _some([plain(name, 40) for name in row.allowed_models]) or _("all")

    @admin.display(description=gettext_lazy("tools"))
    def for_tools(self, row: GroupPolicy) -> str:
        return _some([f"{tool}: {rule}" for tool, rule in sorted(row.tools.items())]) or NOTHING

    @admin.display(description=gettext_lazy("together"))
    def together(self, row: GroupPolicy) -> str:
        budget = getattr(row, "budget", None)
        return (limits_in_words(budget) if budget is not None else "") or NOTHING


def _some(words: list[str]) -> str:
    shown, more = ", ".join(words[:SHOWN]), len(words) - SHOWN
    return _("%(shown)s and %(more)s more") % {"shown": shown, "more": more} if more > 0 else shown


def names_of(subjects: Iterable[str]) -> dict[str, str]:
    """`user ada` of `user:12`, for those that are still here: one question for each kind."""
    pks: dict[str, set[str]] = {}
    for subject in subjects:
        kind, _colon, pk = subject.partition(":")
        pks.setdefault(kind, set()).add(pk)
    tables = {"user": get_user_model(), "group": Group, "key": ApiKey}
    return {
        f"{kind}:{row.pk}": f"{kind} {row}"
        for kind, table in tables.items()
        if kind in pks
        for row in table._default_manager.filter(pk__in=pks[kind])
    }


@admin.register(Used)
class UsedAdmin(ReadOnlyAdmin):
    """What is used of limits, by whom: people, groups as a whole, keys."""

    fields = ("whose", "span", "since", "requests", "tokens", "money_used")
    list_display = fields
    list_filter = ("span",)
    ordering = ("-cost", "-tokens")
    search_fields = ("subject",)
    search_help_text = gettext_lazy("As in user:12, group:3 or key:7.")

    def complete(self, rows: list[Any], request: HttpRequest) -> None:
        names = names_of(row.subject for row in rows)
        for row in rows:
            row.whose = names.get(row.subject)

    @admin.display(description=gettext_lazy("whose"))
    def whose(self, row: Used) -> str:
        name = row.whose if hasattr(row, "whose") else names_of([row.subject]).get(row.subject)
        return name or row.subject

    @admin.display(description=gettext_lazy("money"))
    def money_used(self, row: Used) -> str:
        return money(row.cost)


@admin.register(UserPolicy)
class UserPolicyAdmin(PolicyAdmin):
    list_display = ("user", "exempt", "limits")
    list_select_related = ("user",)
    ordering = ("pk",)
    search_fields = (f"user__{USERNAME}",)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = UserPolicyForm if obj else NewUserPolicyForm
        return super().get_form(request, obj, change, form=form, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("user", "exempt", *LIMITS) if obj else ("user_name", "exempt", *LIMITS)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("user",) if obj else ()
