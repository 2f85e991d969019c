"""Small pieces of plain English that several rooms say in the same way."""

from __future__ import annotations

import re
from decimal import Decimal


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(ms: int | None) -> str:
    """`12 ms`, `1.4 s`, `2 min 5 s`; "" when nobody measured."""
    if ms is None:
        return ""
    if ms < 1:
        return "< 1 ms"
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min {ms % 60_000 // 1000} s"


def plain(name: str, most: int = 80) -> str:
    """A name from outside as one line of text, not longer than a line."""
    line = re.sub(r"\s+", " ", name).strip()
    return line if len(line) <= most else line[: most - 1] + "…"


def money(amount: Decimal) -> str:
    """`12.50`, `0.0031`: at least two places, more where the amount is small."""
    places = 2 if amount == 0 or abs(amount) >= 1 else 6
    whole, _, rest = f"{amount:,.{places}f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"
