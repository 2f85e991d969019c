"""What a process counts.

Rule 1: counting costs a dictionary's look-up under a lock, and never fails.
Rule 2: labels are few and of a closed set (a model, a tool, a state): never an id, never what somebody wrote. What
        comes from outside is cut and made whole (one name that UTF-8 cannot hold would take the whole page of numbers
        with it), and beyond `MOST_SERIES` of one counter the rest is summed as "other".
Rule 3: what can be looked up is not counted: a gauge is a function that is asked when somebody wants to know.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from threading import Lock

from agent.text import whole

MOST_SERIES = 200
OTHER = "other"
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

Labels = tuple[str, ...]


class Counter:
    """A sum for each combination of labels, only ever growing."""

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._sums: dict[Labels, float] = {}
        self._lock = Lock()
        _counters.append(self)

    def add(self, *values: str, by: float = 1) -> None:
        with self._lock:
            if values in self._sums:  # nearly always: then it is of the closed set, and fits
                self._sums[values] += by
                return
            key = _bounded(self._sums, values)
            self._sums[key] = self._sums.get(key, 0) + by

    def read(self) -> dict[Labels, float]:
        with self._lock:
            return dict(self._sums)


class Timing:
    """How long something took, in seconds: how many of each label were done within each of `SECONDS`."""

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._lock = Lock()
        _timings.append(self)

    def add(self, seconds: float, *values: str) -> None:
        with self._lock:
            key = values if values in self._counts else self._opened(values)
            self._counts[key][bisect_left(SECONDS, seconds)] += 1
            self._sums[key] += seconds

    def _opened(self, values: Labels) -> Labels:
        key = _bounded(self._counts, values)
        self._counts.setdefault(key, [0] * (len(SECONDS) + 1))
        self._sums.setdefault(key, 0.0)
        return key

    def read(self) -> dict[Labels, tuple[list[int], float]]:
        """Label values -> (counts: one a bucket, the last for what took longer than all of them; sum of seconds)."""
        with self._lock:
            return {key: (list(counts), self._sums[key]) for key, counts in self._counts.items()}


class Gauge:
    """What `read` says now."""

    def __init__(self, name: str, help: str, read: Callable[[], float]) -> None:
        self.name, self.help, self.read = name, help, read
        _gauges.append(self)


def _bounded(series: dict[Labels, object] | dict[Labels, float], values: Labels) -> Labels:
    key = tuple(whole(value[:100]) for value in values)
    return key if key in series or len(series) < MOST_SERIES else tuple(OTHER for _ in values)


_counters: list[Counter] = []
_timings: list[Timing] = []
_gauges: list[Gauge] = []


def counters() -> tuple[Counter, ...]:
    return tuple(_counters)


def timings() -> tuple[Timing, ...]:
    return tuple(_timings)


def gauges() -> tuple[Gauge, ...]:
    return tuple(_gauges)
