"""How many calls may run: `max_per_turn` skips, `max` stops.

    Agent(..., middleware=[ToolCallBudget(max_per_turn=4, max=20)])

    max_per_turn    a call beyond it, in one batch, does not run: an error result, `over_budget`; the loop goes on
    max             a call beyond it, in the whole run, does not run either, and behind the batch the run ends with
                    `tool_call_budget` as its stop reason

Calls that are skipped count. A batch is what runs together: the calls of a turn, or those that a resumed run takes
up; each begins at nothing.
"""

from __future__ import annotations

from typing import ClassVar

from agent.middleware import Middleware, MiddlewareContext, Skip, ToolCall
from agent.strategies import LoopState

TURN_IS_FULL = (
    "This call was not run: at most {limit} calls may run in one turn. "
    "Send it again in your next turn if it is needed."
)
RUN_IS_FULL = "This call was not run: at most {limit} calls may run in one answer."


class ToolCallBudget(Middleware):
    name: ClassVar[str] = "tool_call_budget"

    def __init__(self, *, max_per_turn: int | None = None, max: int | None = None) -> None:
        self.max_per_turn = max_per_turn
        self.max = max
        self._in_turn = 0
        self._in_run = 0

    def fresh(self) -> ToolCallBudget:
        return ToolCallBudget(max_per_turn=self.max_per_turn, max=self.max)

    def on_before_tool_call(self, ctx: MiddlewareContext, call: ToolCall) -> Skip | None:
        self._in_turn += 1
        self._in_run += 1
        if self.max is not None and self._in_run > self.max:
            return Skip(RUN_IS_FULL.format(limit=self.max), error="over_budget")
        if self.max_per_turn is not None and self._in_turn > self.max_per_turn:
            return Skip(TURN_IS_FULL.format(limit=self.max_per_turn), error="over_budget")
        return None

    def on_tool_phase_complete(self, ctx: MiddlewareContext, results: object) -> None:
        self._in_turn = 0

    def on_should_continue(self, ctx: MiddlewareContext, state: LoopState) -> bool:
        return self.max is None or self._in_run < self.max
