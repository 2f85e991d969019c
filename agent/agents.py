"""Who answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.middleware import MiddlewareSource, check_source
from agent.providers.base import Provider
from agent.strategies import DEFAULT_STRATEGY, Strategy
from agent.tally import Cost
from agent.tools import Tool, ToolRegistry


@dataclass(frozen=True, slots=True)
class Agent:
    """A model behind a provider, its tools, and how far it may go.

    `final_answer`: when a limit stops the run behind tool results, one last turn without tools says so in
    words, but for the limits in `silent_limits`: what is used up pays for no last turn. `cost` gives what some
    usage of a model costs, in the unit that `max_cost` is given in (`prices.price_table` makes one).
    `middleware` are classes or functions, since each run makes its own; the first hears everything first.
    Raises InvalidRequest for tools that cannot be used together.
    """

    provider: Provider
    model: str
    tools: Iterable[Tool] = ()
    system: str = ""
    strategy: Strategy = DEFAULT_STRATEGY
    final_answer: bool = False
    silent_limits: frozenset[str] = frozenset()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost | None = None
    middleware: Sequence[MiddlewareSource] = ()
    registry: ToolRegistry = field(init=False)

    def __post_init__(self) -> None:
        registry = self.tools if isinstance(self.tools, ToolRegistry) else ToolRegistry(self.tools)
        object.__setattr__(self, "registry", registry)
        object.__setattr__(self, "middleware", tuple(self.middleware))
        for source in self.middleware:
            check_source(source)
