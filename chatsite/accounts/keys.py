"""Keys: how one is made, found, and ended. The doors ask `look_up` and get a value, never a row.

Rule 1: a key is told once, to whoever made it. What is kept is its digest.
Rule 2: a key that is unknown, revoked, expired, or its user's that is deactivated, is no key: None.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DatabaseError, connection
from django.utils import timezone

from chatsite.accounts.models import ApiKey

KEY_PREFIX = "tl-"
MOST_CHARS = 200
# `last_used_at` is for people who look for dead keys: a minute is near enough, and spares a write a request.
LAST_USED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class KeyView:
    """What a door needs to know of a key. It can be kept for some seconds: it holds no row and no secret."""

    pk: int
    user_id: int
    label: str
    hint: str
    scopes: frozenset[str]
    models: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    requests_at_once: int | None = None
    budget: Decimal | None = None
    spent: Decimal = Decimal(0)
    """Of the budget's period, when the row was read."""
    budget_period: str = ""
    keep: str = ApiKey.Keep.METADATA.value
    stream_form: str = ""
    max_agentic_loops: int | None = None
    expires_at: datetime | None = None

    def may_use(self, model: str) -> bool:
        """Whether its list of models, if it has one, names this one."""
        return not self.models or model in self.models

    def has(self, scope: str) -> bool:
        return scope in self.scopes


def new_api_key(user: Any, *, label: str = "", value: str = "", **settings: Any) -> str:
    """A key for `user`. It is returned here, once; only its digest is kept.

    `settings` are fields of `ApiKey`. A ValidationError names the ones that cannot be.
    """
    row = ApiKey(user=user, label=label, **settings)
    key = give_value(row, value)
    row.clean_fields()
    row.save(force_insert=True)
    return key


def give_value(row: ApiKey, value: str = "") -> str:
    """Make (or take) the key's value and put into the row what is kept of it."""
    key = value or KEY_PREFIX + secrets.token_urlsafe(32)
    row.digest, row.hint = digest_of(key), key[: min(8, len(key) // 4)]
    return key


def revoke(key: ApiKey) -> bool:
    """From now on the key opens nothing. False when it was revoked before: the first time stays on record."""
    return bool(ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now()))


def key_in(authorization: str, x_api_key: str) -> str | None:
    """The key of a request's two headers, None when it brought none. `Bearer` wins when both are there."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip() or x_api_key.strip()
    return x_api_key.strip() or None


def look_up(key: str) -> KeyView | None:
    """The key as it is now, None when it opens nothing. Notes, now and then, that it was used."""
    row = _live_row(key)
    return None if row is None else view_of(row)


def user_and_view(key: str) -> tuple[Any, KeyView] | None:
    """The same, with the user it belongs to."""
    row = _live_row(key)
    return None if row is None else (row.user, view_of(row))


def _live_row(key: str) -> ApiKey | None:
    """The key's row with its user, when both are good."""
    now = timezone.now()
    row = next(iter(ApiKey.objects.raw(OF_DIGEST, [digest_of(key)])), None)
    if row is None or (row.expires_at is not None and row.expires_at <= now):
        return None
    user = next(iter(get_user_model().objects.raw(_user_by_pk(), [row.user_id])), None)
    if user is None or not user.is_active:
        return None
    row.user = user
    if row.last_used_at is None or row.last_used_at < now - LAST_USED_EVERY:
        # What people like to know must not refuse a program that only reads.
        with suppress(DatabaseError):
            ApiKey.objects.filter(pk=row.pk).update(last_used_at=now)
    return row


# In SQL, as every request asks these, and each open stream every few seconds.
OF_DIGEST = "SELECT * FROM chat_apikey WHERE digest = %s AND revoked_at IS NULL"


@cache
def _user_by_pk() -> str:
    users, quoted = get_user_model()._meta, connection.ops.quote_name
    return f"SELECT * FROM {quoted(users.db_table)} WHERE {quoted(users.pk.column)} = %s"  # noqa: S608 - our own names


def view_of(row: ApiKey) -> KeyView:
    return KeyView(
        pk=row.pk,
        user_id=row.user_id,
        label=row.label,
        hint=row.hint,
        scopes=frozenset(row.scopes),
        models=tuple(row.allowed_models),
        requests_per_minute=row.requests_per_minute,
        tokens_per_minute=row.tokens_per_minute,
        requests_at_once=row.requests_at_once,
        budget=row.budget,
        spent=spent_of(row),
        budget_period=row.budget_period,
        keep=row.keep,
        stream_form=row.stream_form,
        max_agentic_loops=row.max_agentic_loops,
        expires_at=row.expires_at,
    )


def spent_of(row: ApiKey) -> Decimal:
    """What counts against the budget: all of it, or this month's."""
    return spent_this_month(row) if row.budget_period == ApiKey.Period.MONTHLY else row.spent


def spent_this_month(row: ApiKey) -> Decimal:
    return row.spent_this_month if row.month == month_of(timezone.now()) else Decimal(0)


def period_of(view: KeyView) -> str:
    """The period that its budget is for now: a month, or `total`."""
    return month_of(timezone.now()) if view.budget_period == ApiKey.Period.MONTHLY else "total"


def month_of(moment: datetime) -> str:
    """`2026-11`, of a moment in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m}"


def sane_key(value: str) -> bool:
    """What a key that somebody brings along has to be."""
    return 0 < len(value) <= MOST_CHARS and value.isprintable() and value == value.strip()


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
