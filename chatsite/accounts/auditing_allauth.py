"""What the audit log says of what people do at the doors of django-allauth, where a project has it installed."""

from __future__ import annotations

from typing import Any

from allauth.account import signals as account
from allauth.mfa import signals as mfa
from allauth.socialaccount import signals as social
from django.dispatch import receiver
from django.http import HttpRequest

from chatsite.accounts import addresses, signins
from chatsite.accounts.auditing import record, subject_of
from chatsite.audit import log


@receiver(account.user_logged_in)
def _came_in(request: HttpRequest, user: Any, sociallogin: Any = None, **_: Any) -> None:
    signins.note(request, user)
    record("login.ok", user, request, **({"way": "oidc"} if sociallogin else {}))


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
