"""What middlewares may make of a run's events. Pure.

Rule: whatever they give back, the run stays well formed, nothing runs that the model did not ask for, and every
call has its one result.

    an event of the run                      what may become of it
    RunStarted, StepStarted, StepFinished,   told once, as it is; metadata may be added
    RunFinished, RunError, Subagent*
    ToolCallResult                           the same, and its content may be another
    Custom tool-input-available and others   told once, as it is
    that the loop itself reads
    a start (text, thought, call)            told once, as it is, or not at all: then its deltas and its end are not
                                             told either
    a delta                                  none, one or many, while what it grows is open
    an end                                   told once; where it is missing, it is told at the end of the turn
    Custom, Raw, State*, Activity*           anything, and more of them at any place between the first event and the
                                             last
    all others (snapshots, chunks,           not told: only the loop makes those
    calls and texts of their own)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from agent import events as ev
from agent.events import Event

OPENS: dict[type, type] = {
    ev.TextMessageStart: ev.TextMessageEnd,
    ev.ReasoningStart: ev.ReasoningEnd,
    ev.ReasoningMessageStart: ev.ReasoningMessageEnd,
    ev.ToolCallStart: ev.ToolCallEnd,
}
GROWS: dict[type, type] = {
    ev.TextMessageContent: ev.TextMessageEnd,
    ev.ReasoningMessageContent: ev.ReasoningMessageEnd,
    ev.ToolCallArgs: ev.ToolCallEnd,
}
CLOSES = frozenset(OPENS.values())
FIXED = frozenset(
    {
        ev.RunStarted,
        ev.StepStarted,
        ev.StepFinished,
        ev.RunFinished,
        ev.RunError,
        ev.ToolCallResult,
        ev.SubagentStarted,
        ev.SubagentFinished,
        ev.SubagentError,
    }
)
FREE = frozenset({ev.Custom, ev.Raw, ev.StateSnapshot, ev.StateDelta, ev.ActivitySnapshot, ev.ActivityDelta})
OWN_NAMES = frozenset({"provider_result", "tool-input-available", "subagent_state"})
"""Customs that the loop or the fold reads, so that only the loop tells them."""
OWN_KEYS = frozenset(
    {
        "messageId",
        "finishReason",
        "storedFinishReason",
        "model",
        "provider",
        "usage",
        "durationMs",
        "providerReason",
        "paused",
        "full",
        "editedArguments",
        "transformedArguments",
        "subagent",
        "pendingToolCallIds",
        "heldToolCallIds",
        "abortReason",
    }
)
"""Metadata that the loop or the fold reads."""


class Guard:
    def __init__(self) -> None:
        self._open: dict[tuple[type, str, str | None], None] = {}

    def admit(self, event: Event, offered: Sequence[Event]) -> list[Event]:
        """What to tell where the run said `event` and the middlewares made `offered` of it."""
        kind = type(event)
        if kind in FIXED or _is_own(event):
            return self._fixed(event, offered)
        return [told for each in offered if (told := self._admitted(each, event)) is not None]

    def _fixed(self, event: Event, offered: Sequence[Event]) -> list[Event]:
        kind = type(event)
        place = next((n for n, each in enumerate(offered) if type(each) is kind), len(offered))
        before = [each for each in offered[:place] if is_free(each)]
        behind = [each for each in offered[place:] if is_free(each)]
        told = _with_theirs(event, offered[place]) if place < len(offered) else event
        if kind is ev.RunStarted:
            return [told, *before, *behind]
        if ev.is_terminal(event):
            return [*before, *behind, *self._closings(), told]
        if kind in (ev.StepFinished, ev.SubagentFinished, ev.SubagentError):
            return [*before, *self._closings(event), told, *behind]
        return [*before, told, *behind]

    def _admitted(self, offered: Event, event: Event) -> Event | None:
        kind = type(offered)
        if kind in GROWS:
            # Deltas are nearly all of a stream.
            return offered if _key(GROWS[kind], offered) in self._open else None
        if kind in CLOSES:
            key = _key(kind, offered)
            return offered if self._open.pop(key, offered) is None else None
        if kind in OPENS:
            key = _key(OPENS[kind], offered)
            if key in self._open or not _is_same_start(offered, event):
                return None
            self._open[key] = None
            return offered
        if kind is ev.ReasoningEncryptedValue:
            return offered if offered is event else None
        return offered if is_free(offered) else None

    def _closings(self, event: Event | None = None) -> Iterator[Event]:
        """The ends of what is open: all of it, or what the run (the subagent) of this event has."""
        for key in reversed(list(self._open)):
            end, id, run_id = key
            if event is None or run_id == event.subagent_run_id:
                del self._open[key]
                name = "tool_call_id" if end is ev.ToolCallEnd else "message_id"
                yield end(**{name: id, "subagent_run_id": run_id})


def _key(end: type, event: Any) -> tuple[type, str, str | None]:
    return end, event.tool_call_id if type(event) in _OF_CALLS else event.message_id, event.subagent_run_id


_OF_CALLS = frozenset({ev.ToolCallStart, ev.ToolCallArgs, ev.ToolCallEnd})


def _is_same_start(offered: Any, event: Event) -> bool:
    """The same thing begins: only what the loop began can."""
    return type(offered) is type(event) and offered == replace(event, metadata=offered.metadata)


def _is_own(event: Event) -> bool:
    return type(event) is ev.Custom and event.name in OWN_NAMES


def is_free(event: Event) -> bool:
    return type(event) in FREE and not _is_own(event)


def _with_theirs(event: Any, offered: Any) -> Event:
    """The loop's own event, with what may be taken over from theirs."""
    if offered is event:
        return cast("Event", event)
    own, theirs = event.metadata or {}, offered.metadata or {}
    metadata = {key: value for key, value in theirs.items() if key not in OWN_KEYS} | own
    if type(event) is not ev.ToolCallResult:
        return cast("Event", replace(event, metadata=metadata or None))
    for key in ("full", "subagent"):  # the content over again, and how it came about
        if key in own and key in theirs:
            metadata[key] = theirs[key]
    return cast("Event", replace(event, content=offered.content, metadata=metadata or None))
