"""One round: a request to a model, wherever it is served, until it has begun to answer.

Rule 1: targets are tried in order. Another try is only made while not one byte of an answer has gone to the caller.
Rule 2: what kind of failure it was decides what comes next:

    the request itself is wrong                          nothing: the caller is told
    it cannot be put to this endpoint (translation,      the next target
      key, model, length, no credit, nonsense, no first byte in time)
    down, overloaded, 429                                the next target; when all have been asked, again after a
                                                         pause, `PASSES` times in all
Rule 3: `Retry-After` is waited for when it is short. Else the caller is told when to come back.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.errors import AgentError, ProviderError, ProviderUnavailable, RequestRejected
from agent.messages import Usage
from chatsite.gateway.bodies import Body
from chatsite.gateway.dialects import Dialect
from chatsite.gateway.endpoints import Target
from chatsite.gateway.errors import EndpointRefused, Refused, refusal_of
from chatsite.gateway.passing import forwarded, pass_on
from chatsite.gateway.records import RoundRecord
from chatsite.gateway.routes import Routes
from chatsite.gateway.translating import TranslatedRound, translate

log = logging.getLogger(__name__)

PASSES = 3
FIRST_PAUSE = 0.5
LONGEST_WAIT = 5.0
"""Seconds that a caller is made to wait for another try because an endpoint asks for them."""


class Round(Protocol):
    """An answer that has begun, in the caller's dialect and under the public name.

    Streamed: `next` gives bytes that end at an event's end, empty when it is over. Else `whole` has all of it.
    `events` counts what has come: about the number of tokens, where nobody says it. `record` is what is noted of it.
    """

    @property
    def target(self) -> Target: ...
    @property
    def streamed(self) -> bool: ...
    @property
    def whole(self) -> bytes: ...
    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]: ...
    @property
    def usage(self) -> Usage | None: ...
    @property
    def events(self) -> int: ...
    @property
    def provider(self) -> Dialect | None: ...
    @property
    def stop_reason(self) -> str: ...

    record: RoundRecord
    began_at: float

    async def next(self) -> bytes: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Failure:
    """`again_in`: seconds until that target may be asked again; None when there is no use in it."""

    refused: Refused
    is_final: bool
    again_in: float | None


class Asker:
    """Asks for the rounds of one caller's request. Each attempt is told to `records`; one that broke off behind its
    first event to `end_round` too, which books what came of it."""

    def __init__(
        self,
        routes: Routes,
        dialect: Dialect,
        headers: Mapping[bytes, bytes],
        request_id: str,
        records: list[RoundRecord],
        end_round: Callable[[Round, Body], None],
    ) -> None:
        self._routes = routes
        self._dialect: Dialect = dialect
        self._request_id = request_id
        self._records = records
        self._end_round = end_round
        self._headers = forwarded(headers, dialect, request_id)

    async def ask(self, body: Body, *, depth: int = 0, asked_by: str = "") -> Round:
        """Raises Refused: the last target's, when none answers. `asked_by`: the hook that wants this rerun."""
        targets = await self._routes.targets(body.model)
        for number in range(1, PASSES + 1):
            failures: dict[Target, _Failure] = {}
            for target in targets:
                outcome = await self._attempt(target, body, self._record(target, depth, asked_by), number)
                if not isinstance(outcome, _Failure):
                    return outcome
                if outcome.is_final:
                    raise outcome.refused
                failures[target] = outcome
            waits = {target: f.again_in for target, f in failures.items() if f.again_in is not None}
            if not waits or number == PASSES:
                break
            await asyncio.sleep(min(waits.values()))
            targets = tuple(waits)
        raise outcome.refused

    def _record(self, target: Target, depth: int, asked_by: str) -> RoundRecord:
        record = RoundRecord(
            endpoint=target.endpoint.name,
            model=target.model,
            dialect=target.endpoint.dialect or "",
            depth=depth,
            asked_by=asked_by,
        )
        self._records.append(record)
        return record

    async def _attempt(
        self, target: Target, body: Body, record: RoundRecord, number: int
    ) -> Round | _Failure:
        began_at = time.monotonic()
        try:
            answered = await self._open(target, body)
            answered.record, answered.began_at = record, began_at
            if isinstance(answered, TranslatedRound) and not body.stream:
                await self._gather(answered, body)
        except EndpointRefused as refused:
            record.error_code, record.status = refused.error.code, refused.error.status or 0
            return self._failure(target, refused.error, refused.refusal, number)
        except AgentError as error:
            record.error_code, record.status = error.code, getattr(error, "status", None) or 0
            return self._failure(target, error, refusal_of(error), number)
        finally:
            record.ms = ms_since(began_at)
        record.status, record.first_byte_ms = 200, record.ms
        self._routes.cooling.answered(target)
        return answered

    async def _open(self, target: Target, body: Body) -> Round:
        if target.endpoint.dialect == self._dialect:
            return await pass_on(target, self._dialect, body, self._headers)
        return await translate(target, self._dialect, body)

    async def _gather(self, round: TranslatedRound, body: Body) -> None:
        try:
            await round.gather()
        except BaseException:
            await round.close()
            self._end_round(round, body)
            raise

    def _failure(self, target: Target, error: AgentError, refused: Refused, number: int) -> _Failure:
        log.warning("%s: %s failed: %s (%s)", self._request_id, target.name, error, error.code)
        if isinstance(error, ProviderError):
            self._routes.cooling.failed(target, error)
        return _Failure(refused, is_final(error), _again_in(error, number))


def _again_in(error: AgentError, number: int) -> float | None:
    if not isinstance(error, ProviderError) or not error.retryable:
        return None
    asked = error.retry_after if isinstance(error, ProviderUnavailable) else None
    if asked is None:
        return FIRST_PAUSE * 2 ** (number - 1) * random.uniform(0.5, 1)
    return asked + random.uniform(0, 0.1) if asked <= LONGEST_WAIT else None


def ms_since(since: float) -> int:
    return round((time.monotonic() - since) * 1000)


def is_final(error: AgentError) -> bool:
    """The request would be refused anywhere."""
    return type(error) is RequestRejected and error.code == RequestRejected.code
