"""What comes of asking the hooks of a request, as a value.

decision   the relay then
keep       sends the turn as it is
strip      sends it without `calls` (and `text`, when nothing else is left of it)
answer     sends `response` as it is
rerun      makes the request of `call`, unseen by the caller
last       makes the request of `call`, in which no tool can be called, and sends what comes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.rerun import Json, RelayContext

Action = Literal["keep", "strip", "answer", "rerun", "last"]


@dataclass(frozen=True, slots=True)
class Decision:
    """`calls`: ids of the turn's calls that must not reach the caller. `hook` asked for it; `reason` is what stopped
    the loop, for the record."""

    action: Action
    calls: frozenset[str] = frozenset()
    call: RelayContext | None = None
    response: Json | None = None
    hook: str = ""
    reason: str = ""
    text: str = ""


KEEP = Decision("keep")
