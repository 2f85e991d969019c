"""What is wrong with a server, or with one of its tools: a code, and what belongs to it.

`str()` says it in English, to models, logs and commands. Who shows it to people in their language has sentences of its
own for the codes; `said` is what a server or a library said, which has no other words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.mcp.config import OLD_TRANSPORT
from agent.mcp.text import shown

LONGEST_WORDS = 500

SENTENCES: Mapping[str, str] = {
    # a server
    "silent": "it did not say what tools it has within %(seconds)s seconds",
    "nonsense": "its answer is not of the protocol",
    "no_command": "its command cannot be started; is it installed here, and may it be run?",
    "unreachable": "it cannot be reached (%(why)s)",
    "no_answer": "it cannot be reached (no answer in time)",
    "broken": "the connection broke (%(why)s)",
    "packed": "it packs its answers, though none was asked for",
    "forgotten": "it does not know this session any more",
    "locked": "it lets nobody in with these headers (HTTP %(status)s)",
    "no_protocol": f"nothing at this address speaks the protocol (HTTP %(status)s); {OLD_TRANSPORT}",
    "refused": "it refuses the request (HTTP %(status)s)",
    "failed": "it failed (HTTP %(status)s)",
    # a tool
    "absent": "the server has no such tool",
    "too_many": "the server has more than %(most)s tools",
    "twice": "the server names it twice",
    "no_name": "it has no name",
    "no_object": "its schema is not one of an object",
    "no_properties": "its schema's properties are no object",
    "odd_argument": "an argument has a name that not every provider takes",
    "deep": "its schema is more than %(most)s deep",
    "large": "its schema is larger than %(most)s KB",
    # either
    "said": "%(words)s",
}


@dataclass(frozen=True, slots=True)
class Fault:
    code: str
    values: Mapping[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        return SENTENCES[self.code] % self.values


def fault(code: str, **values: str | int) -> Fault:
    return Fault(code, values)


def said(words: str) -> Fault:
    return fault("said", words=shown(words, LONGEST_WORDS))


def packed(found: Fault) -> dict[str, Any]:
    """As it travels beside an error of the protocol; `unpacked` reads it."""
    return {"fault": found.code, "values": dict(found.values)}


def unpacked(data: Any) -> Fault | None:
    """None: it is nothing that was packed here, or not as it was: a server may write whatever it likes there."""
    try:
        given = {str(name): value for name, value in data["values"].items() if isinstance(value, str | int)}
        values = {
            name: shown(value, LONGEST_WORDS) if isinstance(value, str) else value
            for name, value in given.items()
        }
        found = Fault(data["fault"], values)
        str(found)
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    return found
