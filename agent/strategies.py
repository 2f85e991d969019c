"""Strategies: one more turn?

Rule 1: a strategy is a plain predicate of a LoopState, True for one more turn. It is asked behind the tools,
so the first turn always happens and the tools of the last allowed turn run.
Rule 2: a strategy that stops a run says its name. The run ends with it as its stop reason, never silently.

    name                    goes on while
    max_iterations(n)       fewer than n turns were made
    until_finish_reason(r)  the last turn's finish reason is not in r; the stop reason is that finish reason
    max_tool_calls(n)       fewer than n calls were asked for
    max_tokens(n)           fewer than n tokens were used, in and out
    max_cost(x)             less than x was spent; the agent must know prices
    max_seconds(s)          less than s seconds went by since the run began
    no_repeated_calls(n)    no call was asked for, with the same arguments, in each of the last n turns
    combine_strategies(l)   all of l do; asks them in order and stops at the first no, whose name it gives
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pydantic_core import from_json

from agent.errors import InvalidRequest
from agent.messages import FinishReason, Message, ToolCallPart, Transcript, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """A run between two turns. `cost` is None when the agent knows no prices; `elapsed` is in seconds."""

    iteration_count: int = 0
    finish_reason: FinishReason | None = None
    messages: Transcript = field(default_factory=Transcript)
    tool_call_count: int = 0
    last_turn_tool_call_count: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    elapsed: float = 0.0


Strategy = Callable[[LoopState], bool]


@dataclass(frozen=True, slots=True)
class NamedStrategy:
    """A strategy that knows why it stops: `objection` gives the reason, or None to go on."""

    name: str
    objection: Callable[[LoopState], str | None]

    def __call__(self, state: LoopState) -> bool:
        return self.objection(state) is None


def why_stop(strategy: Strategy, state: LoopState) -> str | None:
    """The name of what stops the run, or None for one more turn."""
    if isinstance(strategy, NamedStrategy):
        return strategy.objection(state)
    return None if strategy(state) else _name_of(strategy)


def _name_of(strategy: Strategy) -> str:
    name = str(getattr(strategy, "name", None) or getattr(strategy, "__name__", ""))
    return name if name and name != "<lambda>" else "strategy"


def _while(name: str, goes_on: Strategy) -> Strategy:
    return NamedStrategy(name, lambda state: None if goes_on(state) else name)


def max_iterations(limit: int) -> Strategy:
    return _while("max_iterations", lambda state: state.iteration_count < limit)


def max_tool_calls(limit: int) -> Strategy:
    return _while("max_tool_calls", lambda state: state.tool_call_count < limit)


def max_tokens(limit: int) -> Strategy:
    return _while("max_tokens", lambda state: state.usage.total_tokens < limit)


def max_seconds(limit: float) -> Strategy:
    return _while("max_seconds", lambda state: state.elapsed < limit)


def max_cost(limit: float) -> Strategy:
    def goes_on(state: LoopState) -> bool:
        if state.cost is None:
            raise InvalidRequest("max_cost needs an agent that knows what its model costs.")
        return state.cost < limit

    return _while("max_cost", goes_on)


def until_finish_reason(reasons: Iterable[FinishReason]) -> Strategy:
    wanted = frozenset(reasons)

    def objection(state: LoopState) -> str | None:
        return state.finish_reason if state.iteration_count > 0 and state.finish_reason in wanted else None

    return NamedStrategy("until_finish_reason", objection)


def no_repeated_calls(turns: int = 3) -> Strategy:
    if turns < 1:
        raise ValueError("no_repeated_calls: give the number of turns in a row, 1 or more.")

    def goes_on(state: LoopState) -> bool:
        last = _last_turns(state.messages, min(turns, state.iteration_count))
        asked = [{(call.name, _canonical(call)) for call in message.tool_calls} for message in last]
        return len(asked) < turns or not set.intersection(*asked)

    return _while("no_repeated_calls", goes_on)


def combine_strategies(strategies: Sequence[Strategy]) -> Strategy:
    def objection(state: LoopState) -> str | None:
        reasons = (why_stop(strategy, state) for strategy in strategies)
        return next((reason for reason in reasons if reason is not None), None)

    return NamedStrategy("combine_strategies", objection)


def _last_turns(transcript: Transcript, count: int) -> list[Message]:
    found: list[Message] = []
    for message in reversed(transcript):
        if len(found) == count or message.role not in ("assistant", "tool"):
            break
        if message.role == "assistant":
            found.append(message)
    return found


def _canonical(call: ToolCallPart) -> str:
    """The arguments with sorted keys and no spaces; as they came when they are no JSON."""
    try:
        return json.dumps(from_json(call.arguments or "{}"), sort_keys=True, separators=(",", ":"))
    except (ValueError, TypeError):
        return call.arguments


DEFAULT_STRATEGY = combine_strategies([max_iterations(5), until_finish_reason(["length"])])
