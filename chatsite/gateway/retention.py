"""Exchanges go when they are older than `GATEWAY_KEEP_DAYS`, and so do the calls that ran for them.

A little at a time, so that no transaction holds up those who write; the recorder's thread does it in passing. What a
key has used stays on the key.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from chatsite.gateway.conf import setting
from chatsite.gateway.models import Exchange, ExchangeCall

AT_ONCE = 500
LONGEST = 36_500
"""Days: no calendar goes on for ever."""


def prune() -> int:
    """Delete some of the oldest that are too old. How many; less than `AT_ONCE` when no more are left."""
    too_old = timezone.now() - timedelta(days=min(setting("GATEWAY_KEEP_DAYS"), LONGEST))
    with transaction.atomic():
        gone = list(
            Exchange.objects.filter(created_at__lt=too_old)
            .order_by("created_at")
            .values_list("pk", flat=True)[:AT_ONCE]
        )
        Exchange.objects.filter(pk__in=gone).delete()
        calls = ExchangeCall.objects.filter(claimed_at__lt=too_old).values_list("pk", flat=True)[:AT_ONCE]
        ExchangeCall.objects.filter(pk__in=list(calls)).delete()
    return len(gone)
