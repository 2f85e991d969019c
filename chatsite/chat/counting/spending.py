"""What answers took: tokens, and money by MODEL_PRICES."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.events import ModelUsage
from agent.messages import Usage
from chatsite.chat.limits import budgets
from chatsite.chat.models import Thread
from chatsite.chat.rows import values


@dataclass(frozen=True, slots=True)
class Spent:
    """What the runs of a thread took of one model, all branches together. `cost` is None where no price is set."""

    model: str
    runs: int
    usage: Usage
    cost: float | None


def by_model(thread: Thread) -> list[Spent]:
    """The model that took most first; those that said nothing of what they took are left out."""
    usage: dict[str, Usage] = {}
    runs: dict[str, int] = {}
    for entries in thread.runs.values_list("usage", flat=True):
        for entry in entries:
            model = entry.get("model", "")
            usage[model] = usage.get(model, Usage()) + values.usage_of(entry)
            runs[model] = runs.get(model, 0) + 1
    spent = [
        Spent(model, runs[model], each, budgets.cost_of([ModelUsage(model, each)]))
        for model, each in usage.items()
        if each != Usage()
    ]
    return sorted(spent, key=lambda each: -each.usage.total_tokens)


def in_all(spent: Iterable[Spent]) -> float | None:
    costs = [each.cost for each in spent if each.cost is not None]
    return sum(costs) if costs else None
