"""The limits of a key's user and their groups, held in one request (`chatsite.policies.quotas`; a key's own: `limits`).

    refused = await quota.begin()     before the first round: counts a request, holds what it needs
    refused = await quota.again()     before every further round: books what the last ones used
    quota.end()                       behind the last one; in a thread, since nobody waits for it

What a request holds is renewed while it goes on, so a process that was killed holds nobody's place for long.
A request of somebody whom nothing limits asks for their policy, which is known, and does no more. Where the database
cannot be asked nobody passes whom something limits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from agent.messages import Usage
from chatsite.accounts.keys import KeyView
from chatsite.gateway import allowance
from chatsite.gateway.bodies import Body
from chatsite.gateway.errors import Refused
from chatsite.gateway.prices import BYTES_A_TOKEN, LONG_ANSWER, cost_of, may_cost
from chatsite.gateway.records import RoundRecord
from chatsite.policies import quotas, words
from chatsite.policies.quotas import Account, Amount, Over

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_ASKED = 50_000
"""Tokens: a picture has megabytes, and is not read by the byte."""
AN_ANSWER = 1000
PAUSES = (1.0, 4.0, 15.0, 60.0)
"""Seconds between tries to book what a request used, while the database is away."""
LEASE = timedelta(minutes=10)
"""How long a request is taken to be under way when its process says no more of it; longer than a database is away."""
RENEW = 60.0
WORTH_WAITING = 60
"""Seconds after which an SDK may try again by itself."""

_asking = ThreadPoolExecutor(max_workers=2, thread_name_prefix="gateway-quota")
_booking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gateway-booking")


class Quota:
    def __init__(self, key: KeyView, holder: str, body: Body, rounds: Sequence[RoundRecord]) -> None:
        """`rounds` grows as they are made."""
        self._user = key.user_id
        self._holder = f"exchange:{holder}"
        self._body = body
        self._rounds = rounds
        self._booked = Amount()
        self._begun = False
        self._asked: asyncio.Future[Over | None] | None = None

    async def begin(self, need: Amount | None = None) -> Refused | None:
        """`need`: what it may use, where that is not what an answer to it takes."""
        accounts = await self._accounts()
        if not accounts:
            return None
        over = await self._ask(partial(quotas.admit, accounts, self._holder, need or self._need(), LEASE))
        self._begun = over is None
        if self._begun:
            _live.hold(self._holder)
        return None if over is None else refusal(over)

    async def again(self) -> Refused | None:
        accounts = await self._accounts()
        if not accounts:
            return None
        self._begun = True
        total = self._used()
        new = Amount(total.tokens - self._booked.tokens, total.cost - self._booked.cost)
        over = await self._ask(partial(quotas.go_on, accounts, self._holder, new, self._need(), LEASE))
        self._booked = total
        return None if over is None else refusal(over)

    def end(self) -> None:
        if self._asked is not None and not self._asked.done():
            return  # what is being asked for would be booked again behind the end: its answer ends it
        _live.release(self._holder)
        if self._begun:
            self._begun = False  # once: who left may end it beside the answer to what was asked
            _booking.submit(_book, self._holder, self._used())

    async def _accounts(self) -> tuple[Account, ...]:
        return quotas.accounts_of(self._user, await allowance.policy_of(self._user))

    async def _ask(self, job: Callable[[], Over | None]) -> Over | None:
        asked = self._asked = asyncio.get_running_loop().run_in_executor(_asking, _committed, job)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            # The caller has left, and the answer is on its way: what it holds is let go of behind it.
            self._begun = True
            asked.add_done_callback(lambda _: self.end())
            raise
        except DatabaseError as error:
            log.warning("a quota could not be asked for: %s", error)
            message = "Your limits cannot be looked up at the moment. Try again soon."
            raise Refused(503, "not_stored", message, headers={"retry-after": "5"}) from None

    def _need(self) -> Amount:
        asked = min(len(self._body.raw) // BYTES_A_TOKEN, MOST_ASKED)
        answer = min(self._body.limit or AN_ANSWER, LONG_ANSWER)
        return Amount(asked + answer, may_cost(self._body, (self._body.model,)))

    def _used(self) -> Amount:
        usage = sum((each.usage for each in self._rounds), Usage())
        costs = [cost_of(each.usage, each.model, self._body.model) or Decimal(0) for each in self._rounds]
        return Amount(usage.total_tokens, sum(costs, Decimal(0)), usage.output_tokens)


class _Live:
    """Who is under way in this process. What they hold is renewed, all at once, for as long as there are any."""

    def __init__(self) -> None:
        self._holders: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None

    def hold(self, holder: str) -> None:
        self._holders.add(holder)
        loop, task = asyncio.get_running_loop(), self._renewing
        if task is None or task.done() or task.get_loop() is not loop:
            self._renewing = loop.create_task(self._renew())

    def release(self, holder: str) -> None:
        self._holders.discard(holder)

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        while self._holders:
            await asyncio.sleep(RENEW)
            job = partial(quotas.renew, tuple(self._holders), LEASE)
            try:
                await loop.run_in_executor(_asking, _committed, job)
            except DatabaseError as error:
                log.warning("what is under way could not be renewed yet: %s", error)


_live = _Live()


def refusal(over: Over) -> Refused:
    """A 429 with Retry-After. SDKs are told not to try again by themselves when that would be for long."""
    now = timezone.now()
    wait = over.retry_after(now)
    headers = {"retry-after": str(wait)} | ({} if wait <= WORTH_WAITING else {"x-should-retry": "false"})
    code = "rate_limit_exceeded" if wait <= WORTH_WAITING else "insufficient_quota"
    return Refused(429, code, words.said(over, now), headers=headers)


def _book(holder: str, total: Amount) -> None:
    for pause in (*PAUSES, None):
        try:
            _committed(partial(quotas.settle, holder, total))
            return
        except DatabaseError as error:
            log.warning("what a request used could not be booked yet: %s", error)
            if pause is None:
                return
            time.sleep(pause)


def _committed(job: Callable[[], T]) -> T:
    try:
        with transaction.atomic():
            return job()
    finally:
        connection.close()


def settled() -> None:
    """Wait until everything that has ended so far is booked."""
    _booking.submit(lambda: None).result(timeout=90)
