"""A model that several endpoints serve, perhaps each under a name of its own.

Rule: the next is asked while nothing has been said: whoever waits has then seen nothing, and hears one answer. The end
of the turn says whose it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from agent.errors import ProviderError
from agent.events import TurnEnd, TurnEvent
from agent.providers.base import Provider, TurnRequest, is_native

Step = tuple[Provider, str]
"""A provider, and the model's name there."""


class Routed:
    def __init__(self, steps: Sequence[Step]) -> None:
        """In the order in which they are asked; at least one."""
        self._steps = tuple(steps)
        self.native_output = all(is_native(provider) for provider, _ in self._steps)

    @property
    def name(self) -> str:
        return self._steps[0][0].name

    async def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        for place, (provider, model) in enumerate(self._steps, 1):
            said = False
            try:
                told = provider.stream(replace(request, model=model))
                async with aclosing(told) as events:  # type: ignore[type-var]  # each of them is a generator
                    async for event in events:
                        said = True
                        yield replace(event, provider=provider.name) if isinstance(event, TurnEnd) else event
                return
            except ProviderError:
                if said or place == len(self._steps):
                    raise
