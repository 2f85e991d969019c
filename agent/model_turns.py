"""One model turn, from its STEP_STARTED to what its STEP_FINISHED says."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from agent.context import RunContext
from agent.events import Event, StepFinished, StepStarted
from agent.messages import Transcript, Usage, user_message
from agent.middleware import TurnConfig, TurnUsage
from agent.providers.base import Provider, ToolChoice, TurnRequest
from agent.tally import Tally
from agent.text import storable
from agent.tools import ToolRegistry
from agent.turns import Turn


class ModelTurn:
    """`ended` and `used` are there when `tell` is through, also when it raised."""

    def __init__(
        self,
        provider: Provider,
        config: TurnConfig,
        tools: ToolRegistry,
        ctx: RunContext,
        tally: Tally,
        own_id: Callable[[str], str],
        tool_choice: ToolChoice = "auto",
        instruction: str = "",
    ) -> None:
        self.turn = Turn(ctx.new_id(), own_id, may_call=tool_choice != "none", clock=ctx.clock)
        self.ended: StepFinished
        self.used: TurnUsage
        self._provider, self._config, self._tools, self._ctx = provider, config, tools, ctx
        self._tally = tally
        self._tool_choice = tool_choice
        self._instruction = instruction

    async def tell(self, transcript: Transcript) -> AsyncGenerator[Event, None]:
        """All but the STEP_FINISHED: how that reads may depend on what comes next."""
        tally, turn, config = self._tally, self.turn, self._config
        number, started = tally.begin_turn(config.model), self._ctx.clock()
        yield StepStarted(step_name=f"turn-{number}")
        if self._instruction:
            # Behind the transcript and not in it: some providers take a last word of the model for its beginning.
            transcript = transcript.append(user_message(f"{turn.message_id}-asked", self._instruction))
        request = TurnRequest(
            model=config.model,
            transcript=transcript,
            message_id=turn.message_id,
            tools=self._tools.specs,
            tool_choice=self._tool_choice,
            system=config.system,
            parameters=config.parameters,
        )
        try:
            async with aclosing(self._listen(request)) as told:
                async for event in told:
                    yield event
            turn.check()
        except Exception:  # however the turn broke off: what it opened is closed, and what it used is counted
            for event in turn.closings():
                yield event
            self._end(started)
            raise
        for event in turn.closings():
            yield event
        self._end(started)

    async def _listen(self, request: TurnRequest) -> AsyncGenerator[Event, None]:
        stream = self._provider.stream(request)
        pull = stream.__anext__
        waiting = self._ctx.abort.interrupts()
        hear = self.turn.hear
        try:
            while True:
                with waiting:
                    event = await pull()
                told = hear(event)
                if told is not None:
                    yield told
        except StopAsyncIteration:
            return
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _end(self, started: float) -> None:
        end, tally, turn = self.turn.end, self._tally, self.turn
        tally.end_turn(end, turn.finish_reason, turn.calls)
        usage = Usage() if end is None else end.usage
        duration_ms = round((self._ctx.clock() - started) * 1000)
        facts: dict[str, Any] = {
            "messageId": turn.message_id,
            "finishReason": turn.finish_reason,
            "model": tally.model,
            "durationMs": duration_ms,
        }
        answered_by = self._provider.name if end is None else end.provider or self._provider.name
        if end is not None:
            facts["provider"] = answered_by
            facts["usage"] = encode_usage(usage)
            if end.provider_reason is not None:
                facts["providerReason"] = storable(end.provider_reason)
            if end.paused:
                facts["paused"] = True
        self.ended = StepFinished(step_name=f"turn-{tally.turns}", metadata=facts)
        self.used = TurnUsage(tally.model, answered_by, usage, turn.finish_reason, duration_ms)
        self.used = replace(self.used, cost=tally.charge(usage))


def encode_usage(usage: Usage) -> dict[str, int]:
    """As AG-UI writes it; what is nothing and not a total is left out."""
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
    }
    details = {
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "cacheWriteInputTokens": usage.cache_write_input_tokens,
    }
    return counts | {name: count for name, count in details.items() if count}
