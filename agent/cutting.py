"""What `compression.py` cuts with: the texts of a message of either protocol, and the pairs of calls and results.

What is not understood stays as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

FETCH = "fetch_context"
HEAD = 400
LONG = 1_000
"""A text of more characters is cut; what a cut leaves is well below it, so nothing is cut twice."""
PICTURE = 6_000
"""What an image or a file counts for, whatever its data's length."""
A_TOKEN = 4


def weight(value: Any) -> int:
    """Characters of text in a JSON value, keys included; pictures count for PICTURE."""
    total, left = 0, [value]
    while left:
        match left.pop():
            case str() as text:
                total += min(len(text), PICTURE) if text.startswith("data:") else len(text)
            case {"type": "base64", "data": str(data)}:
                total += min(len(data), PICTURE)
            case dict() as fields:
                left += fields.keys()
                left += fields.values()
            case list() | tuple() as items:
                left += items
            case _:
                total += A_TOKEN
    return total


def call_ids(message: Json) -> Iterator[str]:
    """The ids of the calls in a message of either protocol."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield str(call.get("id") if isinstance(call, dict) else None)
    for block in _blocks(message):
        if block.get("type") == "tool_use":
            yield str(block.get("id"))


def result_ids(message: Json) -> Iterator[str]:
    """The ids of the calls that a message of either protocol answers."""
    if message.get("role") == "tool":
        yield str(message.get("tool_call_id"))
    for block in _blocks(message):
        if block.get("type") == "tool_result":
            yield str(block.get("tool_use_id"))


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def head_of(text: str, cut: dict[str, str]) -> str:
    if len(text) <= LONG:
        return text
    left = f"{len(text) - HEAD:,} more characters of this text were cut"
    return f"{text[:HEAD]}\n[{left}; {FETCH} reads it whole: key {keep(text, cut)}]"


def keep(text: str, cut: dict[str, str]) -> str:
    key = f"ctx_{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"
    cut[key] = text
    return key


def with_texts(message: Json, change: Callable[[str], str]) -> Json:
    """The message with each of its texts changed: its own, and those of the results in it."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": change(content)}
    if not isinstance(content, list):
        return message
    return {**message, "content": [_block_with_texts(block, change) for block in content]}


def _block_with_texts(block: Any, change: Callable[[str], str]) -> Any:
    match block:
        # What cites a source names places in its text.
        case {"type": "text", "text": str(text)} if not block.get("citations"):
            return {**block, "text": change(text)}
        case {"type": "tool_result"}:
            return with_texts(block, change)
    return block


def with_note(group: list[Json], note: str) -> list[Json] | None:
    """The group with a note before the first of its results, or else of its assistant's texts; None: it has
    no text to bear one."""
    answered = [at for at, message in enumerate(group) if any(True for _ in result_ids(message))]
    at = answered[0] if answered else 0
    notes = iter([note])
    noted = with_texts(group[at], lambda text: next(notes, "") + text)
    return [*group[:at], noted, *group[at + 1 :]] if next(notes, None) is None else None


def without_data(value: Any) -> Any:
    """The same message with words in the place of pictures, which no text can give back."""
    match value:
        case {"type": "base64", "data": str(data)}:
            return {**value, "data": f"({len(data):,} characters of data)"}
        case dict():
            return {key: without_data(inner) for key, inner in value.items()}
        case list():
            return [without_data(inner) for inner in value]
        case str() if value.startswith("data:") and len(value) > LONG:
            return f"({len(value):,} characters of data)"
    return value
