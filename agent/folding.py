"""The events of one turn, folded into its message."""

from __future__ import annotations

from collections.abc import Iterable

from agent.events import TurnEnd, TurnEvent
from agent.messages import Message, Transcript
from agent.reducer import apply


class TurnFold:
    """`feed` what a provider or a codec yields. `end` is None until the turn has ended."""

    def __init__(self, message_id: str) -> None:
        self.end: TurnEnd | None = None
        self._message_id = message_id
        self._transcript = Transcript()

    def feed(self, events: Iterable[TurnEvent | TurnEnd]) -> None:
        for event in events:
            if isinstance(event, TurnEnd):
                self.end = event
            else:
                self._transcript = apply(self._transcript, event)

    @property
    def message(self) -> Message:
        return self._transcript[-1] if self._transcript else Message(self._message_id, "assistant")
