"""Sums of what was used, in memory.

How long things took is counted in buckets, each a fifth longer than the one before: a hundred runs or a million, a sum
of them holds some dozens of numbers, and what half of them took is known to about a tenth.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from agent.text import storable

STEP = math.log(1.2)
LONGEST_VALUE = 200


class Use(NamedTuple):
    """One run, exchange or naming of a thread; one call of a tool; or what one endpoint had of a run or an exchange."""

    day: date
    source: str
    error: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    ms: int | None = None


@dataclass(slots=True)
class Sum:
    count: int = 0
    errors: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    ms: int = 0
    spread: Counter[int] = field(default_factory=Counter)

    def add(self, use: Use) -> None:
        self.count += 1
        self.errors += use.error
        self.input_tokens += max(0, use.input_tokens)
        self.output_tokens += max(0, use.output_tokens)
        self.cost += use.cost
        if use.ms is not None:
            self.ms += max(0, use.ms)
            self.spread[bucket_of(use.ms)] += 1

    def merge(self, other: Sum) -> None:
        self.count += other.count
        self.errors += other.errors
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cost += other.cost
        self.ms += other.ms
        self.spread.update(other.spread)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


Key = tuple[date, str, str, str]
"""Day, source, about, value."""
About = tuple[tuple[str, object], ...]
ALL = ("all", "")


class Tally:
    """Sums by what they are about. What is alike in all of it is one sum until they are asked for: a request adds to
    one number of each kind, and not to four."""

    def __init__(self) -> None:
        self._alike: defaultdict[tuple[date, str, About], Sum] = defaultdict(Sum)

    def __bool__(self) -> bool:
        return bool(self._alike)

    def add(self, use: Use, **about: object) -> None:
        """Count it once for all, and once for each of its `model`, `endpoint`, `user` and `end` that is known."""
        self._alike[use.day, use.source, (ALL, *about.items())].add(use)

    def add_tool(self, use: Use, name: str) -> None:
        self._alike[use.day, use.source, (("tool", name),)].add(use)

    def add_endpoint(self, use: Use, name: str) -> None:
        self._alike[use.day, use.source, (("endpoint", name),)].add(use)

    def merge(self, other: Tally) -> None:
        for key, amount in other._alike.items():
            self._alike[key].merge(amount)

    @property
    def sums(self) -> dict[Key, Sum]:
        found: defaultdict[Key, Sum] = defaultdict(Sum)
        for (day, source, about), amount in self._alike.items():
            for name, value in about:
                if (name, value) == ALL or value not in (None, ""):
                    found[day, source, name, _fitting(str(value))].merge(amount)
        return found


def _fitting(value: str) -> str:
    return storable(value[:LONGEST_VALUE])


def bucket_of(ms: int) -> int:
    return max(0, round(math.log(max(ms, 1)) / STEP))


def percentile(spread: Mapping[int, int], share: float) -> int | None:
    """How many ms that share of all took at most, about; None where nobody measured."""
    wanted = share * sum(spread.values())
    seen = 0
    for bucket in sorted(spread):
        seen += spread[bucket]
        if seen >= wanted:
            return round(math.exp(bucket * STEP))
    return None


def spread_of(kept: Iterable[tuple[str, int]]) -> Counter[int]:
    """As a row holds it, whose keys are text."""
    return Counter({int(bucket): count for bucket, count in kept})
