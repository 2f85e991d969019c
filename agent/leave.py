"""Leave to take another turn: the strategy, the budgets and the middlewares are asked, once for each turn.

Rule: who asks has the transcript as it will be. A turn that was cut in its calls is told as `tool_calls` when another
one follows, so that is asked before the turn is told, and the answer is kept for when the turn begins.
"""

from __future__ import annotations

from dataclasses import replace

from agent.agents import Agent
from agent.context import RunContext
from agent.events import StepFinished
from agent.messages import Transcript
from agent.reducer import apply
from agent.result_events import result_event
from agent.stack import MiddlewareStack
from agent.steps import Answer, CallModel, Finish, limited, next_step
from agent.strategies import why_stop
from agent.tally import Tally
from agent.tools import ToolRegistry


class Leave:
    def __init__(
        self, agent: Agent, ctx: RunContext, tally: Tally, stack: MiddlewareStack, *, owes_output: bool
    ) -> None:
        self._agent = agent
        self._ctx = ctx
        self._tally = tally
        self._stack = stack
        self._owes_output = owes_output
        self._given: CallModel | Finish | None = None

    async def take(self, transcript: Transcript) -> CallModel | Finish:
        """What was given ahead, else what is given now."""
        given, self._given = self._given, None
        return given or await self._ask(transcript)

    async def look_ahead(
        self, ended: StepFinished, transcript: Transcript, tools: ToolRegistry
    ) -> StepFinished:
        """How the turn is told. One that was cut in its calls reads `tool_calls` when another turn follows."""
        facts = ended.metadata or {}
        if facts["finishReason"] != "length":
            return ended
        ahead = apply(transcript, ended)
        step = next_step(ahead, tools)
        if not isinstance(step, Answer):
            return ended
        for result in step.results:
            ahead = apply(ahead, result_event(result, self._ctx))
        self._given = await self._ask(ahead)
        if isinstance(self._given, Finish):
            return ended
        return replace(
            ended, metadata={**facts, "finishReason": "tool_calls", "storedFinishReason": "length"}
        )

    async def _ask(self, transcript: Transcript) -> CallModel | Finish:
        state = self._tally.state(transcript)
        reason = why_stop(self._agent.strategy, state) or await self._stack.on_should_continue(state)
        # A run that owes an output is going to have its last words anyway.
        spoken = self._agent.final_answer and reason not in self._agent.silent_limits
        return limited(transcript, reason, spoken and not self._owes_output)
