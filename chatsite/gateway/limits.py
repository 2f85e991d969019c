"""What a key may still use: requests and tokens in the last minute, requests at once, money in its period.

    place = await limits.enter(view, hold)    before the first round: counts a request, takes a place; or raises Refused
    refused = await place.check()             before every further round: counts none
    place.book(usage, model, public_model)    after every round, also one that broke off
    place.leave()                             at the end, whatever it was

Rule 1: a limit is held inside a request too: a rerun is checked like a first round, but for the count of requests.
Rule 2: nobody knows before what an answer will cost, so a request holds what it may (`hold`) until that is known.
        Another one begins while what is spent and held by others lies below the budget. So a budget is passed by one
        request's money at most, however many come at once. Tokens of a minute are counted when a round ends.
Rule 3: with REDIS_URL all processes share the counts; without it, or while Redis is away, each holds its own, which
        costs microseconds and no wait.

The money spent is what the key's row said when it was read, or what was booked here since, whichever is more: rows
come some seconds late, and other processes write them too.
"""

from __future__ import annotations

import math
import secrets
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
from chatsite.gateway.windows import SOON, Over, Window
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
    open: int = 0
    held: Decimal = Decimal(0)

    def over(self, view: KeyView, now: float, requests: int, own: Decimal) -> Over | None:
        """`own`: what the one who asks holds itself."""
        if view.budget is not None:
            spent = self.spent.known(view)
            if spent >= view.budget:
                return Over("budget", 0.0)
            if spent + self.held - own >= view.budget:
                return Over("held", SOON)
        if view.tokens_per_minute and (wait := self.tokens.wait(now, view.tokens_per_minute, 1)):
            return Over("tokens", wait)
        if requests and view.requests_at_once and self.open >= view.requests_at_once:
            return Over("at_once", SOON)
        most = view.requests_per_minute
        if most and requests and (wait := self.requests.wait(now, most, requests)):
            return Over("requests", wait)
        return None


class Place:
    """One request of a key, from its beginning to its end."""

    def __init__(self, view: KeyView, counts: _Counts, hold: Decimal) -> None:
        self.view = view
        self.held = hold
        self.lease = secrets.token_hex(8) if _takes_place(view) else ""
        self._counts = counts
        self._entered = False

    async def check(self) -> Refused | None:
        """What to answer instead of asking the model again; None: go on."""
        over = await self._over(0)
        return None if over is None else refusal(self.view, over)

    async def enter(self) -> Over | None:
        over = await self._over(1)
        if over is None:
            self._entered = True
            self._counts.requests.add(time.monotonic(), 1)
            self._counts.open += 1
            self._counts.held += self.held
        return over

    def book(self, usage: Usage, *models: str) -> None:
        """Count what a round used. `models`: the names under which its price may be found."""
        cost = cost_of(usage, *models) or Decimal(0)
        if (shared := _shared()) is not None:
            shared.book(self.view, usage.total_tokens, cost, self.lease)
        self._counts.tokens.add(time.monotonic(), usage.total_tokens)
        self._counts.spent.amount = self._counts.spent.known(self.view) + cost
        self._release(min(self.held, cost))

    def leave(self) -> None:
        """Safe to call twice."""
        if not self._entered:
            return
        self._entered = False
        self._counts.open -= 1
        self._release(self.held)
        if self.lease and (shared := _shared()) is not None:
            shared.leave(self.view, self.lease)

    def _release(self, amount: Decimal) -> None:
        self.held -= amount
        self._counts.held -= amount

    async def _over(self, requests: int) -> Over | None:
        view, counts, now = self.view, self._counts, time.monotonic()
        own = Decimal(0) if requests else self.held

        def alone() -> Over | None:
            return counts.over(view, now, requests, own)

        if (shared := _shared()) is None:
            return alone()
        return await shared.check(view, requests, self.lease, self.held, otherwise=alone)


_NOTHING = _Counts()


class NoLimits(Place):
    """Of a key that has none: nothing is counted."""

    def __init__(self, view: KeyView) -> None:
        super().__init__(view, _NOTHING, Decimal(0))

    async def check(self) -> Refused | None:
        return None

    def book(self, usage: Usage, *models: str) -> None:
        return None


class Limits:
    """One for a process (`enter` below)."""

    def __init__(self) -> None:
        self._counts: OrderedDict[int, _Counts] = OrderedDict()

    async def enter(self, view: KeyView, hold: Decimal = Decimal(0)) -> Place:
        """`hold`: what the request may cost, as far as that can be known. Raises Refused."""
        if not has_limits(view):
            return NoLimits(view)
        place = Place(view, self._of(view), hold if view.budget is not None else Decimal(0))
        if (over := await place.enter()) is not None:
            raise refusal(view, over)
        return place

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
    return bool(view.requests_per_minute or view.tokens_per_minute or _takes_place(view))


def _takes_place(view: KeyView) -> bool:
    """Whether it matters how many are under way."""
    return bool(view.requests_at_once) or view.budget is not None


def refusal(view: KeyView, over: Over) -> Refused:
    """A 429 with Retry-After. SDKs are told not to try again by themselves when only time or a person helps."""
    if over.what == "budget":
        return _out_of_budget(view)
    wait = math.ceil(over.wait)
    words = {
        "requests": f"This API key may use {view.requests_per_minute or 0:,} requests a minute.",
        "tokens": f"This API key may use {view.tokens_per_minute or 0:,} tokens a minute.",
        "at_once": f"This API key may have {view.requests_at_once or 0:,} requests under way at once.",
        "held": "What is left of this API key's budget is held by requests that are under way.",
    }
    message = f"{words[over.what]} Try again in {wait} s."
    return Refused(429, "rate_limit_exceeded", message, headers={"retry-after": str(wait)})


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
enter = _limits.enter
