"""What of a request or an answer may be kept: text, without secrets, without the bulk of files.

    secrets        values under a name that says so, whatever looks like a key, and the keys of our endpoints
    files          long runs without a blank (base64, data urls) become their beginning and a count
    the rest       cut after `MOST_KEPT` characters, and the cut is said

Large bodies are shortened before anything parses them: that takes milliseconds where parsing would hold up every
request of the process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.text import storable
from chatsite.adminkit.masking import HIDDEN, SECRET_NAMES, is_secret, masked
from chatsite.catalog import entries
from chatsite.gateway.conf import setting
from chatsite.gateway.records import Body

SHORTEN_FROM = 4_000
SHOWN_OF_LONG = 64
MOST_PARSED = 2_000_000
MOST_KEPT = 1_000_000
KEY_SETTINGS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "BRAVE_API_KEY", "TAVILY_API_KEY")
FILE_LIKE = re.compile(r"[A-Za-z0-9+/=_,:;.%-]+")


def text_of(body: Body) -> str:
    """What is kept of it; "" for none."""
    if body is None or body in (b"", ""):
        return ""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    keys = endpoint_keys()
    text = _text_of_value(body, keys) if isinstance(body, dict | list) else _text_of_text(body, keys)
    return _cut(storable(text))


def endpoint_keys() -> list[str]:
    named = [setting(name) for name in KEY_SETTINGS]
    configured = [key for key in (*named, *_keys_in(setting("GATEWAY_MODELS"))) if len(key) >= 4]
    return [*configured, *entries.current().secrets]


def _keys_in(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(item, str) and str(name).lower() in SECRET_NAMES:
                yield item
            else:
                yield from _keys_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys_in(item)


def _text_of_text(text: str, keys: list[str]) -> str:
    text = '"'.join(_shortened(piece) for piece in text.split('"')) if len(text) > SHORTEN_FROM else text
    if len(text) > MOST_PARSED or text.lstrip()[:1] not in {"{", "["}:
        return masked(text, keys)
    try:
        return _text_of_value(json.loads(text), keys)
    except (ValueError, RecursionError):
        return masked(text, keys)


def _text_of_value(value: Any, keys: list[str]) -> str:
    try:
        return json.dumps(_clean(value, keys), ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, RecursionError):
        return "(nested too deeply to be kept)"


def _clean(value: Any, keys: list[str]) -> Any:
    """The same JSON. Strings are masked one by one: across their quotes a mask would break it."""
    if isinstance(value, str):
        return masked(_shortened(value), keys)
    if isinstance(value, dict):
        return {name: HIDDEN if is_secret(name, item) else _clean(item, keys) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, keys) for item in value]
    return value


def _shortened(text: str) -> str:
    if len(text) < SHORTEN_FROM or not FILE_LIKE.fullmatch(text, 0, 200):
        return text
    return f"{text[:SHOWN_OF_LONG]}… ({len(text) - SHOWN_OF_LONG:,} characters not kept)"


def _cut(text: str) -> str:
    more = len(text) - MOST_KEPT
    return text if more <= 0 else f"{text[:MOST_KEPT]}\n… ({more:,} characters not kept)"
