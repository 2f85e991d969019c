"""What the audit log says of accounts, as their signals tell it. Never what was typed: it may be a password."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest

from chatsite.accounts import addresses
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


@receiver(user_login_failed)
def _did_not(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    people = get_user_model()
    name = credentials.get("username") or credentials.get("email") or ""
    known = people.objects.filter(**{people.USERNAME_FIELD: name}).first()
    facts = {"address": addresses.of_request(request)} if request is not None else {}
    log.record("login.failed", subject=subject_of(known), door="page", facts=facts)
