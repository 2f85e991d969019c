"""What is used of limits, and when it comes back: for the person, and for who set them. Reads, and counts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from chatsite.phrases import money
from chatsite.policies.models import Reservation, Used
from chatsite.policies.quotas import COUNTED, Account, accounts_of
from chatsite.policies.rules import policy_of_pk
from chatsite.policies.values import LIMITS
from chatsite.policies.windows import DAY, MINUTE, MONTH, next_of, window_of


@dataclass(frozen=True, slots=True)
class Meter:
    """`back` says when what is used comes back; "" for what is only under way."""

    limit: str
    group: str
    used: int | Decimal
    most: int | Decimal
    back: str

    @property
    def label(self) -> str:
        return labels()[self.limit]

    @property
    def share(self) -> int:
        """Of a hundred."""
        return min(100, int(100 * self.used / self.most)) if self.most else 100

    @property
    def figures(self) -> str:
        return f"{_figure(self.used)} / {_figure(self.most)}"


def labels() -> dict[str, str]:
    return {
        "requests_per_minute": _("Requests this minute"),
        "requests_per_day": _("Requests today"),
        "tokens_per_day": _("Tokens today"),
        "tokens_per_month": _("Tokens this month"),
        "cost_per_month": _("Money this month"),
        "runs_at_once": _("Answers under way"),
    }


def meters_of(user_pk: Any) -> list[Meter]:
    """Those of a person's limits, and of their groups as a whole. Empty when nothing limits them."""
    return list(_meters(accounts_of(user_pk, policy_of_pk(user_pk))))


def _meters(accounts: Iterable[Account]) -> Iterator[Meter]:
    now = timezone.now()
    for account in accounts:
        rows = {row.span: row for row in Used.objects.filter(subject=account.subject)}
        for limit in LIMITS:
            most = getattr(account.limits, limit)
            if most is not None:
                yield Meter(limit, account.group, _used(account, limit, rows, now), most, _back(limit, now))


def _used(account: Account, limit: str, rows: dict[str, Used], now: datetime) -> int | Decimal:
    if limit not in COUNTED:
        return Reservation.objects.filter(subject=account.subject, until__gt=now).count()
    span, what = COUNTED[limit]
    row = rows.get(span)
    return getattr(row, what) if row is not None and row.since >= window_of(span, now) else 0


def _back(limit: str, now: datetime) -> str:
    span = COUNTED.get(limit, ("", ""))[0]
    if span == MINUTE:
        return _("comes back with the next minute")
    if span == DAY:
        return _("comes back at 00:00 UTC")
    if span == MONTH:
        return _("comes back on %(day)s (UTC)") % {"day": f"{next_of(span, now):%Y-%m-%d}"}
    return ""


def _figure(amount: int | Decimal) -> str:
    return money(amount) if isinstance(amount, Decimal) else f"{amount:,}"
