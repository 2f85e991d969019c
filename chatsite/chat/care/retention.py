"""How long threads are kept: `THREADS_KEEP_DAYS`, or what the policy of their owner's group says.

A thread is too old when nothing happened in it for so many days; that it is pinned or put away does not count. It is
thrown away then, without the time to take it back, and `actions.organizing.remove_deleted` removes it piece by piece:
shares, messages, logs, calls, its place in the search, and the files it alone had (`files.removing.remove_unused`).
"""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.utils import timezone

from chatsite.audit import log
from chatsite.care import holds
from chatsite.care.walking import Walk
from chatsite.chat.actions.organizing import KEPT_DELETED
from chatsite.chat.conf import setting
from chatsite.chat.models import Run, Thread
from chatsite.policies.models import GroupPolicy
from chatsite.policies.rules import policy_of_pk

OWNERS_A_STEP = 20
THREADS_AT_ONCE = 200
LONGEST = 36_500

walk = Walk()


def throw_away_old() -> bool:
    """Throw the too old threads of some people away. False when there is no such rule, or the walk is at its end.

    The caller holds the transaction.
    """
    if setting("THREADS_KEEP_DAYS") is None and not _any_rule():
        return False
    for _ in range(OWNERS_A_STEP):
        owner = walk.next_of(Thread.objects.all(), "owner_id")
        if owner is None:
            return False
        if days := days_of(owner):
            _throw_away(owner, days)
    return True


def days_of(owner_pk: int) -> float | None:
    """The rule of their group, where it has one."""
    days = policy_of_pk(owner_pk).retention_days
    return days if days is not None else setting("THREADS_KEEP_DAYS")


def _any_rule() -> bool:
    return GroupPolicy.objects.exclude(retention_days=None).exists()


def _throw_away(owner_pk: int, days: float) -> None:
    long_ago = timezone.now() - KEPT_DELETED - timedelta(seconds=1)
    gone = 0
    while pks := list(_due(owner_pk, days)[:THREADS_AT_ONCE]):
        gone += Thread.objects.filter(pk__in=pks).update(deleted_at=long_ago)
    if gone:
        owner = get_user_model().objects.get(pk=owner_pk)
        log.record("retention.applied", subject=f"user {owner}", facts={"threads": gone, "days": days})


def _due(owner_pk: int, days: float) -> QuerySet[Thread, int]:
    before = timezone.now() - timedelta(days=min(days, LONGEST))
    active = Run.objects.filter(state__in=Run.ACTIVE).values("thread")
    rows = Thread.objects.filter(owner=owner_pk, updated_at__lt=before, deleted_at=None).exclude(
        pk__in=active
    )
    return holds.free(rows, "owner", "public_id").order_by("updated_at").values_list("pk", flat=True)
