"""JSON text that every reader takes: compact, UTF-8, strict.

What Python's `json` lets through, or stops at, is settled here, for a browser and a database take less and a
run must not end because a tool gave something odd:

    half of a surrogate pair    has no UTF-8           becomes U+FFFD, as `agent.text` has it
    NaN and the infinities      have no JSON           become null
    a date, a Decimal, a set    have no JSON either    their text; a mapping is an object, a set a list
    what holds itself           has no end             is cut off there, as is what is nested too deep
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any

from agent.text import whole

DEEPEST = 100
TOO_DEEP = "(nested too deep)"


def quote(text: str) -> str:
    """A JSON string with its quotes."""
    return encode_basestring(text if text.isascii() else whole(text))


def dump(value: Any) -> str:
    try:
        text = _encode(value)
    except (ValueError, TypeError, RecursionError):
        text = _encode(plain(value))
    return whole(text)


def plain(value: Any, text: Callable[[str], str] = whole, inside: frozenset[int] = frozenset()) -> Any:
    """The same value in nothing but what JSON has, for whoever keeps it as JSON by other means.

    `text` says what is mended in strings: what UTF-8 cannot hold, or (`storable`) what a database cannot either.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if id(value) in inside or len(inside) == DEEPEST:
        return TOO_DEEP
    inside |= {id(value)}
    if isinstance(value, Mapping):
        return {text(str(key)): plain(item, text, inside) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, text, inside) for item in value]
    return plain(_nearest(value), text, inside)


def _nearest(value: Any) -> Any:
    """What comes closest in JSON to a value that it does not have."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return list(value)
    return str(value)


# Made once: `json.dumps` makes one for each value, which takes as long as to write a short one.
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_nearest
).encode
