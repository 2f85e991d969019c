"""Hooks around a run. Override the ones you need; the defaults change nothing, and what is not overridden is not
called.

    class Shout(Middleware):
        def on_event(self, ctx, event):
            if isinstance(event, TextMessageContent):
                return replace(event, delta=event.delta.upper())
            return event

    Agent(provider, "some-model", tools, middleware=[Shout])

Any hook may be sync or async. An agent is given what makes a middleware (a class, a function), or one that says
with `fresh()` how to make another: each run has its own, so whatever it keeps in itself or in `ctx.state` is the
run's.

    hook                     when                                              composed
    setup                    before the run tells anything                     in order
    on_start                 RUN_STARTED has been told                         in order
    on_config                before each turn, and before calls that an        piped: each sees what the one before made
                             earlier run left open
    on_iteration             a turn begins                                     in order
    on_event                 whatever the run tells; the state is folded       piped: an event, another, several, None
                             behind it
    on_usage                 a turn has ended                                  in order
    on_before_tool_call      a call is about to run                            the first decision wins
    on_after_tool_call       a call has its result, whether it ran or not      all, each sees the earlier replacement
    on_tool_phase_complete   the results of a batch of calls have been told    in order
    on_should_continue       the strategy allows one more turn                 all must agree
    on_pause                 the run ends to wait for somebody                 in order
    on_finish, on_abort,     behind the terminal event; exactly one of them    all, whatever becomes of the others
    on_error

A middleware that raises ends its run with RUN_ERROR `middleware_error`; the log has its name and the trace. What it
was given then is not told, for it may have been there to hide it. Nothing that a terminal hook does changes the
outcome. What a middleware cannot do to a run's events is in `guard.py`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from agent.errors import InvalidRequest
from agent.events import Event, RunError, RunFinished
from agent.messages import FinishReason, ToolCallPart, ToolResultPart, Transcript, Usage
from agent.steps import Wait
from agent.strategies import LoopState
from agent.tools import Tool

Maybe = Awaitable[Any] | Any
"""What a hook gives back: a value, or something to await for it."""


# -- what hooks are given ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnConfig:
    """What a turn is asked with. `tools` are also the only ones that its calls can reach."""

    model: str
    system: str = ""
    tools: tuple[Tool, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TurnUsage:
    """How a turn ended and what it used. `cost` is None when the agent knows no prices."""

    model: str
    provider: str
    usage: Usage
    finish_reason: FinishReason | None
    duration_ms: int
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call on its way. `arguments` are checked, as the tool gets them; None when they cannot be (no such tool,
    no JSON, a cut turn). `ran` is true when its tool was started."""

    part: ToolCallPart
    tool: Tool | None = None
    arguments: Mapping[str, Any] | None = None
    ran: bool = False

    @property
    def id(self) -> str:
        return self.part.id

    @property
    def name(self) -> str:
        return self.part.name


# -- decisions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Transform:
    """Run the call with these arguments instead. They are held against the tool's schema like any others."""

    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not run the call: this is its result, in whatever form a tool may give one. With `error`, its code, the
    result is the words of it."""

    result: Any
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """Do not run the call, and end the run."""

    reason: str = ""


Decision = Transform | Skip | Abort


# -- the run, as a middleware sees it ------------------------------------------------------------------------


class Surroundings(Protocol):
    """What the stack gives every context of its run."""

    thread_id: str
    run_id: str
    parent_run_id: str | None
    user: Any
    provider: str
    model: str
    iteration: int
    transcript: Transcript

    def abort(self, reason: str) -> None: ...
    def emit(self, name: str, value: Any) -> None: ...
    def defer(self, work: Awaitable[Any]) -> None: ...


class MiddlewareContext:
    """One run, for one middleware. `state` is that middleware's own, and empty when the run begins."""

    def __init__(self, run: Surroundings) -> None:
        self.state: dict[str, Any] = {}
        self._run = run

    @property
    def thread_id(self) -> str:
        return self._run.thread_id

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def parent_run_id(self) -> str | None:
        return self._run.parent_run_id

    @property
    def user(self) -> Any:
        return self._run.user

    @property
    def provider(self) -> str:
        return self._run.provider

    @property
    def model(self) -> str:
        """The model of the turn that is being taken, or was taken last."""
        return self._run.model

    @property
    def iteration(self) -> int:
        """The number of the turn, from 1; 0 before the first."""
        return self._run.iteration

    @property
    def transcript(self) -> Transcript:
        """What has been told so far."""
        return self._run.transcript

    def abort(self, reason: str = "") -> None:
        """End the run as soon as it waits for anything: outcome cancelled, stop reason `aborted`."""
        self._run.abort(reason)

    def emit(self, name: str, value: Any) -> None:
        """Tell readers something: Custom(name, value), with the next event. Behind the terminal event nobody hears."""
        self._run.emit(name, value)

    def defer(self, work: Awaitable[Any]) -> None:
        """Await this behind the terminal hooks, when nobody waits for the run any more."""
        self._run.defer(work)


class Middleware:
    """Base. `name` is what the log and, if it stops a run, the run's stop reason call it."""

    name: ClassVar[str] = ""

    def setup(self, ctx: MiddlewareContext) -> Maybe:
        return None

    def on_start(self, ctx: MiddlewareContext) -> Maybe:
        return None

    def on_config(self, ctx: MiddlewareContext, config: TurnConfig) -> Maybe:
        """A TurnConfig; None leaves it as it is."""
        return config

    def on_iteration(self, ctx: MiddlewareContext) -> Maybe:
        return None

    def on_event(self, ctx: MiddlewareContext, event: Event) -> Maybe:
        """The event, another, a sequence of them, or None for nothing."""
        return event

    def on_usage(self, ctx: MiddlewareContext, turn: TurnUsage) -> Maybe:
        return None

    def on_before_tool_call(self, ctx: MiddlewareContext, call: ToolCall) -> Maybe:
        """None to let it run, or Transform, Skip, Abort."""
        return None

    def on_after_tool_call(self, ctx: MiddlewareContext, call: ToolCall, result: ToolResultPart) -> Maybe:
        """A ToolResultPart for the model to read in its place; None leaves it. An error stays an error.

        Readers still get what the tool gave (`metadata["full"]`). What nobody may see is taken out in `on_event`.
        """
        return None

    def on_tool_phase_complete(self, ctx: MiddlewareContext, results: Sequence[ToolResultPart]) -> Maybe:
        return None

    def on_should_continue(self, ctx: MiddlewareContext, state: LoopState) -> Maybe:
        """False for no further turn: the run ends with this middleware's name as its stop reason."""
        return True

    def on_pause(self, ctx: MiddlewareContext, wait: Wait) -> Maybe:
        return None

    def on_finish(self, ctx: MiddlewareContext, end: RunFinished) -> Maybe:
        return None

    def on_abort(self, ctx: MiddlewareContext, reason: str) -> Maybe:
        """Stopped by a person or a middleware, or nobody reads the run any more."""
        return None

    def on_error(self, ctx: MiddlewareContext, end: RunError) -> Maybe:
        return None


MiddlewareSource = Callable[[], Middleware] | Middleware
"""A class or function that makes one, or one with a `fresh()` that does."""


def check_source(source: MiddlewareSource) -> None:
    """Raises InvalidRequest for an instance that would be shared by several runs."""
    if isinstance(source, Middleware) and not callable(getattr(source, "fresh", None)):
        raise InvalidRequest(
            f"{name_of(source)}: give the agent the class, or a function that makes one, "
            "for each run needs its own."
        )
    if not isinstance(source, Middleware) and not callable(source):
        raise InvalidRequest(f"{source!r} makes no middleware.")


def make(source: MiddlewareSource) -> Middleware:
    made = source.fresh() if isinstance(source, Middleware) else source()  # type: ignore[attr-defined]  # `check_source` saw it
    if not isinstance(made, Middleware):
        raise InvalidRequest(f"{source!r} makes no middleware.")
    return made


def name_of(middleware: Middleware) -> str:
    """`ToolCallBudget` is called tool_call_budget, unless it says otherwise."""
    return middleware.name or re.sub(r"(?<=.)(?=[A-Z])", "_", type(middleware).__name__).lower()
