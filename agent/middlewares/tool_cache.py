"""Remembers what tools gave, across runs.

    Agent(..., middleware=[ToolCallBudget(...), ToolCache(["get_weather"], ttl=300)])

The key is the tool's name, its checked arguments in canonical JSON, and whose they are (`scope`: the run's user, or
its thread where there is none). Only what went well is kept, for `ttl` seconds from then on: reading it does not make
it younger. A call that is being made is waited for by others of its key (single flight); when it fails, the next of
them makes it.

Only the tools that are named are remembered: nobody wants a cached email. It stands behind a budget, so that a call
the budget skips asks nothing here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic_core import PydanticSerializationError, to_jsonable_python

from agent.messages import ContentPart, ToolResultPart
from agent.middleware import Middleware, MiddlewareContext, Skip, ToolCall

Key = Hashable
Content = str | tuple[ContentPart, ...]
Scope = Callable[[MiddlewareContext], Hashable]


def own_scope(ctx: MiddlewareContext) -> Hashable:
    """The user, or the thread of nobody."""
    user = ctx.user
    return ("thread", ctx.thread_id) if user is None else ("user", getattr(user, "pk", user))


@dataclass
class _Shelf:
    """What the runs of one agent share."""

    kept: OrderedDict[Key, tuple[float, Content]] = field(default_factory=OrderedDict)
    flights: dict[Key, asyncio.Future[Content | None]] = field(default_factory=dict)


class ToolCache(Middleware):
    name: ClassVar[str] = "tool_cache"

    def __init__(
        self,
        tools: Collection[str],
        *,
        ttl: float = 300.0,
        max_entries: int = 1000,
        scope: Scope = own_scope,
        clock: Callable[[], float] = time.monotonic,
        _shelf: _Shelf | None = None,
    ) -> None:
        self.tools = frozenset([tools] if isinstance(tools, str) else tools)
        self.ttl = ttl
        self.max_entries = max_entries
        self.scope = scope
        self.clock = clock
        self._shelf = _shelf or _Shelf()
        self._mine: dict[str, Key] = {}  # flights of this run, by call id

    def fresh(self) -> ToolCache:
        return ToolCache(
            self.tools,
            ttl=self.ttl,
            max_entries=self.max_entries,
            scope=self.scope,
            clock=self.clock,
            _shelf=self._shelf,
        )

    async def on_before_tool_call(self, ctx: MiddlewareContext, call: ToolCall) -> Skip | None:
        key = self._key(ctx, call)
        if key is None:
            return None
        while True:
            known = self._look_up(key)
            if known is not None:
                return _as_skip(known)
            flight = self._shelf.flights.get(key)
            if flight is None or flight.get_loop() is not asyncio.get_running_loop():
                break
            known = await asyncio.shield(flight)
            if known is not None:
                return _as_skip(known)
        self._shelf.flights[key] = asyncio.get_running_loop().create_future()
        self._mine[call.id] = key
        return None

    def on_after_tool_call(self, ctx: MiddlewareContext, call: ToolCall, result: ToolResultPart) -> None:
        key = self._mine.pop(call.id, None)
        if key is None:
            return
        good = call.ran and result.error is None
        if good:
            self._shelf.kept[key] = (self.clock() + self.ttl, result.content)
            self._shelf.kept.move_to_end(key)
            while len(self._shelf.kept) > self.max_entries:
                self._shelf.kept.popitem(last=False)
        self._land(key, result.content if good else None)

    def on_finish(self, ctx: MiddlewareContext, end: object) -> None:
        self._land_all()

    def on_abort(self, ctx: MiddlewareContext, reason: str) -> None:
        self._land_all()

    def on_error(self, ctx: MiddlewareContext, end: object) -> None:
        self._land_all()

    def _key(self, ctx: MiddlewareContext, call: ToolCall) -> Key | None:
        if call.name not in self.tools or call.arguments is None:
            return None
        try:
            plain = to_jsonable_python(dict(call.arguments), bytes_mode="base64", inf_nan_mode="strings")
            return (call.name, json.dumps(plain, sort_keys=True, separators=(",", ":")), self.scope(ctx))
        except (PydanticSerializationError, ValueError, TypeError):
            return None  # arguments that have no JSON are not known again

    def _look_up(self, key: Key) -> Content | None:
        entry = self._shelf.kept.get(key)
        if entry is None:
            return None
        until, content = entry
        if self.clock() < until:
            return content
        del self._shelf.kept[key]
        return None

    def _land(self, key: Key, content: Content | None) -> None:
        flight = self._shelf.flights.pop(key, None)
        if flight is not None and not flight.done():
            flight.set_result(content)

    def _land_all(self) -> None:
        """A run that ends with a call still in the air leaves it to whoever waits for it."""
        while self._mine:
            self._land(self._mine.popitem()[1], None)


def _as_skip(content: Content) -> Skip:
    return Skip(content if isinstance(content, str) else list[Any](content))
