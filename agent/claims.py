"""Whose calls these are: ours, when a hook claims them, or the caller's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agent.rerun import Call, Hook, Turn

Ask = Callable[[Hook, Turn], Awaitable[Sequence[Call] | None]]


class Claims:
    """Who claims what in one turn. A hook is asked at most once; one behind the first that answers is asked only when
    there are calls left whose owner is not known."""

    def __init__(self, hooks: Sequence[Hook], turn: Turn, ask: Ask) -> None:
        self._hooks = hooks
        self._turn = turn
        self._ask = ask
        self._known: dict[int, Sequence[Call] | None] = {}

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(call.id for claimed in self._known.values() for call in claimed or ())

    async def of(self, hook: Hook) -> Sequence[Call] | None:
        if id(hook) not in self._known:
            self._known[id(hook)] = await self._ask(hook, self._turn)
        return self._known[id(hook)]

    async def callers_own(self) -> bool:
        """Are there calls that no hook claims?"""
        everything = frozenset(call.id for call in self._turn.calls)
        for hook in self._hooks:
            if everything <= self.ids:
                return False
            await self.of(hook)
        return not everything <= self.ids
