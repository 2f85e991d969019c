"""Minutes, days and months in UTC: which one it is, and when the next begins. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

MINUTE, DAY, MONTH = "minute", "day", "month"
SPANS = (DAY, MINUTE, MONTH)
"""In one order, so that nobody who locks them waits for another who waits for them."""

_FORMS = {MINUTE: "%Y-%m-%dT%H:%M", DAY: "%Y-%m-%d", MONTH: "%Y-%m"}


def window_of(span: str, now: datetime) -> str:
    """`2026-11`, `2026-11-30` or `2026-11-30T17:25`: they sort as they follow each other."""
    return now.astimezone(UTC).strftime(_FORMS[span])


def next_of(span: str, now: datetime) -> datetime:
    """When the window ends."""
    start = now.astimezone(UTC).replace(second=0, microsecond=0)
    if span == MINUTE:
        return start + timedelta(minutes=1)
    start = start.replace(hour=0, minute=0)
    if span == DAY:
        return start + timedelta(days=1)
    return (start.replace(day=1) + timedelta(days=32)).replace(day=1)
