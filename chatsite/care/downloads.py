"""Who takes their data out just now, a row each: two clicks make one archive, whichever processes they come to.

Rule: a row holds for `HOLDS` and no longer, unless somebody reads on. So a browser that was gone before the answer was,
or a process that died, holds nobody up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from chatsite.care.models import Download

MOST_AT_ONCE = 4
HOLDS = timedelta(seconds=60)
PUT_OFF_EVERY = 15.0
"""Seconds."""


def claim(user: Any) -> int | None:
    """The key of a row of theirs; None: they have one, or too many others do."""
    now = timezone.now()
    Download.objects.filter(until__lt=now).delete()
    taken = set(Download.objects.values_list("place", flat=True))
    for place in set(range(MOST_AT_ONCE)) - taken:
        try:
            with transaction.atomic():
                return Download.objects.create(user=user, place=place, until=now + HOLDS).pk
        except IntegrityError:
            # Somebody took the place in this moment. Where it was this person, the next one fails alike.
            continue
    return None


def held(pieces: Iterator[bytes], claimed: int) -> Iterator[bytes]:
    """The pieces, with the row held while they are read and gone behind them."""
    row, due = Download.objects.filter(pk=claimed), 0.0
    try:
        for piece in pieces:
            if time.monotonic() >= due:
                row.update(until=timezone.now() + HOLDS)
                due = time.monotonic() + PUT_OFF_EVERY
            yield piece
    finally:
        pieces.close()  # it is a generator
        row.delete()
