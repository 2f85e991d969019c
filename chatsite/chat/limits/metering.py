"""The limits of people, groups and keys, held in a run (`chatsite.policies.quotas`).

    a run begins        `admit` in its transaction: over a limit there is no run, and `OverQuota` says why
    a turn has ended    what it used is booked, what the next needs is held; over a limit the run ends by its name
    the run has ended   `settle` in the transaction of its end, whoever writes that: a process that died owes nothing

A run of somebody whom nothing limits is not metered, and pays for none of this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from django.utils import timezone

from agent import Agent, Middleware, combine_strategies
from agent.events import ModelUsage
from agent.messages import Usage
from agent.middleware import MiddlewareContext, TurnUsage
from agent.strategies import LoopState, NamedStrategy
from chatsite.chat import db
from chatsite.chat.limits import allowance, budgets
from chatsite.chat.models import Run, Thread
from chatsite.chat.problems import OverQuota
from chatsite.policies import quotas, words
from chatsite.policies.quotas import Account, Amount, Over
from chatsite.policies.words import STOPPED

METERED = "metered"
"""In what a run was given: its end is to be settled."""
AN_ANSWER = 1000
"""Tokens that a turn is taken to answer with, before anybody knows."""
CHARS_A_TOKEN = 4


def admit(run: Run, thread: Thread, accounts: Sequence[Account]) -> None:
    """Raises OverQuota. The caller holds the transaction that makes the run."""
    over = quotas.admit(accounts, holder_of(run.pk), _first_need(run, thread))
    if over is not None:
        now = timezone.now()
        raise OverQuota(words.said(over, now), over.retry_after(now))


def settle(run_pk: int, usage: Iterable[ModelUsage]) -> None:
    quotas.settle(holder_of(run_pk), amount_of(tuple(usage)))


def holder_of(run_pk: int) -> str:
    return f"run:{run_pk}"


def is_metered(run: Run) -> bool:
    return bool(run.given.get(METERED))


def metered(agent: Agent, run: Run, user: Any) -> Agent:
    """The agent, for a run that is metered."""
    meter = _Meter(run.pk, user)
    return replace(
        agent,
        strategy=combine_strategies([NamedStrategy("quota", meter.objection), agent.strategy]),
        middleware=(*agent.middleware, lambda: _AtEachTurn(meter.turn_ended)),
        silent_limits=agent.silent_limits | frozenset(STOPPED),
    )


class _Meter:
    """One run's. The strategy says what the middleware was told: only a middleware may wait for the database."""

    def __init__(self, run_pk: int, user: Any) -> None:
        self._holder, self._user = holder_of(run_pk), user
        self._over: Over | None = None

    def objection(self, state: LoopState) -> str | None:
        return None if self._over is None else self._over.name

    async def turn_ended(self, turn: TurnUsage, chars: int) -> None:
        """`chars`: of what the turn said, for a model that does not tell what it used."""
        usage = turn.usage if turn.usage != Usage() else Usage(output_tokens=chars // CHARS_A_TOKEN)
        used = amount_of([ModelUsage(turn.model, usage)])
        goes_on = turn.finish_reason == "tool_calls"
        need = Amount(used.tokens + AN_ANSWER, used.cost) if goes_on else None
        accounts = (await allowance.of(self._user)).accounts
        if accounts:
            self._over = await db.write(quotas.go_on, accounts, self._holder, used, need)


class _AtEachTurn(Middleware):
    name = "quota"

    def __init__(self, ended: Callable[[TurnUsage, int], Awaitable[None]]) -> None:
        self._ended = ended

    async def on_usage(self, ctx: MiddlewareContext, turn: TurnUsage) -> None:
        said = [message for message in ctx.transcript.live if message.role == "assistant"][-1:]
        await self._ended(turn, sum(len(message.text) for message in said))


def _first_need(run: Run, thread: Thread) -> Amount:
    """About as much as a turn of the thread's last run."""
    earlier = Run.objects.filter(thread=thread, pk__lt=run.pk).order_by("-pk").values_list("usage", "turns")
    usage, turns = earlier.first() or ([], 1)
    tokens = sum(entry.get("totalTokens", 0) for entry in usage) // max(turns, 1)
    asked = Usage(input_tokens=tokens, output_tokens=AN_ANSWER)
    return amount_of([ModelUsage(run.model, asked)])


def amount_of(usage: Sequence[ModelUsage]) -> Amount:
    tokens = sum(each.usage.total_tokens for each in usage)
    cost = budgets.cost_of(usage) or 0
    return Amount(tokens, Decimal(f"{cost:.8f}"), sum(each.usage.output_tokens for each in usage))
