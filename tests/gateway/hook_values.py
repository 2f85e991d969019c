"""What the relay gives a hook, made by hand."""

from __future__ import annotations

from typing import Any

from agent.events import TurnEnd
from agent.messages import Message, TextPart, ToolCallPart
from agent.rerun import Dialect, RelayContext, Turn, turn_of
from agent.wire.jsontext import dump


def context(dialect: Dialect, **body: Any) -> RelayContext:
    given = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100, **body}
    return RelayContext(dialect=dialect, model="m", body=given, request_id="req_1")


def turn(*calls: tuple[str, str, Any], text: str = "") -> Turn:
    """A turn with these calls: id, name, arguments."""
    parts = [ToolCallPart(id, name, dump(arguments)) for id, name, arguments in calls]
    message = Message("m1", "assistant", (*([TextPart(text)] if text else []), *parts))
    return turn_of(message, TurnEnd("tool_calls" if calls else "stop"), "m")


def results_in(plan: Any) -> dict[str, str]:
    """The texts of a plan's results by call id."""
    last = plan.request_patch.messages[-1]["content"]
    return {block["tool_use_id"]: block["content"] for block in last}
