"""What stands beside the messages of a file, and is read by name later: usage, durations, the work of subagents.

Whatever else a file says beside a message is kept as it is and read by nobody. These are not: a word in the place of a
number would break each page and each run of the thread that was made of it. So they are looked at on the way in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from agent.nesting import SUBAGENTS
from agent.wire.agui_messages import decode_messages
from agent.wire.parts import dump_parts
from chatsite.chat.access import sane_id

MOST = 2**53
"""Of tokens and milliseconds: as far as every reader of JSON can count."""

COUNTS = ("inputTokens", "outputTokens", "reasoningTokens", "cachedInputTokens", "cacheWriteInputTokens")
ROLES = ("system", "developer", "user", "assistant", "tool")

Facts = Mapping[str, Any]
Parts = TypeAdapter[Any]


def counted(usage: dict[str, Any]) -> dict[str, Any]:
    """The usage of one model, as it came. ValueError, when it cannot be added up."""
    for name in COUNTS:
        if name in usage and not _is_count(usage[name]):
            raise ValueError(f"{name} is a whole number that is not negative")
    if not isinstance(usage.get("model", ""), str):
        raise ValueError("model is a name")
    return usage


def check(metadata: Facts, parts: Parts) -> None:
    """ValueError for what stands beside a message and cannot be read. `parts`: what parts a file may hold."""
    if "usage" in metadata:
        if not isinstance(metadata["usage"], dict):
            raise ValueError("usage is an object")
        counted(metadata["usage"])
    if "durationMs" in metadata and not _is_count(metadata["durationMs"]):
        raise ValueError("durationMs is a whole number that is not negative")
    for kept in _subagents(metadata):
        _check_subagent(kept, parts)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _subagents(metadata: Facts) -> list[Any]:
    """What is kept of runs behind calls: beside a result that of one, beside a turn that of each that waits."""
    several = metadata.get(SUBAGENTS, {})
    if not isinstance(several, Mapping):
        raise ValueError(f"{SUBAGENTS} is an object")
    return [*several.values(), *([metadata["subagent"]] if "subagent" in metadata else [])]


def _check_subagent(kept: Any, parts: Parts) -> None:
    try:
        for message in decode_messages(kept["messages"]):
            if not sane_id(message.id) or message.role not in ROLES:
                raise ValueError("subagent: a message has no id or no role")
            parts.validate_python(dump_parts(message.parts))
            check(message.metadata, parts)
    except (KeyError, TypeError, AttributeError):
        raise ValueError("subagent: its messages are none that were exported here") from None
