"""Who may: the one place where a thread is looked up for a person or program, and where keys are made and end.

What is another's does not exist: `NotFound`, whatever the door, so that ids cannot be guessed by their answers.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user, get_user_model
from django.db import DatabaseError, connection
from django.utils import timezone

from chatsite.chat.models import ApiKey, Thread

KEY_PREFIX = "tl-"
# `last_used_at` is for people who look for dead keys: a minute is near enough, and spares a write a request.
LAST_USED_EVERY = timedelta(minutes=1)

# In SQL, as every request asks it, and each open stream every few seconds.
THREAD_OF = "SELECT * FROM chat_thread WHERE public_id = %s AND owner_id = %s AND deleted_at IS NULL"


class NotFound(Exception):
    """There is no such thing for this user."""


def thread_for(user: Any, public_id: str) -> Thread:
    """The user's thread of that id. `NotFound` when there is none, or it is somebody else's."""
    if not getattr(user, "is_active", False):
        raise NotFound(public_id)
    found = Thread.objects.raw(THREAD_OF, [public_id, user.pk]) if sane_thread_id(public_id) else ()
    for thread in found:
        return thread
    raise NotFound(public_id)


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
    now = timezone.now()
    stale = ApiKey._meta.get_field("last_used_at").get_db_prep_value(now - LAST_USED_EVERY, connection)
    for user in get_user_model().objects.raw(_user_of_digest(), [stale, digest_of(key)]):
        if user.key_is_stale:
            # What people like to know must not refuse a program that only reads.
            with suppress(DatabaseError):
                ApiKey.objects.filter(pk=user.key_pk).update(last_used_at=now)
        return user
    return None


@cache
def _user_of_digest() -> str:
    users, quoted = get_user_model()._meta, connection.ops.quote_name
    return f"""
        SELECT person.*, key.id AS key_pk,
            (key.last_used_at IS NULL OR key.last_used_at < %s) AS key_is_stale
        FROM {quoted(users.db_table)} person
        JOIN chat_apikey key ON key.user_id = person.{quoted(users.pk.column)}
        WHERE key.digest = %s AND key.revoked_at IS NULL AND person.is_active
    """  # noqa: S608 - our own names


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
