"""API keys: made (and then shown, once), limited, watched, revoked."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.dateformat import format as date_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatsite.accounts import keys
from chatsite.accounts.auditing import record_key
from chatsite.accounts.forms import ApiKeyForm, NewApiKeyForm
from chatsite.accounts.models import ApiKey
from chatsite.adminkit.base import NOTHING, USERNAME, ReadOnlyAdmin
from chatsite.adminkit.filters import DayFilter, UserFilter
from chatsite.phrases import count, money, plain

if apps.is_installed("allauth.account"):
    # A project that signs people in by means of its own keeps its own admin of people and groups, too.
    from chatsite.accounts import admin_addresses, admin_groups, admin_people  # noqa: F401 - they register

LIMITS = (
    "label", "scopes", "allowed_models", "requests_per_minute", "tokens_per_minute", "requests_at_once", "budget",
    "budget_period", "keep", "stream_form", "max_agentic_loops", "expires_at",
)  # fmt: skip
FACTS = (
    "hint", "user", "state", "created_at", "last_used_at", "revoked_at", "total", "this_month", "requests",
    "input_tokens", "output_tokens",
)  # fmt: skip
MODELS_SHOWN = 3


class LiveFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "live"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", _("In force")), ("expired", _("Expired")), ("revoked", _("Revoked"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        now = timezone.now()
        match self.value():
            case "yes":
                return queryset.filter(revoked_at=None).exclude(expires_at__lte=now)
            case "expired":
                return queryset.filter(revoked_at=None, expires_at__lte=now)
            case "revoked":
                return queryset.exclude(revoked_at=None)
        return None


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    actions = ("revoke",)
    fields = (*FACTS, *LIMITS)
    list_display = (
        "begins_with", "label", "user", "state", "money_spent", "rate", "for_models", "opens", "last_used_at",
        "created_at",
    )  # fmt: skip
    list_select_related = ("user",)
    list_filter = (LiveFilter, UserFilter, DayFilter)
    search_fields = ("label", "hint", f"user__{USERNAME}")
    search_help_text = _("Label, the key's first characters, or user name.")

    # -- what may be done ------------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("accounts.add_apikey"))

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        # What is revoked is history.
        live = obj is None or obj.revoked_at is None
        return live and bool(request.user.has_perm("accounts.change_apikey"))

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("accounts.change_apikey"))

    @admin.action(description=_("Revoke selected keys"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Revoked keys stay revoked, at the time it first happened."""
        done = sum(self._revoked(request, key) for key in queryset.filter(revoked_at=None))
        self.message_user(
            request, gettext("Revoked %(keys)s.") % {"keys": count(done, "key")}, messages.SUCCESS
        )

    @transaction.atomic
    def _revoked(self, request: HttpRequest, key: ApiKey) -> bool:
        done = keys.revoke(key)
        if done:
            self.log_change(request, key, "Revoked.")
            record_key("key.revoked", key, actor=request.user, door="admin")
        return done

    # -- the form --------------------------------------------------------------------------------------------

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        base = ApiKeyForm if obj else NewApiKeyForm
        form = type(base.__name__, (base,), {"by": request.user})
        return super().get_form(request, obj, change, form=form, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return (*FACTS, *LIMITS) if obj else ("user_name", *LIMITS)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        return FACTS if self.has_change_permission(request, obj) else (*FACTS, *LIMITS)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], **kwargs: Any
    ) -> HttpResponse:
        # Behind a new key comes the page that shows it, so there is one way to save.
        one_way = {"show_save_and_add_another": False, "show_save_and_continue": kwargs.get("change", False)}
        return super().render_change_form(request, context | one_way, **kwargs)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if change:
            # Not the whole row: what is booked meanwhile would be lost.
            obj.save(update_fields=form.changed_data) if form.changed_data else None
            return
        obj.made_key = keys.give_value(obj)
        obj.save(force_insert=True)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Behind the row, in the admin's transaction: the audit log."""
        super().save_related(request, form, formsets, change)
        if not change:
            record_key("key.made", form.instance, actor=request.user, door="admin")
        elif form.changed_data:
            fields = sorted(form.changed_data)
            record_key("key.changed", form.instance, actor=request.user, door="admin", fields=fields)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        """The key itself, in this answer and nowhere else: no redirect, no cookie, no session has it."""
        context = {
            **self.admin_site.each_context(request),
            "title": _("The new API key"),
            "opts": self.opts,
            "made": obj,
            "key": obj.made_key,
        }
        response = TemplateResponse(request, "admin/accounts/key_made.html", context)
        add_never_cache_headers(response)
        return response

    # -- what is shown ---------------------------------------------------------------------------------------

    @admin.display(description=_("key"))
    def begins_with(self, row: ApiKey) -> str:
        return f"{row.hint}…"

    @admin.display(description=_("state"))
    def state(self, row: ApiKey) -> str:
        if row.revoked_at:
            return gettext("revoked")
        if row.expires_at is None:
            return gettext("in force")
        if row.expires_at <= timezone.now():
            return gettext("expired")
        return gettext("until %(when)s") % {"when": date_format(row.expires_at, gettext("j M Y"))}

    @admin.display(description=_("opens"))
    def opens(self, row: ApiKey) -> str:
        return ", ".join(row.scopes)

    @admin.display(description=_("models"))
    def for_models(self, row: ApiKey) -> str:
        shown = ", ".join(plain(name, 40) for name in row.allowed_models[:MODELS_SHOWN])
        more = len(row.allowed_models) - MODELS_SHOWN
        if more > 0:
            return gettext("%(shown)s and %(more)s more") % {"shown": shown, "more": more}
        return shown or gettext("all")

    @admin.display(description=_("rate a minute"))
    def rate(self, row: ApiKey) -> str:
        limits = (
            (row.requests_per_minute, "request"),
            (row.tokens_per_minute, "token"),
        )
        return ", ".join(count(limit, noun) for limit, noun in limits if limit) or NOTHING

    @admin.display(description=_("spent"))
    def money_spent(self, row: ApiKey) -> str:
        spent = money(keys.spent_of(row))
        if row.budget is None:
            return spent
        said = {"spent": spent, "budget": money(row.budget)}
        if row.budget_period:
            return gettext("%(spent)s of %(budget)s this month") % said
        return gettext("%(spent)s of %(budget)s") % said

    @admin.display(description=_("spent in all"))
    def total(self, row: ApiKey) -> str:
        return money(row.spent)

    @admin.display(description=_("spent this month"))
    def this_month(self, row: ApiKey) -> str:
        return money(keys.spent_this_month(row))
