"""How much there was in the last minute. Pure: the time is told.

Amounts are kept by the second, so a minute is exact to one second, and a window is at most 61 numbers.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

SECONDS = 60
SOON = 2.0
"""Seconds after which one of the requests that are under way may have ended."""


class Over(NamedTuple):
    """Which limit is reached, and the seconds after which it may not be."""

    what: str
    wait: float


class Window:
    def __init__(self) -> None:
        self._amounts: deque[list[int]] = deque()  # [second, amount], oldest first
        self._total = 0

    def add(self, now: float, amount: int) -> None:
        second = int(now)
        if self._amounts and self._amounts[-1][0] >= second:
            self._amounts[-1][1] += amount
        else:
            self._amounts.append([second, amount])
        self._total += amount

    def total(self, now: float) -> int:
        while self._amounts and self._amounts[0][0] <= now - SECONDS:
            self._total -= self._amounts.popleft()[1]
        return self._total

    def wait(self, now: float, limit: int, more: int) -> float:
        """Seconds until `more` fits under `limit`; 0 when it does now."""
        left = self.total(now)
        if left + more <= limit:
            return 0.0
        for second, amount in self._amounts:
            left -= amount
            if left + more <= limit:
                return max(0.001, second + SECONDS - now)
        return float(SECONDS)
