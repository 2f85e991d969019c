"""What there is of people beside what they do here (`chatsite.care.lines`): keys, sessions, ways to sign in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db.models import Q, QuerySet

from chatsite.accounts.models import ApiKey, SignIn
from chatsite.care.exporting import Part, as_json
from chatsite.care.lines import AT_ONCE, Named, Rows


class Sessions(Rows):
    """No column says whose a session is: all are looked into."""

    __slots__ = ()

    def count(self, pk: Any) -> int:
        return sum(1 for _ in _sessions_of(pk))

    def erase_some(self, pk: Any) -> int:
        keys = [key for key, _ in zip(_sessions_of(pk), range(AT_ONCE), strict=False)]
        Session.objects.filter(session_key__in=keys).delete()
        return len(keys)


def _sessions_of(pk: Any) -> Iterator[str]:
    for session in Session.objects.iterator(chunk_size=AT_ONCE):
        if str(session.get_decoded().get(SESSION_KEY, "")) == str(pk):
            yield session.session_key


class AdminLog(Rows):
    """What they did in the admin, and what was done to their account there, which has their name."""

    __slots__ = ()

    def of(self, pk: Any) -> QuerySet[Any]:
        people = ContentType.objects.get_for_model(get_user_model())
        return LogEntry.objects.filter(Q(user=pk) | Q(content_type=people, object_id=str(pk)))


LINES = (
    Sessions("sessions.Session", ""),
    AdminLog("admin.LogEntry", "user"),
    Rows("account.EmailConfirmation", "email_address__user"),
    Rows("account.EmailAddress", "user"),
    Rows("mfa.Authenticator", "user"),
    Rows("socialaccount.SocialToken", "account__user"),
    Rows("socialaccount.SocialAccount", "user"),
    Rows("accounts.SignIn", "user"),
    Rows("accounts.Invitation_groups", "invitation__used_by"),
    Rows("accounts.Invitation", "used_by"),
    Named("accounts.Invitation", "made_by"),
    Rows("accounts.ApiKey", "user"),
    Rows("auth.User_groups", "user"),
    Rows("auth.User_user_permissions", "user"),
)


# -- out -----------------------------------------------------------------------------------------------------

OF_A_KEY = (
    "label", "hint", "created_at", "last_used_at", "expires_at", "revoked_at", "scopes", "allowed_models", "keep",
    "requests_per_minute", "tokens_per_minute", "budget", "budget_period", "spent", "requests", "input_tokens",
    "output_tokens",
)  # fmt: skip
WAYS_IN = {
    "account.EmailAddress": ("email", "verified", "primary"),
    "mfa.Authenticator": ("type", "created_at", "last_used_at"),
    "socialaccount.SocialAccount": ("provider", "uid", "last_login", "date_joined", "extra_data"),
}
"""Table -> what of it is the person's to know, and no secret."""


def account_of(user: Any) -> Iterator[Part]:
    own = (
        "username",
        "first_name",
        "last_name",
        "email",
        "date_joined",
        "last_login",
        "is_staff",
        "is_superuser",
    )
    told: dict[str, Any] = {name: getattr(user, name) for name in own if hasattr(user, name)}
    told["groups"] = list(user.groups.order_by("name").values_list("name", flat=True))
    told["sessions"] = sum(1 for _ in _sessions_of(user.pk))
    told["sign_ins"] = list(
        SignIn.objects.filter(user=user).order_by("pk").values("at", "address", "browser")
    )
    for label, columns in WAYS_IN.items():
        if apps.is_installed(f"allauth.{label.partition('.')[0]}"):
            rows = apps.get_model(label)._default_manager.filter(user=user).order_by("pk")
            told[label.partition(".")[2]] = list(rows.values(*columns))
    yield "account.json", as_json(told)
    yield "keys.json", as_json(list(ApiKey.objects.filter(user=user).order_by("pk").values(*OF_A_KEY)))


EXPORTS = (account_of,)
