"""When a request may not run its model again: the rails of the gateway's loop. Pure, but for the clock it is given.

    stop               is said when
    max_agentic_loops  the model was run again that often already
    repeated_calls     these very calls (names and arguments) were answered before in this request
    deadline           the request takes longer than it may
    tokens, cost       its rounds used up what it may use

A hook cannot get round them: they are asked before it is, about the calls that it claims.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from agent.messages import Usage
from agent.rerun import Call
from agent.wire.jsontext import dump

DEFAULT_RERUNS = 3


def fingerprint(calls: Iterable[Call]) -> str:
    """The same for calls that ask for the same: their ids, their order, the order of keys and the white space of
    their arguments do not count."""
    return dump(sorted(dump([call.name, _sorted(call.arguments)]) for call in calls))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def max_loops(value: object, where: str) -> int:
    """How many reruns somebody allows: a whole number from 1, also as text. Raises ValueError that names `where`."""
    number = value
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,9}", value.strip()):
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"{where} must be a whole number, 1 or more; it is {str(value)[:40]!r}.")
    if number < 1:
        raise ValueError(f"{where} must be at least 1; it is {number}. To have no reruns, load no hooks.")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one request over all its rounds. `seconds` by the clock, `cost` in the money of the prices; None: none."""

    max_reruns: int = DEFAULT_RERUNS
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None


class Guard:
    """Counts one request's rounds. `book` what each used, ask `stop`, then say `begin_rerun`."""

    def __init__(self, limits: Limits | None = None, *, clock: Callable[[], float] = monotonic) -> None:
        self.limits = limits or Limits()
        self.max_reruns = self.limits.max_reruns
        self.depth = 0
        self.usage = Usage()
        self.cost = 0.0
        self._clock = clock
        self._started = clock()
        self._seen: list[str] = []

    @property
    def fingerprints(self) -> list[str]:
        return list(self._seen)

    def book(self, usage: Usage, cost: float | None = None) -> None:
        self.usage += usage
        self.cost += cost or 0.0

    def stop(self, calls: Iterable[Call]) -> str | None:
        """The rail that forbids one more round for these calls; None: go on."""
        calls = tuple(calls)
        limits = self.limits
        if self.depth >= self.max_reruns:
            return "max_agentic_loops"
        if calls and fingerprint(calls) in self._seen:
            return "repeated_calls"
        if limits.seconds is not None and self._clock() - self._started >= limits.seconds:
            return "deadline"
        if limits.tokens is not None and self.usage.total_tokens >= limits.tokens:
            return "tokens"
        if limits.cost is not None and self.cost >= limits.cost:
            return "cost"
        return None

    def begin_rerun(self, calls: Iterable[Call]) -> None:
        calls = tuple(calls)
        self.depth += 1
        if calls:
            self._seen.append(fingerprint(calls))


STOPPED = {
    "max_agentic_loops": "the limit of tool rounds for this request is reached",
    "repeated_calls": "the same call was answered already in this request",
    "deadline": "this request has no more time for tools",
    "tokens": "this request has used up its tokens",
    "cost": "this request has used up its money",
    "hook_failed": "the tool is out of order",
}
"""What the model is told about a call that is not run any more, by the name of what stops it."""
