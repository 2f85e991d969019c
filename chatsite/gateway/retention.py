"""Exchanges go when they are older than `GATEWAY_KEEP_DAYS`, and so do the calls that ran for them. Where the policy of
a person's group keeps threads for fewer days, theirs go with them. What somebody holds stays.

A little at a time, so that no transaction holds up those who write; the recorder's thread does it in passing, and
`manage.py upkeep` at once. What a key has used stays on the key.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from chatsite.care import holds
from chatsite.care.walking import Walk
from chatsite.gateway.conf import setting
from chatsite.gateway.models import Exchange, ExchangeCall
from chatsite.policies.models import GroupPolicy
from chatsite.policies.rules import policy_of_pk

AT_ONCE = 500
PEOPLE_A_STEP = 20
LONGEST = 36_500
"""Days: no calendar goes on for ever."""

walk = Walk()


def prune() -> int:
    """Delete some of the oldest that are too old. How many; less than `AT_ONCE` when no more are left."""
    too_old = _ago(setting("GATEWAY_KEEP_DAYS"))
    with transaction.atomic():
        return _delete(Exchange.objects.all(), ExchangeCall.objects.all(), too_old)


def prune_by_policy() -> bool:
    """Look at some people. False when no group has such a rule, or all people were looked at."""
    if not GroupPolicy.objects.exclude(retention_days=None).exists():
        return False
    for _ in range(PEOPLE_A_STEP):
        person = walk.next_of(Exchange.objects.all(), "user_id")
        if person is None:
            return False
        days = policy_of_pk(person).retention_days
        if days is not None and days < setting("GATEWAY_KEEP_DAYS"):
            _prune_of(person, _ago(days))
    return True


def step() -> bool:
    """For `manage.py upkeep`."""
    return prune() > 0 or prune_by_policy()


def _ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=min(days, LONGEST))


def _prune_of(person: Any, too_old: datetime) -> None:
    theirs, calls = Exchange.objects.filter(user=person), ExchangeCall.objects.filter(key__user=person)
    while True:
        with transaction.atomic():
            if _delete(theirs, calls, too_old) < AT_ONCE:
                return


def _delete(exchanges: QuerySet[Exchange], calls: QuerySet[ExchangeCall], too_old: datetime) -> int:
    due = holds.free(exchanges.filter(created_at__lt=too_old), "user")
    gone = list(due.order_by("created_at").values_list("pk", flat=True)[:AT_ONCE])
    Exchange.objects.filter(pk__in=gone).delete()
    too_old_calls = holds.free(calls.filter(claimed_at__lt=too_old), "key__user")
    ExchangeCall.objects.filter(pk__in=list(too_old_calls.values_list("pk", flat=True)[:AT_ONCE])).delete()
    return len(gone)
