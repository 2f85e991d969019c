"""Who may: the one place where a thread is looked up for a person or program, and where keys are made and end.

What is another's does not exist: `NotFound`, whatever the door, so that ids cannot be guessed by their answers.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.utils import timezone

from chatsite.chat.models import ApiKey, Thread

KEY_PREFIX = "tl-"
# `last_used_at` is for people who look for dead keys: a minute is near enough, and spares a write a request.
LAST_USED_EVERY = timedelta(minutes=1)


class NotFound(Exception):
    """There is no such thing for this user."""


def thread_for(user: Any, public_id: str) -> Thread:
    """The user's thread of that id. `NotFound` when there is none, or it is somebody else's."""
    if not getattr(user, "is_active", False):
        raise NotFound(public_id)
    thread = (
        Thread.objects.filter(public_id=public_id, owner_id=user.pk).first()
        if sane_thread_id(public_id)
        else None
    )
    if thread is None:
        raise NotFound(public_id)
    return thread


def sane_id(value: str) -> bool:
    """Short, printable, no blanks at its ends: what an id from outside has to be."""
    return 0 < len(value) <= 200 and value.isprintable() and value == value.strip()


def sane_thread_id(value: str) -> bool:
    """An id that can stand in an address as one step of its path."""
    return sane_id(value) and not ({"/", "\\"} & set(value)) and value not in {".", ".."}


def new_api_key(user: Any, *, label: str = "", value: str = "") -> str:
    """A key for `user`. It is returned here, once; only its digest is kept."""
    key = value or KEY_PREFIX + secrets.token_urlsafe(32)
    ApiKey.objects.create(user=user, label=label, digest=digest_of(key), hint=key[: min(8, len(key) // 4)])
    return key


def revoke(key: ApiKey) -> bool:
    """From now on the key opens nothing. False when it was revoked before: the first time stays on record."""
    return bool(ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now()))


def key_in(authorization: str, x_api_key: str) -> str | None:
    """The key of a request's two headers, None when it brought none. `Bearer` wins when both are there."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    return x_api_key.strip() or None


def user_of_key(key: str) -> Any | None:
    """The active user the key belongs to, or None: unknown, revoked, or its user is deactivated."""
    row = (
        ApiKey.objects.select_related("user")
        .filter(digest=digest_of(key), revoked_at=None, user__is_active=True)
        .first()
    )
    if row is None:
        return None
    now = timezone.now()
    if row.last_used_at is None or row.last_used_at < now - LAST_USED_EVERY:
        # What people like to know must not refuse a program that only reads.
        with suppress(DatabaseError):
            ApiKey.objects.filter(pk=row.pk).update(last_used_at=now)
    return row.user


@dataclass(frozen=True, slots=True)
class Credential:
    """How somebody came in: by a key, or by a session. Kept with an open stream, so that it can be asked again."""

    key: str | None = field(default=None, repr=False)
    session_key: str | None = field(default=None, repr=False)

    def user(self) -> Any | None:
        """Whose it is now; None when it is nobody's any more (revoked, logged out, deactivated)."""
        if self.key is not None:
            return user_of_key(self.key)
        if self.session_key is None:
            return None
        asker = SimpleNamespace(session=import_module(settings.SESSION_ENGINE).SessionStore(self.session_key))
        user = get_user(asker)  # type: ignore[arg-type]  # it looks at the session alone
        return user if user.is_authenticated and user.is_active else None


def may_still_read(credential: Credential, thread_id: str) -> bool:
    """Whether who opened a stream of this thread may go on reading it."""
    try:
        thread_for(credential.user(), thread_id)
    except NotFound:
        return False
    return True


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
