"""What a key may still use: requests and tokens in the last minute, money in its period.

    refused = await limits.check(view)                    before the first round: counts a request
    refused = await limits.check(view, rerun=True)        before every further round: counts none
    limits.book(view, usage, model, public_model)         after every round, also one that broke off

Rule 1: a limit is held inside a request too: a rerun is checked like a first round, but for the count of requests.
Rule 2: what is under way is counted when it ends, since nobody knows before what an answer will take.
Rule 3: with REDIS_URL all processes share the counts; without it, or while Redis is away, each holds its own, which
        costs microseconds and no wait.

The money spent is what the key's row said when it was read, or what was booked here since, whichever is more: rows
come some seconds late, and other processes write them too.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from django.utils import timezone

from agent.messages import Usage
from chatsite.accounts.keys import KeyView, period_of
from chatsite.gateway.conf import setting
from chatsite.gateway.errors import Refused
from chatsite.gateway.prices import cost_of
from chatsite.gateway.windows import Over, Window
from chatsite.phrases import money

if TYPE_CHECKING:
    from chatsite.gateway.shared_limits import SharedLimits

MOST_KEYS = 50_000
ASK_AN_ADMIN = 3600.0
"""Seconds to wait for a person who may raise a budget; nothing else ends it."""


def _shared() -> SharedLimits | None:
    """The counts that all processes share, where they share any."""
    if not setting("REDIS_URL"):
        return None
    from chatsite.gateway import shared_limits  # here, for what it brings along takes 7 MiB

    return shared_limits.client()


@dataclass(slots=True)
class _Spent:
    period: str = ""
    amount: Decimal = Decimal(0)

    def known(self, view: KeyView) -> Decimal:
        """What is spent in the period that is now."""
        period = period_of(view)
        if period != self.period:
            self.period, self.amount = period, view.spent
        self.amount = max(self.amount, view.spent)
        return self.amount


@dataclass(slots=True)
class _Counts:
    requests: Window = field(default_factory=Window)
    tokens: Window = field(default_factory=Window)
    spent: _Spent = field(default_factory=_Spent)

    def over(self, view: KeyView, now: float, requests: int) -> Over | None:
        if view.budget is not None and self.spent.known(view) >= view.budget:
            return Over("budget", 0.0)
        if view.tokens_per_minute and (wait := self.tokens.wait(now, view.tokens_per_minute, 1)):
            return Over("tokens", wait)
        most = view.requests_per_minute
        if most and requests and (wait := self.requests.wait(now, most, requests)):
            return Over("requests", wait)
        return None


class Limits:
    """One for a process (`check` and `book` below)."""

    def __init__(self) -> None:
        self._counts: OrderedDict[int, _Counts] = OrderedDict()

    async def check(self, view: KeyView, *, rerun: bool = False) -> Refused | None:
        """What to answer instead of asking the model; None: go on."""
        if not has_limits(view):
            return None
        requests = 0 if rerun else 1
        counts, now = self._of(view), time.monotonic()
        if (shared := _shared()) is not None:
            over = await shared.check(view, requests, otherwise=lambda: counts.over(view, now, requests))
        else:
            over = counts.over(view, now, requests)
        if over is not None:
            return refusal(view, over)
        counts.requests.add(now, requests)
        return None

    def book(self, view: KeyView, usage: Usage, *models: str) -> None:
        """Count what a round used. `models`: the names under which its price may be found."""
        if not has_limits(view):
            return
        counts = self._of(view)
        cost = cost_of(usage, *models) or Decimal(0)
        if (shared := _shared()) is not None:
            shared.book(view, usage.total_tokens, cost)
        counts.tokens.add(time.monotonic(), usage.total_tokens)
        counts.spent.amount = counts.spent.known(view) + cost

    def _of(self, view: KeyView) -> _Counts:
        counts = self._counts.get(view.pk)
        if counts is None:
            counts = self._counts[view.pk] = _Counts()
            while len(self._counts) > MOST_KEYS:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(view.pk)
        return counts


def has_limits(view: KeyView) -> bool:
    return bool(view.requests_per_minute or view.tokens_per_minute or view.budget is not None)


def refusal(view: KeyView, over: Over) -> Refused:
    """A 429 with Retry-After. SDKs are told not to try again by themselves when only time or a person helps."""
    if over.what == "budget":
        return _out_of_budget(view)
    wait = math.ceil(over.wait)
    limit = view.requests_per_minute if over.what == "requests" else view.tokens_per_minute
    return Refused(
        429,
        "rate_limit_exceeded",
        f"This API key may use {limit:,} {over.what} a minute. Try again in {wait} s.",
        headers={"retry-after": str(wait)},
    )


def _out_of_budget(view: KeyView) -> Refused:
    of, wait, until = "", ASK_AN_ADMIN, ""
    if view.budget_period == "monthly":
        now = timezone.now().astimezone(UTC)
        anew = (now.replace(day=1) + timedelta(days=32)).replace(day=1)
        midnight = datetime(anew.year, anew.month, 1, tzinfo=UTC)
        of, wait = " for this month", (midnight - now).total_seconds()
        until = f" It begins anew on {midnight:%-d %B} (UTC)."
    return Refused(
        429,
        "insufficient_quota",
        f"This API key's budget of {money(view.budget or Decimal(0))}{of} is used up.{until}"
        " An administrator can raise it.",
        headers={"retry-after": str(math.ceil(wait)), "x-should-retry": "false"},
    )


_limits = Limits()
check = _limits.check
book = _limits.book
