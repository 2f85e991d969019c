"""What a tool gave back, as the model reads it.

a string                          as it is
a non-empty list of parts         as it is (text, images, files)
everything else                   JSON: None is `null`, a NaN is `"NaN"`, bytes are text or base64 (URL alphabet)
an error                          `{"error": message}`, and a code beside it
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from agent.messages import ContentPart, FilePart, ImagePart, TextPart, ToolResultPart
from agent.text import storable

UNKNOWN_OUTCOME = (
    "No result was kept for this call. It may have run, and it may not: check before you send it again."
)

Content = str | tuple[ContentPart, ...]


def error_result(
    tool_call_id: str, code: str, message: str, *, duration_ms: int | None = None
) -> ToolResultPart:
    content = json.dumps({"error": storable(message)}, ensure_ascii=False)
    return ToolResultPart(tool_call_id, content, error=code, duration_ms=duration_ms)


def content_of(value: Any) -> Content:
    """Raises ValueError for what cannot be said in JSON."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, TextPart | ImagePart | FilePart):
        return (_mended(value),)
    if isinstance(value, list | tuple) and value and all(isinstance(part, ContentPart) for part in value):
        return tuple(map(_mended, value))
    return _as_json(value)


def _mended(part: ContentPart) -> ContentPart:
    """Its words as everybody can hold them, a file's name and address included."""
    if isinstance(part, TextPart):
        text = storable(part.text)
        return part if text == part.text else TextPart(text)
    said = ((name, getattr(part, name)) for name in ("mime_type", "url", "name"))
    words: dict[str, Any] = {name: storable(value) for name, value in said if value is not None}
    return replace(part, **words)


def _as_json(value: Any) -> str:
    try:
        return to_json(value, inf_nan_mode="strings").decode()
    except PydanticSerializationError:
        # Bytes that are no text, or half a surrogate pair somewhere inside. Whatever else it was fails again.
        plain = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings")
        return storable(json.dumps(plain, ensure_ascii=False, separators=(",", ":")))


def text_of(result: ToolResultPart) -> str:
    """What of a result is text."""
    content = result.content
    return content if isinstance(content, str) else _text_in(content)


def _text_in(parts: Iterable[ContentPart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True)
class Cut:
    """A result for the model, and the whole text when the model does not get all of it."""

    content: Content
    full: str | None = None


def cut_to(content: Content, limit: int | None) -> Cut:
    """At most `limit` bytes of text, with a note for the model that says how much is missing."""
    if limit is None:
        return Cut(content)
    if isinstance(content, str):
        short = _cut_text(content, limit)
        return Cut(content) if short is content else Cut(short, full=content)
    left, parts = limit, list[ContentPart]()
    for part in content:
        if isinstance(part, TextPart):
            short = _cut_text(part.text, left)
            left = max(0, left - len(part.text.encode()))
            part = part if short is part.text else TextPart(short)
        parts.append(part)
    if tuple(parts) == content:
        return Cut(content)
    return Cut(tuple(parts), full=_text_in(content))


def _cut_text(text: str, limit: int) -> str:
    raw = text.encode()
    if len(raw) <= limit:
        return text
    shown = raw[:limit].decode(errors="ignore")
    return f"{shown}\n[cut here: {len(raw) - len(shown.encode()):,} of {len(raw):,} bytes are not shown]"
