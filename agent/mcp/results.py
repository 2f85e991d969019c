"""What a call gave, as the value that our tools give.

| content | the model reads |
|---|---|
| text | the text |
| image (PNG, JPEG, GIF, WebP up to 5 MB) | the picture; of another kind or size, a line that says so |
| audio, other files | a line that says what it is: not every model takes one |
| a link to a resource | name, address, description: it is not fetched |
| a text resource | its address and its text |
| structured content | as JSON, where no text says the same |
| isError | an error result with those words |
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.messages import ContentPart, ImagePart, TextPart
from agent.tools import ToolOutput
from agent.wire.jsontext import dump, plain

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
LARGEST_PICTURE = 5 * 1024 * 1024
MOST_PARTS = 100
NOTHING = "(The tool gave no content.)"
FAILED = "The tool failed and did not say why."


def value_of(result: CallToolResult) -> Any:
    parts = list(_parts(result))
    if result.is_error:
        return ToolOutput(_text(parts) or FAILED, error="tool_error")
    if all(isinstance(part, TextPart) for part in parts):
        return _text(parts) or NOTHING
    return parts


def _text(parts: list[ContentPart]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, TextPart) and part.text)


def _parts(result: CallToolResult) -> Iterator[ContentPart]:
    for block in result.content[:MOST_PARTS]:
        yield _part(block)
    if len(result.content) > MOST_PARTS:
        yield TextPart(f"[{len(result.content) - MOST_PARTS:,} more parts are not shown]")
    structured = result.structured_content
    if structured is not None and not _is_said(structured, result.content):
        yield TextPart(dump(plain(structured)))


def _is_said(structured: Any, content: list[ContentBlock]) -> bool:
    """Servers give the same as text, for clients that do not know the other; `{"result": x}` is what some wrap x in."""
    said = [block.text for block in content if block.type == "text"]
    bare = (
        structured.get("result") if isinstance(structured, dict) and set(structured) == {"result"} else None
    )
    return (bare is not None and (bare in said or bare == "\n".join(said))) or any(
        _value(text) in (structured, bare) for text in said if text[:1] in '{["-0123456789tfn'
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return ...


def _part(block: ContentBlock) -> ContentPart:
    match block.type:
        case "text":
            return TextPart(block.text)
        case "image":
            return _picture(block.mime_type, block.data)
        case "audio":
            return TextPart(f"[audio, {block.mime_type}: not passed on]")
        case "resource_link":
            about = ", ".join(filter(None, (block.title, block.mime_type, block.description)))
            return TextPart(f"[{block.name}: {block.uri}]{f' {about}' if about else ''}")
    resource = block.resource
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return TextPart(f"[{resource.uri}]\n{text}")
    return _picture(resource.mime_type or "", getattr(resource, "blob", ""), what=f"file {resource.uri}")


def _picture(mime_type: str, data: str, what: str = "image") -> ContentPart:
    kind = mime_type.split(";")[0].strip().lower()
    if kind not in PICTURES:
        return TextPart(f"[{what}, {kind or 'of no type'}: not passed on]")
    if len(data) * 3 // 4 > LARGEST_PICTURE:
        return TextPart(f"[{what}, {kind}: larger than {LARGEST_PICTURE // 1024 // 1024} MB, not passed on]")
    try:
        base64.b64decode(data, validate=True)
    except ValueError:  # no base64, or no ASCII at all
        return TextPart(f"[{what}, {kind}: damaged, not passed on]")
    return ImagePart(mime_type=kind, data=data)
