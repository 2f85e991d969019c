"""JSON text that every reader takes: compact, UTF-8, strict.

What Python's `json` lets through, or stops at, is settled here, for a browser and a database take less and a
run must not end because a tool gave something odd:

    half of a surrogate pair    has no UTF-8           becomes U+FFFD (two halves that meet become one)
    NaN and the infinities      have no JSON           become null
    a date, a Decimal, a set    have no JSON either    their text; a mapping is an object, a set a list
    what holds itself           has no end             is cut off there, as is what is nested too deep
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any

DEEPEST = 100
TOO_DEEP = "(nested too deep)"


def well_formed(text: str) -> str:
    """The same text with nothing in it that UTF-8 cannot hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def quote(text: str) -> str:
    """A JSON string with its quotes."""
    return encode_basestring(text if text.isascii() else well_formed(text))


def dump(value: Any) -> str:
    try:
        text = _dump(value)
    except (ValueError, TypeError, RecursionError):
        text = _dump(plain(value))
    return well_formed(text)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_nearest)


def plain(value: Any, inside: frozenset[int] = frozenset()) -> Any:
    """The same value in nothing but what JSON has, for whoever keeps it as JSON by other means."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if id(value) in inside or len(inside) == DEEPEST:
        return TOO_DEEP
    inside |= {id(value)}
    if isinstance(value, Mapping):
        return {well_formed(str(key)): plain(item, inside) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, inside) for item in value]
    return plain(_nearest(value), inside)


def _nearest(value: Any) -> Any:
    """What comes closest in JSON to a value that it does not have."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return list(value)
    return str(value)
