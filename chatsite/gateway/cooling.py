"""Endpoints that fail rest for a while: they are asked last, and never refused without being asked.

what happened                          who rests            for how long
429                                    that model there     what Retry-After says, else `AFTER_429`; at most `LONGEST`
three failures in a row of the kind    the endpoint         `AFTER_FAILURES`
  that another try may mend
a good answer                          nobody any more
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from agent.errors import ProviderError, RateLimited
from chatsite.gateway.endpoints import Target

FAILURES = 3
AFTER_FAILURES = 30.0
AFTER_429 = 5.0
LONGEST = 300.0


class Cooling:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        self._failures: defaultdict[str, int] = defaultdict(int)

    def order(self, targets: tuple[Target, ...]) -> tuple[Target, ...]:
        """Those that rest last, the one that is up soonest before the others."""
        if not self._until or len(targets) == 1:
            return targets
        now = self._clock()
        return tuple(sorted(targets, key=lambda target: max(self._rests_until(target), now)))

    def failed(self, target: Target, error: ProviderError) -> None:
        if isinstance(error, RateLimited):
            wait = AFTER_429 if error.retry_after is None else min(error.retry_after, LONGEST)
            self._until[target.name] = self._clock() + wait
        elif error.retryable or error.status is None:
            name = target.endpoint.name
            self._failures[name] += 1
            if self._failures[name] >= FAILURES:
                self._until[name] = self._clock() + AFTER_FAILURES

    def answered(self, target: Target) -> None:
        if self._failures or self._until:
            self._failures.pop(target.endpoint.name, None)
            self._until.pop(target.endpoint.name, None)
            self._until.pop(target.name, None)

    def _rests_until(self, target: Target) -> float:
        return max(self._until.get(target.endpoint.name, 0.0), self._until.get(target.name, 0.0))
