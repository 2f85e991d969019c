"""What people write into a command or a form, as values. A ValueError says what to write."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

from django.utils import timezone


def names(text: str) -> list[str]:
    """Parted by commas or lines; each once, in their order."""
    return list(dict.fromkeys(name.strip() for name in re.split(r"[,\n]", text) if name.strip()))


def whole(text: str) -> int:
    # isdecimal() also likes the digits of other scripts.
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0):
        raise ValueError("write a whole number above 0.")
    return int(text)


def money(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0:
        raise ValueError("write an amount such as 25 or 0.5.")
    return value


def period(text: str) -> str:
    if text not in {"total", "monthly"}:
        raise ValueError("write total or monthly.")
    return "" if text == "total" else text


def moment(text: str) -> datetime:
    """A day, a point in time (UTC unless it says otherwise), or a number of days from now such as `90d`."""
    words = "write a day such as 2027-01-31, or a number of days such as 90d; it must lie ahead."
    try:
        if re.fullmatch(r"[0-9]{1,5}d", text):
            at = timezone.now() + timedelta(days=int(text[:-1]))
        else:
            at = datetime.fromisoformat(text)
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
        ahead = at > timezone.now()
    except (ValueError, OverflowError):
        raise ValueError(words) from None
    if not ahead:
        raise ValueError(words)
    return at
