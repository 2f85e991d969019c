"""Parts as JSON for database rows: nothing is lost and nothing is added.

    type          fields beside it (those in brackets only when they are set)
    text          text
    thinking      text, [signature], [redacted], [durationMs]
    tool-call     id, name, arguments, [providerExecuted], [edited]
    tool-result   toolCallId, content (text, or a list of text, image and file), [error], [durationMs]
    image         [mimeType], [data], [url], [name]
    file          kind, [mimeType], [data], [url], [name]

`load_parts(dump_parts(parts)) == parts` for every part there is. A row of a type that this version does not
know is an error and not a silent gap: the person would miss something and the model would answer without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never, cast

from agent.messages import (
    ContentPart,
    FilePart,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

Json = dict[str, Any]


def dump_parts(parts: Iterable[Part]) -> list[Json]:
    return [_dump(part) for part in parts]


def load_parts(rows: Iterable[Mapping[str, Any]]) -> tuple[Part, ...]:
    return tuple(_load(row) for row in rows)


def without_none(**fields: Any) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _dump(part: Part) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ThinkingPart():
            return without_none(
                type="thinking",
                text=part.text,
                signature=part.signature,
                redacted=part.redacted,
                durationMs=part.duration_ms,
            )
        case ToolCallPart():
            return without_none(
                type="tool-call",
                id=part.id,
                name=part.name,
                arguments=part.arguments,
                providerExecuted=part.provider_executed or None,
                edited=part.edited,
            )
        case ToolResultPart():
            return without_none(
                type="tool-result",
                toolCallId=part.tool_call_id,
                content=part.content if isinstance(part.content, str) else dump_parts(part.content),
                error=part.error,
                durationMs=part.duration_ms,
            )
        case ImagePart():
            return without_none(
                type="image", mimeType=part.mime_type, data=part.data, url=part.url, name=part.name
            )
        case FilePart():
            return without_none(
                type="file",
                kind=part.kind,
                mimeType=part.mime_type,
                data=part.data,
                url=part.url,
                name=part.name,
            )
    assert_never(part)


def _load(row: Mapping[str, Any]) -> Part:
    match row["type"]:
        case "text":
            return TextPart(row["text"])
        case "thinking":
            return ThinkingPart(row["text"], row.get("signature"), row.get("redacted"), row.get("durationMs"))
        case "tool-call":
            return ToolCallPart(
                row["id"],
                row["name"],
                row["arguments"],
                row.get("providerExecuted", False),
                row.get("edited"),
            )
        case "tool-result":
            content = row["content"]
            return ToolResultPart(
                tool_call_id=row["toolCallId"],
                content=content if isinstance(content, str) else _load_content(content),
                error=row.get("error"),
                duration_ms=row.get("durationMs"),
            )
        case "image":
            return ImagePart(row.get("mimeType"), row.get("data"), row.get("url"), row.get("name"))
        case "file":
            return FilePart(
                row["kind"], row.get("mimeType"), row.get("data"), row.get("url"), row.get("name")
            )
        case unknown:
            raise ValueError(f"a part of type {unknown!r} was kept by a version that this one does not know")


def _load_content(rows: list[Mapping[str, Any]]) -> tuple[ContentPart, ...]:
    return cast("tuple[ContentPart, ...]", load_parts(rows))
