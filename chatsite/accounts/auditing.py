"""What the audit log says of accounts, as their signals tell it. Never what was typed: it may be a password."""

from __future__ import annotations

from typing import Any

from allauth.account import signals as account
from allauth.mfa import signals as mfa
from allauth.socialaccount import signals as social
from django.contrib.auth import get_user_model, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest

from chatsite.accounts import addresses, signins
from chatsite.accounts.models import ApiKey
from chatsite.audit import log


def record(action: str, user: Any, request: HttpRequest | None, **facts: Any) -> None:
    """`user` did that to their own account."""
    if request is not None and (address := addresses.of_request(request)):
        facts["address"] = address
    log.record(action, actor=user, subject=subject_of(user), door="page" if request else "", facts=facts)


def subject_of(user: Any) -> str:
    return f"user {user.get_username()}" if user is not None else ""


def record_key(action: str, key: ApiKey, *, actor: Any = None, door: str, **facts: Any) -> None:
    """What became of a key, otherwise than by its own user's page."""
    facts |= {"key": key.hint, "scopes": key.scopes}
    log.record(action, actor=actor, subject=subject_of(key.user), door=door, facts=facts)


@receiver(account.user_logged_in)
def _came_in(request: HttpRequest, user: Any, sociallogin: Any = None, **_: Any) -> None:
    signins.note(request, user)
    record("login.ok", user, request, **({"way": "oidc"} if sociallogin else {}))


@receiver(user_login_failed)
def _did_not(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    people = get_user_model()
    name = credentials.get("username") or credentials.get("email") or ""
    known = people.objects.filter(**{people.USERNAME_FIELD: name}).first()
    facts = {"address": addresses.of_request(request)} if request is not None else {}
    log.record("login.failed", subject=subject_of(known), door="page", facts=facts)


@receiver(mfa.authentication_failed)
def _wrong_factor(request: HttpRequest, user: Any, authenticator: Any, **_: Any) -> None:
    facts = {"address": addresses.of_request(request), "factor": str(authenticator.type)}
    log.record("login.failed", subject=subject_of(user), door="page", facts=facts)


def _factor(action: str, request: HttpRequest, user: Any, authenticator: Any) -> None:
    record(action, user, request, factor=str(authenticator.type))


@receiver(mfa.authenticator_added)
def _added(request: HttpRequest, user: Any, authenticator: Any, **_: Any) -> None:
    _factor("factor.added", request, user, authenticator)


@receiver(mfa.authenticator_removed)
def _removed(request: HttpRequest, user: Any, authenticator: Any, **_: Any) -> None:
    _factor("factor.removed", request, user, authenticator)


@receiver(mfa.authenticator_reset)
def _made_anew(request: HttpRequest, user: Any, authenticator: Any, **_: Any) -> None:
    _factor("factor.reset", request, user, authenticator)


@receiver([account.password_changed, account.password_set])
def _new_password(request: HttpRequest, user: Any, **_: Any) -> None:
    # Django has ended all sessions but this one, which has got another key.
    signins.note(request, user)
    record("password.changed", user, request)


@receiver(account.password_reset)
def _reset_password(request: HttpRequest, user: Any, **_: Any) -> None:
    signins.end_all(user)
    record("password.reset", user, request)


@receiver(social.social_account_added)
def _connected(request: HttpRequest, sociallogin: Any, **_: Any) -> None:
    record("identity.connected", sociallogin.user, request)


@receiver(account.user_signed_up)
def _signed_up(request: HttpRequest, user: Any, **_: Any) -> None:
    record("user.signed_up", user, request)
