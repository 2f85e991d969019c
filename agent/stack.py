"""The middlewares of one run, composed: it has the hooks of one, so nobody asks whether there is any.

Which hooks are overridden is looked up once a run. A hook that fails is kept as the run's `failure`, and the run's
signal is given, so that whatever waits comes to its end; `loop.py` makes the RUN_ERROR of it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent.abort import Aborted
from agent.context import RunContext
from agent.errors import MiddlewareFailed
from agent.events import Custom, Event, RunError, RunFinished, Terminal, ToolCallResult
from agent.guard import GROWS, OWN_NAMES, Guard, is_free
from agent.messages import ToolResultPart, Transcript
from agent.middleware import (
    Abort,
    Middleware,
    MiddlewareContext,
    Skip,
    ToolCall,
    Transform,
    TurnConfig,
    TurnUsage,
    make,
    name_of,
)
from agent.results import error_result
from agent.steps import Wait
from agent.strategies import LoopState
from agent.text import storable
from agent.wire.jsontext import plain

log = logging.getLogger(__name__)

GRACE = 0.25
"""Seconds that an async hook gets when the run was stopped."""

AT_THE_END = 10.0
"""Seconds that a terminal hook, and whatever was deferred, gets."""

FAILED = "A middleware of this server failed. What was said so far is kept."
WITHHELD = "The result is not shown, because a middleware of this server failed."

Hook = Callable[..., Any]


class MiddlewareStack:
    """Also what its middlewares' contexts read: the run's `Surroundings`."""

    def __init__(
        self, sources: Iterable[Any], ctx: RunContext, *, provider: str, model: str, transcript: Transcript
    ) -> None:
        self.thread_id, self.run_id, self.parent_run_id = ctx.thread_id, ctx.run_id, ctx.parent_run_id
        self.user, self.provider, self.model = ctx.user, provider, model
        self.iteration = 0
        self.transcript = transcript
        self.failure: MiddlewareFailed | None = None
        self._broken = False
        self.abort_reason: str | None = None
        self._signal = ctx.abort
        self._sources = tuple(sources)
        self._hooks: dict[str, list[tuple[str, Hook, MiddlewareContext]]] = {}
        self._guard = Guard()
        self._said: list[Custom] = []
        self._deferred: list[Awaitable[Any]] = []

    # -- what contexts offer ---------------------------------------------------------------------------------

    def abort(self, reason: str) -> None:
        if self._signal.aborted:
            return
        self.abort_reason = storable(str(reason))
        self._signal.abort(self.abort_reason)

    def emit(self, name: str, value: Any) -> None:
        if name in OWN_NAMES:
            raise ValueError(f"{name!r} is an event of the loop's own.")
        self._said.append(Custom(name=storable(name), value=plain(value, storable)))

    def defer(self, work: Awaitable[Any]) -> None:
        self._deferred.append(work)

    # -- hooks in order --------------------------------------------------------------------------------------

    async def setup(self) -> None:
        for source in self._sources:
            try:
                made = make(source)
            except Exception as error:  # a middleware is foreign code
                raise self._failed(str(source), error) from error
            self._add(made)
        await self._all("setup")

    def check(self) -> None:
        """Raises what a middleware failed with, so that a run never ends well over it."""
        if self.failure is not None:
            raise self.failure

    async def on_start(self) -> None:
        await self._all("on_start")

    async def on_iteration(self, number: int) -> None:
        self.iteration = number
        await self._all("on_iteration")

    async def on_usage(self, turn: TurnUsage) -> None:
        await self._all("on_usage", turn)

    async def on_tool_phase_complete(self, results: Sequence[ToolResultPart]) -> None:
        await self._all("on_tool_phase_complete", tuple(results))

    async def on_pause(self, wait: Wait) -> None:
        await self._all("on_pause", wait)

    # -- hooks that are composed otherwise -------------------------------------------------------------------

    async def on_config(self, config: TurnConfig) -> TurnConfig:
        for name, hook, ctx in self._hooks.get("on_config", ()):
            given = await self._call(name, hook, ctx, config)
            if not isinstance(given, TurnConfig | None):
                raise self._failed(name, TypeError(f"{given!r} is no config."))
            config = given or config
        self.model = config.model
        return config

    async def on_should_continue(self, state: LoopState) -> str | None:
        """The name of the first that says no."""
        for name, hook, ctx in self._hooks.get("on_should_continue", ()):
            if await self._call(name, hook, ctx, state) is False:
                return name
        return None

    async def on_before_tool_call(self, call: ToolCall) -> Transform | Skip | None:
        """An Abort has been carried out when this raises Aborted."""
        for name, hook, ctx in self._hooks.get("on_before_tool_call", ()):
            decision = await self._call(name, hook, ctx, call)
            if isinstance(decision, Abort):
                self.abort(decision.reason)
                raise Aborted
            if isinstance(decision, Transform | Skip):
                return decision
            if decision is not None:
                raise self._failed(name, TypeError(f"{decision!r} is no decision."))
        return None

    async def on_after_tool_call(self, call: ToolCall, result: ToolResultPart) -> ToolResultPart:
        for name, hook, ctx in self._hooks.get("on_after_tool_call", ()):
            replaced = await self._call(name, hook, ctx, call, result)
            if not isinstance(replaced, ToolResultPart | None):
                raise self._failed(name, TypeError(f"{replaced!r} is no result."))
            if replaced is not None:
                # Only a tool says how long it ran, and an error stays an error.
                result = replace(
                    replaced,
                    tool_call_id=result.tool_call_id,
                    duration_ms=result.duration_ms,
                    error=replaced.error or result.error,
                )
        return result

    async def on_event(self, event: Event) -> list[Event]:
        """What to tell of it."""
        offered = await self._heard(event)
        told = self._guard.admit(event, offered)
        if self._said:
            place = len(told) - isinstance(event, Terminal)
            told[place:place] = self._said
            self._said.clear()
        return told

    async def _heard(self, event: Event) -> Sequence[Event]:
        if self._broken:
            return _withheld(event)
        offered: Sequence[Event] = (event,)
        for name, hook, ctx in self._hooks.get("on_event", ()):
            try:
                offered = [
                    told for each in offered for told in _each(await self._call(name, hook, ctx, each))
                ]
            except (MiddlewareFailed, Aborted):
                return _withheld(event)
        return offered

    # -- the end ---------------------------------------------------------------------------------------------

    async def finish(self, end: RunFinished | RunError | None, cancelled: bool) -> None:
        """Behind the terminal event; `end` None: nobody reads the run any more."""
        said: RunFinished | RunError | str
        if isinstance(end, RunError):
            hook, said = "on_error", end
        elif end is None or cancelled:
            hook, said = "on_abort", self.abort_reason or self._signal.reason
        else:
            hook, said = "on_finish", end
        for name, method, ctx in self._hooks.get(hook, ()):
            await self._alone(name, partial(method, ctx, said))
        while self._deferred:
            work = self._deferred.pop(0)
            await self._alone("deferred work", lambda work=work: work)  # type: ignore[misc]  # mypy infers no lambda with a default

    async def _alone(self, name: str, call: Callable[[], Any]) -> None:
        try:
            value = call()
            if inspect.isawaitable(value):
                async with asyncio.timeout(AT_THE_END):
                    await value
        except Exception:
            # The run has ended and nobody is left to be told; what the others do at its end they do all the same.
            log.exception("run %s: middleware %s failed at the end of it", self.run_id, name)

    # -- calling -----------------------------------------------------------------------------------------------

    def _add(self, middleware: Middleware) -> None:
        ctx, name = MiddlewareContext(self), name_of(middleware)
        for hook in HOOKS:
            if getattr(type(middleware), hook) is not getattr(Middleware, hook):
                self._hooks.setdefault(hook, []).append((name, getattr(middleware, hook), ctx))

    async def _all(self, hook: str, *given: Any) -> None:
        for name, method, ctx in self._hooks.get(hook, ()):
            await self._call(name, method, ctx, *given)

    async def _call(self, name: str, hook: Hook, ctx: MiddlewareContext, *given: Any) -> Any:
        """Raises MiddlewareFailed, or Aborted when the run is stopped meanwhile."""
        try:
            value = hook(ctx, *given)
            if not inspect.isawaitable(value):
                return value
            if not self._signal.aborted:
                with self._signal.interrupts():
                    return await value
            # What is told behind a stop passes through the hooks too.
            async with asyncio.timeout(GRACE):
                return await value
        except Aborted:
            raise
        except Exception as error:  # a middleware is foreign code
            raise self._failed(name, error) from error

    def _failed(self, name: str, error: Exception) -> MiddlewareFailed:
        log.error("run %s: middleware %s failed", self.run_id, name, exc_info=error)
        failure, self._broken = MiddlewareFailed(FAILED), True
        if not self._signal.aborted:
            # A run that was stopped before stays one that was stopped.
            self.failure = failure
            self._signal.abort("middleware_error")
        return failure


HOOKS = tuple(name for name in vars(Middleware) if name == "setup" or name.startswith("on_"))


def _each(value: Any) -> Sequence[Event]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _withheld(event: Event) -> tuple[Event, ...]:
    """What is left of an event when nobody can say what may be shown: the form, and what the loop itself says."""
    if isinstance(event, ToolCallResult) and event.error is None:
        return (replace(event, content=error_result(event.tool_call_id, "", WITHHELD).content),)
    return () if type(event) in GROWS or is_free(event) else (event,)
