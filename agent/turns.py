"""One model turn as it is told: what a provider says, kept in good form.

Whatever was opened is closed once, nothing grows that is not open, each call has an id of its own, and a turn
that may not call does not. What a provider in order says passes through untouched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from agent import events
from agent.errors import BadStream
from agent.events import Event, TurnEnd
from agent.messages import FinishReason
from agent.text import storable

BROKE_OFF = "The model's answer broke off."

Kind = type[Any]

_OPENS: dict[Kind, Kind] = {
    events.TextMessageStart: events.TextMessageEnd,
    events.ReasoningStart: events.ReasoningEnd,
    events.ReasoningMessageStart: events.ReasoningMessageEnd,
    events.ToolCallStart: events.ToolCallEnd,
}
_GROWS: dict[Kind, Kind] = {
    events.TextMessageContent: events.TextMessageEnd,
    events.ReasoningMessageContent: events.ReasoningMessageEnd,
    events.ToolCallArgs: events.ToolCallEnd,
}
_CLOSES = frozenset(_OPENS.values())
_OF_CALLS = frozenset({events.ToolCallStart, events.ToolCallArgs, events.ToolCallEnd})
_PASSES = frozenset({events.ReasoningEncryptedValue, events.Custom})


class Turn:
    """`own_id` gives the id under which a call is told, from the one its provider gave it; `clock` is in seconds."""

    def __init__(
        self,
        message_id: str,
        own_id: Callable[[str], str],
        *,
        may_call: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.message_id = message_id
        self.calls = 0
        self.end: TurnEnd | None = None
        self._own_id = own_id
        self._may_call = may_call
        self._ids: dict[str, str] = {}
        self._open: dict[tuple[Kind, str], float] = {}
        self._clock = clock

    @property
    def finish_reason(self) -> FinishReason | None:
        reason = self.end.finish_reason if self.end is not None else None
        return "stop" if reason == "tool_calls" and not self._may_call else reason

    @property
    def paused(self) -> bool:
        return self.end is not None and self.end.paused

    def hear(self, event: Any) -> Event | None:
        """What to tell of it; None for nothing."""
        if self.end is not None:
            return None
        kind = type(event)
        if kind in _OF_CALLS:
            call = self._renamed(kind, event)
            return None if call is None else self._in_form(kind, call.tool_call_id, call)
        if kind is TurnEnd:
            self.end = event
            return None
        return self._in_form(kind, event.message_id, event) if kind not in _PASSES else cast("Event", event)

    def _renamed(self, kind: Kind, event: Any) -> Any:
        raw = event.tool_call_id
        if kind is events.ToolCallStart:
            if not self._may_call and not event.provider_executed:
                self._ids.pop(raw, None)
                return None
            self._ids[raw] = self._own_id(raw)
            event = replace(event, tool_call_name=storable(event.tool_call_name))
            self.calls += not event.provider_executed
        id = self._ids.get(raw)
        if id is None:
            return None
        if kind is events.ToolCallStart:
            in_place = id == raw and event.parent_message_id == self.message_id
            return event if in_place else replace(event, tool_call_id=id, parent_message_id=self.message_id)
        if id == raw:
            return event
        # Written out for what there may be many thousands of: `replace` takes several times as long.
        if kind is events.ToolCallArgs and event.metadata is None:
            return events.ToolCallArgs(tool_call_id=id, delta=event.delta)
        return replace(event, tool_call_id=id)

    def _in_form(self, kind: Kind, id: str, event: Event) -> Event | None:
        end = _GROWS.get(kind)
        if end is not None:
            return _mended(event) if (end, id) in self._open else None
        if kind in _CLOSES:
            began = self._open.pop((kind, id), None)
            return None if began is None else self._timed(kind, event, began)
        end = _OPENS[kind]
        if (end, id) in self._open:
            return None
        self._open[end, id] = self._clock() if end is events.ReasoningMessageEnd else 0.0
        return event

    def _timed(self, kind: Kind, event: Any, began: float) -> Event:
        """The end of a thought says how long it took."""
        if kind is events.ReasoningMessageEnd:
            took = {"durationMs": round((self._clock() - began) * 1000)}
            event = replace(event, metadata={**(event.metadata or {}), **took})
        return cast("Event", event)

    def closings(self) -> Iterator[Event]:
        """The ends of what is open, the newest first."""
        while self._open:
            (end, id), began = self._open.popitem()
            event = end(tool_call_id=id) if end is events.ToolCallEnd else end(message_id=id)
            yield self._timed(end, event, began)

    def check(self) -> None:
        """Raises BadStream when the turn just stopped, without a word of how it ended."""
        if self.end is None or (self.end.finish_reason is None and not self.paused):
            raise BadStream(BROKE_OFF)


def _mended(event: Any) -> Event:
    """A delta that everybody can hold. Nearly every one is already, so that is asked the cheap way."""
    delta = event.delta
    if delta.isascii() and "\x00" not in delta:
        return cast("Event", event)
    mended = storable(delta)
    return cast("Event", event if mended is delta else replace(event, delta=mended))
