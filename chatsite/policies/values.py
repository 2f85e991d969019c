"""What somebody may use, as values; and how what several groups say becomes one.

    models      of several groups, those of any
    a tool      the most generous rule that a group has for it: allow by name, allow by `*`, ask, deny
    a limit     the largest; a group without that limit lifts it
    retention   likewise: kept as long as the most patient group says
    budgets     of groups as a whole: each is booked, and each holds

A group that has no policy says nothing. Whoever is in no group with one has that of "everybody else".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal

Rule = Literal["allow", "ask", "deny"]
ALLOW, ASK, DENY = "allow", "ask", "deny"
RULES = (ALLOW, ASK, DENY)
ANY = "*"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much; None: no limit. Days and months are those of UTC."""

    requests_per_minute: int | None = None
    requests_per_day: int | None = None
    tokens_per_day: int | None = None
    tokens_per_month: int | None = None
    cost_per_month: Decimal | None = None
    runs_at_once: int | None = None
    tokens_per_minute: int | None = None
    cost: Decimal | None = None
    """In all. Only keys have these last two."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self != NO_LIMITS


NO_LIMITS = Limits()
LIMITS = tuple(each.name for each in fields(Limits))[:-2]
"""Those that an administrator sets for groups and people."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a group may use as a whole."""

    group_id: int
    group: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class Policy:
    """`models`: names, a trailing `*` stands for any rest; None: all there are. `tools`: by name, or `*`."""

    models: frozenset[str] | None = None
    tools: Mapping[str, Rule] = field(default_factory=lambda: MappingProxyType({}))
    limits: Limits = NO_LIMITS
    retention_days: int | None = None
    budgets: tuple[Budget, ...] = ()

    def may_use(self, model: str) -> bool:
        return self.models is None or any(fits(name, model) for name in self.models)

    def rule_of(self, tool: str) -> Rule | None:
        """What holds for the tool; None: what the tool says for itself."""
        return self.tools.get(tool) or self.tools.get(ANY)

    def is_allowed_by_name(self, tool: str) -> bool:
        """Then nobody is asked, whatever the tool says for itself. `*` does not go as far."""
        return self.tools.get(tool) == ALLOW

    @property
    def has_limits(self) -> bool:
        return bool(self.limits) or bool(self.budgets)


NO_POLICY = Policy()


def fits(name: str, model: str) -> bool:
    return model.startswith(name[:-1]) if name.endswith(ANY) else model == name


def union(policies: Iterable[Policy]) -> Policy:
    """Of somebody who is in several groups."""
    every = tuple(policies)
    if len(every) == 1:
        return every[0]
    named = [policy.models for policy in every]
    return Policy(
        models=None if None in named else frozenset().union(*(names or () for names in named)),
        tools=_tools_of([policy.tools for policy in every]),
        limits=Limits(**{name: _largest(getattr(each.limits, name) for each in every) for name in LIMITS}),
        retention_days=_largest(policy.retention_days for policy in every),
        budgets=tuple(budget for policy in every for budget in policy.budgets),
    )


def _largest(limits: Iterable[Any]) -> Any:
    every = tuple(limits)
    return None if None in every else max(every, default=None)


def _tools_of(tables: Iterable[Mapping[str, Rule]]) -> Mapping[str, Rule]:
    every = tuple(tables)
    by_any = _most_generous(table[ANY] for table in every if ANY in table)
    rules = {} if by_any is None else {ANY: by_any}
    for tool in {name for table in every for name in table} - {ANY}:
        by_name = _most_generous(table[tool] for table in every if tool in table)
        # The `*` of a group that does not name the tool speaks for it, too.
        others = _most_generous(table[ANY] for table in every if ANY in table and tool not in table)
        best = _most_generous(rule for rule in (by_name, others) if rule)
        if best is not None and not (best == ALLOW and by_name != ALLOW):
            rules[tool] = best
    return MappingProxyType(rules)


def _most_generous(rules: Iterable[Rule]) -> Rule | None:
    return min(rules, key=RULES.index, default=None)
