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
from collections.abc import Mapping, Sequence
from typing import Protocol

from agent.errors import AgentError, ProviderError, ProviderUnavailable, RequestRejected
from agent.messages import Usage
from chatsite.gateway.bodies import Body
from chatsite.gateway.dialects import Dialect
from chatsite.gateway.endpoints import Target
from chatsite.gateway.errors import EndpointRefused, refusal_of
from chatsite.gateway.passing import forwarded, pass_on
from chatsite.gateway.routes import Routes
from chatsite.gateway.translating import translate

log = logging.getLogger(__name__)

PASSES = 3
LONGEST_WAIT = 5.0
"""Seconds that a caller is made to wait for another try because an endpoint asks for them."""


class Round(Protocol):
    """An answer that has begun, in the caller's dialect and under the public name.

    Streamed: `next` gives bytes that end at an event's end, empty when it is over. Else `whole` has all of it.
    """

    @property
    def target(self) -> Target: ...
    @property
    def status(self) -> int: ...
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
    async def next(self) -> bytes: ...
    async def close(self) -> None: ...


class Asker:
    """Asks for the rounds of one caller's request."""

    def __init__(
        self, routes: Routes, dialect: Dialect, headers: Mapping[bytes, bytes], request_id: str
    ) -> None:
        self._routes = routes
        self._dialect: Dialect = dialect
        self._request_id = request_id
        self._headers = forwarded(headers, dialect, request_id)

    async def ask(self, body: Body) -> Round:
        """Raises Refused: the last target's, when none answers."""
        targets = list(await self._routes.targets(body.model))
        for passed in range(1, PASSES + 1):
            waits: list[float] = []
            for target in list(targets):
                try:
                    return await self._try(target, body)
                except (AgentError, EndpointRefused) as failure:
                    error = failure.error if isinstance(failure, EndpointRefused) else failure
                    refused = failure.refusal if isinstance(failure, EndpointRefused) else refusal_of(failure)
                    wait = self._note(target, error, passed)
                if _is_final(error):
                    raise refused
                if wait is None:
                    targets.remove(target)
                else:
                    waits.append(wait)
            if not waits or passed == PASSES:
                break
            await asyncio.sleep(min(waits))
        raise refused

    async def _try(self, target: Target, body: Body) -> Round:
        if target.endpoint.dialect == self._dialect:
            round: Round = await pass_on(target, self._dialect, body, self._headers)
        else:
            round = await translate(target, self._dialect, body)
        self._routes.cooling.answered(target)
        return round

    def _note(self, target: Target, error: AgentError, passed: int) -> float | None:
        """Seconds until this target may be asked again; None when there is no use in it."""
        log.warning("%s: %s failed: %s (%s)", self._request_id, target.name, error, error.code)
        if not isinstance(error, ProviderError):
            return None
        self._routes.cooling.failed(target, error)
        if not error.retryable:
            return None
        asked = error.retry_after if isinstance(error, ProviderUnavailable) else None
        if asked is None:
            return 0.25 * 2**passed * random.uniform(0.5, 1)
        return asked + random.uniform(0, 0.1) if asked <= LONGEST_WAIT else None


def _is_final(error: AgentError) -> bool:
    """The request would be refused anywhere."""
    return type(error) is RequestRejected and error.code == RequestRejected.code
