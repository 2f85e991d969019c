"""What a person may use: `policy_of` is the one place to ask.

Rule 1: superusers may use every model; limits and rules of tools hold for them, too.
Rule 2: what is read is kept for `FRESH` seconds in each process. Whoever changes it here is heard at once, in another
        process within that time.
Rule 3: while no policy exists at all, asking costs no query of anybody's groups.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_save

from chatsite.policies.models import GroupBudget, GroupPolicy, UserPolicy
from chatsite.policies.values import LIMITS, NO_LIMITS, NO_POLICY, Budget, Limits, Policy, union

__all__ = ["Limits", "Policy", "forget", "known", "listen", "policy_of", "policy_of_pk"]

FRESH = 4.0
MOST_PEOPLE = 20_000


@dataclass(frozen=True, slots=True)
class _Book:
    """All policies of groups, and whether there is any of a person: those may be many, and are asked for one by one."""

    at: float
    groups: dict[int, Policy]
    others: Policy
    has_people: bool
    is_empty: bool


@dataclass(frozen=True, slots=True)
class _Known:
    at: float
    policy: Policy


class _Memory:
    """What was read; `generation` tells a reader that began before a change that what it read is old."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.generation = 0
        self.book: _Book | None = None
        self.people: dict[Any, _Known] = {}

    def forget(self) -> None:
        with self.lock:
            self.generation += 1
            self.book = None
            self.people.clear()


_memory = _Memory()
forget = _memory.forget


def policy_of(user: Any) -> Policy:
    """Of a user, or of nobody in particular (None, anonymous)."""
    return policy_of_pk(getattr(user, "pk", None))


def known(pk: Any, within: float = FRESH) -> Policy | None:
    """What is known without asking the database: for who may not wait. None: ask `policy_of_pk` in a thread."""
    now, found = time.monotonic(), _memory.people.get(pk)
    if found is not None and now - found.at < within:
        return found.policy
    book = _memory.book
    return NO_POLICY if book is not None and now - book.at < within and book.is_empty else None


def policy_of_pk(pk: Any) -> Policy:
    policy = known(pk)
    if policy is not None:
        return policy
    now, generation = time.monotonic(), _memory.generation
    book = _book(now, generation)
    if book.is_empty:
        return NO_POLICY
    policy = _made(book, pk)
    with _memory.lock:
        if generation == _memory.generation:
            if len(_memory.people) >= MOST_PEOPLE:
                _memory.people.clear()
            # Not older than the book it was made of, so that the two together are not twice as late.
            _memory.people[pk] = _Known(book.at, policy)
    return policy


def _book(now: float, generation: int) -> _Book:
    book = _memory.book
    if book is not None and now - book.at < FRESH:
        return book
    book = _read(now)
    with _memory.lock:
        if generation == _memory.generation:
            _memory.book = book
    return book


def _read(now: float) -> _Book:
    rows = list(GroupPolicy.objects.select_related("group", "budget"))
    groups = {row.group_id: _view(row) for row in rows if row.group_id is not None}
    others = next((_view(row) for row in rows if row.group_id is None), NO_POLICY)
    has_people = UserPolicy.objects.exists()
    return _Book(now, groups, others, has_people, not groups and not has_people and others == NO_POLICY)


def _view(row: GroupPolicy) -> Policy:
    return Policy(
        models=frozenset(row.allowed_models) or None,
        tools=MappingProxyType(dict(row.tools)),
        limits=row.limits,
        retention_days=row.retention_days,
        budgets=tuple(_budget_of(row)),
    )


def _budget_of(row: GroupPolicy) -> Iterator[Budget]:
    budget: GroupBudget | None = getattr(row, "budget", None)
    if budget is not None and budget.limits:
        yield Budget(row.group_id or 0, str(row), budget.limits)


def _made(book: _Book, pk: Any) -> Policy:
    is_superuser, group_ids = _person(pk)
    groups = [book.groups[group_id] for group_id in group_ids if group_id in book.groups]
    policy = union(groups) if groups else book.others
    if is_superuser:
        policy = replace(policy, models=None)
    own = UserPolicy.objects.filter(user=pk).first() if book.has_people and pk is not None else None
    if own is None:
        return policy
    if own.exempt:
        return replace(policy, limits=NO_LIMITS, budgets=())
    mine, theirs = own.limits, policy.limits
    limits = {name: getattr(mine, name) for name in LIMITS}
    limits = {name: getattr(theirs, name) if limit is None else limit for name, limit in limits.items()}
    return replace(policy, limits=Limits(**limits))


def _person(pk: Any) -> tuple[bool, list[int]]:
    """Whether they are a superuser, and their groups."""
    rows = list(get_user_model().objects.filter(pk=pk).values_list("is_superuser", "groups"))
    return bool(rows and rows[0][0]), [group for _, group in rows if group is not None]


# -- changes -----------------------------------------------------------------------------------------------------


def listen() -> None:
    """Hear of every change of what a policy is made of (`apps`)."""
    people = get_user_model()
    for model in (GroupPolicy, GroupBudget, UserPolicy, Group, people):
        post_save.connect(_changed, sender=model, dispatch_uid=f"policies-saved-{model._meta.label}")
        post_delete.connect(_changed, sender=model, dispatch_uid=f"policies-deleted-{model._meta.label}")
    m2m_changed.connect(_changed, sender=people.groups.through, dispatch_uid="policies-members")


def _changed(sender: Any, update_fields: Any = None, **told: Any) -> None:
    if update_fields is not None and set(update_fields) <= {"last_login"}:
        return
    forget()
    # Others read what was there before until this is committed, and must not keep it.
    transaction.on_commit(forget)
