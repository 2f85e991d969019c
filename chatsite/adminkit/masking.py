"""Text without what looks like a secret: for whatever is kept or shown of requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

HIDDEN = "[hidden]"
SECRET_NAMES = frozenset(
    (
        "api_key", "apikey", "api-key", "x-api-key", "authorization", "authorization_token", "cookie", "set-cookie",
        "proxy-authorization", "access_token", "refresh_token", "client_secret", "secret", "password", "private_key",
    )
)  # fmt: skip
KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|tl|gsk|xai|hf|ghp|gho|pplx|nvapi|fw|r8|tvly|xox[abp])[-_](?=[\w-]*\d)[\w.-]{16,}"
    r"|\bAIza[\w-]{20,}|\bAKIA[A-Z0-9]{12,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|(?<=\bbearer )[\w.~+/=-]{12,}",
    re.IGNORECASE,
)


def masked(text: str, keys: Iterable[str] = ()) -> str:
    for key in keys:
        text = text.replace(key, HIDDEN)
    return KEY_LIKE.sub(HIDDEN, text)


def is_secret(name: Any, value: Any) -> bool:
    """Whether a value under this name is one."""
    return isinstance(value, str) and bool(value) and str(name).lower() in SECRET_NAMES


def masked_json(value: Any, keys: Iterable[str] = ()) -> Any:
    """The same JSON. Strings are masked one by one: across their quotes a mask would break it."""
    if isinstance(value, str):
        return masked(value, keys)
    if isinstance(value, dict):
        return {
            name: HIDDEN if is_secret(name, item) else masked_json(item, keys) for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked_json(item, keys) for item in value]
    return value
