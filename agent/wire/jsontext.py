"""JSON text that every reader takes: compact, UTF-8, strict.

Three things Python's `json` lets through would stop a browser or a database, so they are settled here:

    half of a surrogate pair    has no UTF-8           becomes U+FFFD (two halves that meet become one)
    NaN and the infinities      have no JSON           become null
    a date, a Decimal, a set    have no JSON either    their text; a mapping is an object, a set a list
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any


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
    except ValueError:
        text = _dump(_finite(value))
    return well_formed(text)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
