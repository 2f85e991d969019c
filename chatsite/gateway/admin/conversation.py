"""Kept requests and answers as messages, and as HTML.

`GATEWAY_RENDERER` is the dotted path of what makes HTML of messages (a chat's own renderer): it is called with the
messages and a `name` for the ids in its HTML. Without one they are plain text. What cannot be read as messages (an
error, a text that was cut) has none: the page then shows it as it was kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html_join
from django.utils.module_loading import import_string
from django.utils.safestring import SafeString

from agent.context import new_id
from agent.errors import AgentError
from agent.events import TurnEnd
from agent.messages import Message, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, Transcript
from agent.reducer import apply_all
from agent.wire.turn_reader import TurnReader
from chatsite.gateway.conf import setting
from chatsite.gateway.dialects import CODECS

Renderer = Callable[..., SafeString]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says: `tools` are the names of those it declares."""

    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[str, ...] = ()

    def since(self, before: Asked | None) -> tuple[Message, ...]:
        """The messages behind those that an earlier request had too."""
        common = 0
        for old, new in zip(before.messages if before else (), self.messages, strict=False):
            if (old.role, old.parts) != (new.role, new.parts):
                break
            common += 1
        return self.messages[common:]


def asked_in(text: str, dialect: str) -> Asked | None:
    """None when the text is no request that can be read."""
    codec: Any = CODECS.get(dialect)
    try:
        request = codec.decode_request(json.loads(text)) if codec and text else None
    except (AgentError, ValueError, RecursionError):
        return None
    if request is None:
        return None
    return Asked(request.system, tuple(request.transcript), tuple(tool.name for tool in request.tools))


def answered_in(text: str, dialect: str) -> Message | None:
    """The turn that an answer tells, in one piece or streamed; of one that broke off, what there is."""
    codec: Any = CODECS.get(dialect)
    if codec is None or not text:
        return None
    reader = TurnReader(
        codec.StreamDecoder("answer", new_id), lambda body: codec.decode_response(body, "answer", new_id)
    )
    try:
        told = reader.feed(text.encode("utf-8", "replace"))
        told = [*told, *reader.finish()]
    except (AgentError, ValueError, RecursionError):
        return None
    turn = apply_all(Transcript(()), [event for event in told if not isinstance(event, TurnEnd)])
    return turn[-1] if len(turn) else None


def html_of(messages: Sequence[Message], name: str) -> SafeString:
    """The messages as HTML. `name` is theirs alone on the page."""
    path = setting("GATEWAY_RENDERER")
    render: Renderer = import_string(path) if path else plain_html
    return render(messages, name=name)


def plain_html(messages: Sequence[Message], *, name: str) -> SafeString:
    return format_html_join(
        "\n", '<section class="loom-plain"><h4>{}</h4><pre class="loom-value">{}</pre></section>',
        ((message.role, "\n\n".join(map(_plain, message.parts))) for message in messages),
    )  # fmt: skip


def _plain(part: Any) -> str:
    match part:
        case TextPart() | ThinkingPart():
            return part.text
        case ToolCallPart():
            return f"→ {part.name}({part.arguments})"
        case ToolResultPart(content=str() as content):
            return f"← {content}"
        case ToolResultPart(content=content):
            return "← " + "\n".join(map(_plain, content))
    return f"[{type(part).__name__.removesuffix('Part').lower()}]"
