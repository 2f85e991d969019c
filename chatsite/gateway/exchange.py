"""What became of one request: gathered while it is answered, noted once at its end.

Rule 1: whatever ends it (a good answer, an error, a caller that left) is noted, with what was used.
Rule 2: content is only held where the key says so (`keep` is full), and only `MOST_HELD` bytes of an answer.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from django.utils import timezone

from agent.messages import Usage
from chatsite.accounts.keys import KeyView
from chatsite.gateway import limits
from chatsite.gateway.bodies import Body
from chatsite.gateway.caller import Caller
from chatsite.gateway.errors import Refused
from chatsite.gateway.limits import Place
from chatsite.gateway.prices import may_cost
from chatsite.gateway.quota import Quota
from chatsite.gateway.recorder import recorder
from chatsite.gateway.records import ExchangeRecord, RoundRecord
from chatsite.gateway.rounds import Round, ms_since
from chatsite.gateway.routes import Routes

MOST_HELD = 1_000_000
LEFT = 499
NOTHING = Decimal(0)


class Exchange:
    def __init__(self, caller: Caller, key: KeyView, body: Body) -> None:
        self.caller = caller
        self.key = key
        self.body = body
        self.id = secrets.token_hex(16)
        self.place: Place | None = None
        self.rounds: list[RoundRecord] = []
        self.quota = Quota(key, self.id, body, self.rounds)
        self.error_code = ""
        self.keeps_content = key.keep == "full"
        self._status = 500
        self._began = time.monotonic()
        self._first_byte_at: float | None = None
        self._held: list[bytes] = []
        self._size = 0

    async def enter(self, routes: Routes) -> None:
        """Under the limits of its key, its user and their groups. Raises Refused."""
        has_budget = self.key.budget is not None
        hold = may_cost(self.body, routes.names_of(self.body.model)) if has_budget else NOTHING
        self.place = await limits.enter(self.key, hold)
        if refused := await self.quota.begin():
            raise refused

    def failed(self, refused: Refused) -> None:
        self.error_code = refused.code
        self._status = refused.status

    def sent(self, data: bytes) -> None:
        """These bytes go to the caller."""
        if self._first_byte_at is None:
            self._first_byte_at = time.monotonic()
        if self.keeps_content and self._size < MOST_HELD:
            self._held.append(data)
            self._size += len(data)

    def end_round(self, round: Round, body: Body, response: bytes | None = None) -> None:
        """Book what this round used, as far as it came. `response`: all of it, where content is kept."""
        record = round.record
        record.ms = ms_since(round.began_at)
        record.usage = _used(body, round)
        record.stop_reason = round.stop_reason
        if self.keeps_content:
            record.request, record.response = body.raw, response
        assert self.place is not None  # nobody asks a model before
        self.place.book(record.usage, record.model, self.body.model)

    def end(self) -> None:
        """Whatever ended it."""
        if self.place is not None:
            self.place.leave()
        self.quota.end()
        recorder.note(
            ExchangeRecord(
                id=self.id,
                request_id=self.caller.request_id,
                key_pk=self.key.pk,
                user_id=self.key.user_id,
                keep=self.key.keep,
                dialect=self.caller.dialect,
                model=self.body.model,
                stream=self.body.stream,
                # The head of a stream goes out before what may go wrong in it.
                status=200 if self.caller.began else self._status,
                error_code=self.error_code,
                started_at=timezone.now() - timedelta(seconds=time.monotonic() - self._began),
                ms=ms_since(self._began),
                first_byte_ms=self._first_byte_ms(),
                rounds=self.rounds,
                request=self.body.raw if self.keeps_content else None,
                response=b"".join(self._held) if self.keeps_content else None,
            )
        )

    def _first_byte_ms(self) -> int | None:
        return None if self._first_byte_at is None else round((self._first_byte_at - self._began) * 1000)


def _used(body: Body, round: Round) -> Usage:
    """What the endpoint says. Where it says nothing, about four bytes a token went there, and a token came with each
    event; also beside what it said at the beginning of a stream that then broke off, or was left."""
    told = round.usage
    if told is None:
        return Usage(len(body.raw) // 4, round.events)
    if round.stop_reason:
        return told
    return replace(told, output_tokens=max(told.output_tokens, round.events))
