"""Ids of calls: one of its own for each in a thread, whatever the model's server gives."""

from __future__ import annotations

from collections.abc import Callable

from agent.messages import Transcript
from agent.text import storable

LONGEST_ID = 200
"""Characters of a call id that is told as it came; a longer or unprintable one gets a fresh one, like none."""


class CallIds:
    """`all_fresh`: no id is told as it came. So it is inside a subagent, whose calls are in no transcript that a later
    run could look at."""

    def __init__(self, new_id: Callable[[], str], *, all_fresh: bool = False) -> None:
        self._new_id = new_id
        self._all_fresh = all_fresh
        self._taken: set[str] | None = None

    def own(self, given: str, transcript: Transcript) -> str:
        """The id under which a call is told, from the one that came with it."""
        if self._taken is None:
            # Looked up once, and only in a run whose model calls something.
            self._taken = {call.id for message in transcript for call in message.tool_calls}
        sane = not self._all_fresh and 0 < len(given) <= LONGEST_ID and given.isprintable()
        free = sane and given == storable(given) and given not in self._taken
        id = given if free else f"call_{self._new_id()}"
        self._taken.add(id)
        return id
