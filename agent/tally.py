"""What a run has used so far: turns, calls, tokens, money, time. The strategies' view of it is a
LoopState."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.context import NOTHING_BEFORE, Before
from agent.events import ModelUsage, TurnEnd
from agent.messages import FinishReason, Transcript, Usage
from agent.strategies import LoopState
from agent.text import storable

Cost = Callable[[str, Usage], float]


class Tally:
    """`before` counts in `state` alone: what this run reports is its own."""

    def __init__(
        self,
        *,
        model: str,
        provider: str,
        clock: Callable[[], float],
        cost: Cost | None,
        before: Before = NOTHING_BEFORE,
    ) -> None:
        self.turns = 0
        self.model = model
        self.finish_reason: FinishReason | None = before.finish_reason
        self._before = before
        self._provider = provider
        self._clock = clock
        self._started = clock()
        self._cost = cost
        self._spent = 0.0
        self._calls = 0
        self._calls_of_turn = 0
        self._usage: dict[tuple[str, str | None], Usage] = {}

    @property
    def any_turn(self) -> bool:
        """A turn has been made, by this run or by the one that it goes on with."""
        return bool(self.turns or self._before.turns)

    def begin_turn(self, model: str) -> int:
        self.turns += 1
        self.model = model
        return self.turns

    def end_turn(self, end: TurnEnd | None, finish_reason: FinishReason | None, calls: int) -> None:
        self.finish_reason = finish_reason
        self._calls += calls
        self._calls_of_turn = calls
        if end is None:
            return
        self.model = storable(end.model or "") or self.model  # endpoints call themselves what they like
        self._add(self.model, end.provider or self._provider, end.usage)

    def charge(self, usage: Usage) -> float | None:
        """What that usage of the last turn's model cost; None when the agent knows no prices."""
        if self._cost is None:
            return None
        cost = self._cost(self.model, usage)
        self._spent += cost
        return cost

    @property
    def usage(self) -> tuple[ModelUsage, ...]:
        """One entry for each model that said what it used."""
        return tuple(
            ModelUsage(model, usage, provider)
            for (model, provider), usage in self._usage.items()
            if usage != Usage()
        )

    @property
    def spent(self) -> float | None:
        return None if self._cost is None else self._spent

    def include(self, usage: Sequence[ModelUsage], spent: float | None) -> None:
        """What a run inside this one used; `spent` None: it knows no prices, so this one's count."""
        for each in usage:
            self._add(each.model, each.provider, each.usage)
        if self._cost is not None:
            self._spent += sum(self._cost(e.model, e.usage) for e in usage) if spent is None else spent

    def _add(self, model: str, provider: str | None, usage: Usage) -> None:
        self._usage[model, provider] = self._usage.get((model, provider), Usage()) + usage

    def state(self, transcript: Transcript) -> LoopState:
        before = self._before
        return LoopState(
            iteration_count=before.turns + self.turns,
            finish_reason=self.finish_reason,
            messages=transcript,
            tool_call_count=before.tool_calls + self._calls,
            last_turn_tool_call_count=self._calls_of_turn,
            usage=sum((*self._usage.values(), *(each.usage for each in before.usage)), Usage()),
            cost=self._cost_with(before),
            elapsed=before.seconds + self._clock() - self._started,
        )

    def _cost_with(self, before: Before) -> float | None:
        if self._cost is None:
            return None
        return self._spent + sum(self._cost(each.model, each.usage) for each in before.usage)
