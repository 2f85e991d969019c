"""What a run is given besides its agent and its transcript: ids, a clock, who asks, and a way to be
stopped (`abort.py`)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import uuid4

from agent.abort import AbortSignal
from agent.events import ModelUsage
from agent.messages import FinishReason, ToolCallPart
from agent.tools import Tool

OnClaim = Callable[[ToolCallPart, Mapping[str, Any]], Awaitable[None]]
Verdict = Literal["allow", "ask", "deny"]
Policy = Callable[[ToolCallPart, Mapping[str, Any], Tool], Verdict | Awaitable[Verdict | None] | None]


def new_id() -> str:
    return uuid4().hex


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What an earlier run used and began of which this one is the rest: it counts for the strategy, in nothing else.

    `turns` are those that came to their end, `finish_reason` is the last one's. `begun_calls` are ids of open calls
    whose tools that run had started: they may have happened, whatever becomes of this run.
    """

    turns: int = 0
    tool_calls: int = 0
    finish_reason: FinishReason | None = None
    usage: tuple[ModelUsage, ...] = ()
    seconds: float = 0.0
    begun_calls: frozenset[str] = frozenset()


NOTHING_BEFORE = Before()


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The surroundings of one run.

    `user` is whatever the application calls a user; the agent only hands it to the tools. `on_claim` is
    awaited with a call and its parsed arguments before its tool starts, once a call: the place to keep that
    it may happen. If it raises, the tool does not start.

    `policy` says of a call, with the arguments as its tool gets them, whether it may run (`approvals.py`); None
    leaves that to the tool. It is called in the event loop, so one that waits for something is async. A person
    has `approval_ttl` to answer a question; None is for ever. `before` is for a run that goes on with another one.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    user: Any = None
    abort: AbortSignal = field(default_factory=AbortSignal)
    new_id: Callable[[], str] = new_id
    clock: Callable[[], float] = time.monotonic
    on_claim: OnClaim | None = None
    policy: Policy | None = None
    now: Callable[[], datetime] = utc_now
    approval_ttl: timedelta | None = timedelta(days=7)
    before: Before = NOTHING_BEFORE
