"""The branch of a thread that is shown, as Markdown, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent.messages import FilePart, ImagePart, Message, TextPart, ToolCallPart, ToolResultPart
from chatsite.chat.state import ThreadState

_SPEAKERS = {"user": _("You"), "assistant": _("Assistant"), "system": _("System"), "developer": _("System")}


def markdown_of(state: ThreadState) -> str:
    """The branch that is shown, as Markdown: what was said, and each tool call with its result, folded as code."""
    lines = [f"# {state.title or gettext('Thread')}"]
    results = {
        part.tool_call_id: part
        for segment in state.segments
        for message in segment.messages
        for part in message.tool_results
    }
    for segment in state.segments:
        for message in segment.messages:
            if message.role != "tool" and (said := list(_said(message, results))):
                lines += [f"## {_SPEAKERS[message.role]}", *said]
        if segment.run.error:
            lines.append(f"> {segment.run.error}")
    return "\n\n".join(lines) + "\n"


def answer_of(state: ThreadState, message_id: str) -> str | None:
    """The answer that this message is a part of, as the model wrote it; None where it is not shown."""
    for segment in state.segments:
        if any(message.id == message_id for message in segment.messages):
            said = (message.text for message in segment.messages if message.role == "assistant")
            return "\n\n".join(text.strip("\n") for text in said if text.strip())
    return None


def _said(message: Message, results: dict[str, ToolResultPart]) -> Iterator[str]:
    for part in message.parts:
        match part:
            case TextPart(text=text) if text.strip():
                yield text.strip("\n")
            case ToolCallPart():
                yield f"**{part.name}**"
                yield _fenced(part.used_arguments, "json")
                if (result := results.get(part.id)) is not None:
                    content = result.content
                    yield _fenced(content if isinstance(content, str) else _files(content), "")
            case ImagePart() | FilePart():
                yield _files((part,))


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _backticks(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _backticks(text: str) -> Iterator[str]:
    for line in text.splitlines():
        bare = line.lstrip()
        yield bare[: len(bare) - len(bare.lstrip("`"))]


def _files(parts: tuple[Any, ...]) -> str:
    named = (part.text if isinstance(part, TextPart) else f"[{_name_of(part)}]" for part in parts)
    return "\n".join(named)


def _name_of(part: ImagePart | FilePart) -> str:
    if part.name:
        return part.name
    return part.mime_type or (gettext("image") if isinstance(part, ImagePart) else gettext("file"))
