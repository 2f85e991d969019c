"""The models of an endpoint: those that were written down, or those it tells when it is asked, now and then."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from agent.errors import AgentError

log = logging.getLogger(__name__)

ASK_EVERY = 60.0
ASK_AGAIN = 5.0
"""Seconds until an endpoint that could not say is asked again."""
ASK_FOR = 3.0
"""Seconds: somebody waits for this, so an endpoint that hangs is left out of it."""


class Lists(Protocol):
    @property
    def name(self) -> str: ...
    async def models(self) -> list[str]: ...


class ModelList:
    """`problem` is a sentence when the last question was not answered; what was found before that stays."""

    def __init__(
        self, provider: Lists, listed: Iterable[str] = (), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.found = tuple(listed)
        self.problem = ""
        self._provider = provider
        self._clock = clock
        self._is_asked = not self.found
        self._due = float("-inf")
        self._asking = asyncio.Lock()

    @property
    def is_due(self) -> bool:
        """Whether the endpoint is asked by who wants to know now, and waits for it."""
        return self._is_asked and self._clock() >= self._due

    async def models(self) -> tuple[str, ...]:
        if self._is_asked:
            async with self._asking:
                if self._clock() >= self._due:
                    await self._ask()
        return self.found

    async def _ask(self) -> None:
        try:
            async with asyncio.timeout(ASK_FOR):
                self.found, self.problem = tuple(await self._provider.models()), ""
        except (AgentError, TimeoutError) as error:
            why = str(error) or f"no answer within {ASK_FOR:g} seconds"
            self.problem = f"{self._provider.name} could not be asked for its models: {why}"
            log.warning("%s", self.problem)
        self._due = self._clock() + (ASK_AGAIN if self.problem else ASK_EVERY)
