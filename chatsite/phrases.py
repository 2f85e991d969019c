"""Small pieces of plain words that several rooms say in the same way, in the language that is read."""

from __future__ import annotations

import re
from decimal import Decimal

from django.utils.formats import get_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

NOUNS = {
    "character": lambda amount: ngettext("%(number)s character", "%(number)s characters", amount),
    "key": lambda amount: ngettext("%(number)s key", "%(number)s keys", amount),
    "message": lambda amount: ngettext("%(number)s message", "%(number)s messages", amount),
    "other answer": lambda amount: ngettext("%(number)s other answer", "%(number)s other answers", amount),
    "other question": lambda amount: ngettext(
        "%(number)s other question", "%(number)s other questions", amount
    ),
    "question": lambda amount: ngettext("%(number)s question", "%(number)s questions", amount),
    "request": lambda amount: ngettext("%(number)s request", "%(number)s requests", amount),
    "round": lambda amount: ngettext("%(number)s round", "%(number)s rounds", amount),
    "run": lambda amount: ngettext("%(number)s run", "%(number)s runs", amount),
    "token": lambda amount: ngettext("%(number)s token", "%(number)s tokens", amount),
    "turn": lambda amount: ngettext("%(number)s turn", "%(number)s turns", amount),
}
"""What is counted. Whoever counts something else adds a line; without one it is counted in English. Functions, because
each `ngettext_lazy` makes two classes of its own: half a megabyte for these."""


def count(amount: int, noun: str) -> str:
    words = NOUNS.get(noun)
    if words is None:
        return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"
    return words(amount) % {"number": number(amount)}


def number(value: float | Decimal, places: int = 0) -> str:
    """`1,234.5`, or `1.234,5` where numbers are written so."""
    written = f"{value:,.{places}f}"
    point = get_format("DECIMAL_SEPARATOR")
    if point == ".":
        return written
    return written.translate({ord("."): point, ord(","): get_format("THOUSAND_SEPARATOR")})


def figure(value: float) -> str:
    """A number of a setting, with as many places as it was given."""
    return number(value, len(f"{value:.6f}".rstrip("0").partition(".")[2]))


def duration(ms: int | None) -> str:
    """`12 ms`, `1.4 s`, `2 min 5 s`; "" when nobody measured."""
    if ms is None:
        return ""
    if ms < 1:
        return "< 1 ms"
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{number(ms / 1000, 1)} s"
    return _("%(minutes)s min %(seconds)s s") % {
        "minutes": ms // 60_000,
        "seconds": ms % 60_000 // 1000,
    }


_CONTROLS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")
"""A terminal's, and those that set the direction of what follows."""


def plain(name: str, most: int = 80) -> str:
    """A name from outside as one line of text, not longer than a line, that turns nothing around beside it."""
    line = _CONTROLS.sub("", re.sub(r"\s+", " ", name)).strip()
    return line if len(line) <= most else line[: most - 1] + "…"


def money(amount: Decimal) -> str:
    """`12.50`, `0.0031`: at least two places, more where the amount is small."""
    places = 2 if amount == 0 or abs(amount) >= 1 else 6
    kept = len(f"{amount:.{places}f}".partition(".")[2].rstrip("0"))
    return number(amount, max(kept, 2))
