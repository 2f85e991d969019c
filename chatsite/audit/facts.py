"""What an entry may say besides who, what and why: small, plain, and never content.

A name that promises content or a secret is a mistake of the code that records, and raises. What only is too long is
cut, so that nothing a person does fails because of the length of a name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from agent.text import storable

MOST_BYTES = 2048
MOST_TEXT = 200
MOST_ITEMS = 20
DEEPEST = 3
NEVER = frozenset(
    (
        "text", "content", "contents", "prompt", "system_prompt", "message", "messages", "parts", "arguments", "result",
        "request", "response", "body", "title", "query", "password", "secret", "token", "api_key", "authorization",
        "cookie",
    )
)  # fmt: skip


class NotForTheLog(ValueError):
    """A mistake of the code that records."""


def checked(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The facts as plain JSON that every database gives back as it was."""
    plain = {_name(name): _plain(value, 1) for name, value in (facts or {}).items()}
    size = len(json.dumps(plain, ensure_ascii=False).encode())
    if size > MOST_BYTES:
        raise NotForTheLog(
            f"The facts take {size} bytes; {MOST_BYTES} is the limit: counts and names, no more."
        )
    return plain


def _name(name: Any) -> str:
    if not isinstance(name, str) or name.lower() in NEVER:
        raise NotForTheLog(f"A fact named {name!r} would be content or a secret, which the log never holds.")
    return storable(name)[:MOST_TEXT]


def _plain(value: Any, depth: int) -> Any:
    match value:
        case None | bool() | int():
            return value
        case str():
            return value if len(value) <= MOST_TEXT and value == storable(value) else cut(value, MOST_TEXT)
        case float() | Decimal():
            return str(value)  # a database may write a fraction in another way than it was written
        case datetime() | date():
            return value.isoformat()
        case Mapping() if depth < DEEPEST:
            return {_name(name): _plain(item, depth + 1) for name, item in list(value.items())[:MOST_ITEMS]}
        case list() | tuple() | set() | frozenset() if depth < DEEPEST:
            items = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
            more = len(items) - MOST_ITEMS
            return [_plain(item, depth + 1) for item in items[:MOST_ITEMS]] + (
                [f"+{more}"] if more > 0 else []
            )
    return cut(str(value), MOST_TEXT)


def cut(text: str, most: int) -> str:
    text = storable(text)
    return text if len(text) <= most else text[: most - 1] + "…"
