"""Hides what must not be seen: in what the model says and thinks, and in what tools give.

    Agent(..., middleware=[Redact(r"sk-[A-Za-z0-9]{20,}", r"\\d{3}-\\d{2}-\\d{4}", with_="[hidden]")])

What is hidden is hidden from everybody: readers, the record, and the model's next turn, since the state is folded
behind it. A match that comes in pieces is found all the same: the end of a text is held back until it cannot become
one, at most `window` characters, so a pattern whose beginning is no match needs a window as long as that.

    text, thoughts                  piece by piece, as they stream
    results of tools, their whole   whole
      text where that was another,
      and a subagent's transcript
    progress and other Customs      every string in their value
    arguments of calls              only with `arguments=True`: tools get what is told, so a hidden value is gone
    what a person writes            never
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from agent import events as ev
from agent.events import Event
from agent.messages import ContentPart, TextPart
from agent.middleware import Middleware, MiddlewareContext

_ENDS: Mapping[type, type] = {
    ev.TextMessageEnd: ev.TextMessageContent,
    ev.ReasoningMessageEnd: ev.ReasoningMessageContent,
    ev.ToolCallEnd: ev.ToolCallArgs,
}


class Redact(Middleware):
    name: ClassVar[str] = "redact"

    def __init__(
        self,
        *patterns: str | re.Pattern[str],
        with_: str = "[hidden]",
        window: int = 128,
        arguments: bool = False,
    ) -> None:
        self.patterns = tuple(re.compile(pattern) for pattern in patterns)
        self.with_ = with_
        self.window = window
        self.arguments = arguments
        self._held: dict[tuple[type, str], _Held] = {}

    def fresh(self) -> Redact:
        return Redact(*self.patterns, with_=self.with_, window=self.window, arguments=self.arguments)

    def on_event(self, ctx: MiddlewareContext, event: Event) -> Event | list[Event] | None:
        match event:
            case ev.TextMessageContent(message_id=id) | ev.ReasoningMessageContent(message_id=id):
                return self._grow(event, id)
            case ev.ToolCallArgs(tool_call_id=id) if self.arguments:
                return self._grow(event, id)
            case ev.TextMessageEnd(message_id=id) | ev.ReasoningMessageEnd(message_id=id):
                return self._end(event, id)
            case ev.ToolCallEnd(tool_call_id=id):
                return self._end(event, id)
            case ev.ToolCallResult():
                return self._result(event)
            case ev.Custom():
                return replace(event, value=self._inside(event.value))
        return event

    # -- what streams ----------------------------------------------------------------------------------------

    def _grow(self, event: Any, id: str) -> Event | None:
        held = self._held.setdefault((type(event), id), _Held())
        held.text += event.delta
        delta = self._let_go(held, max(held.gone, len(held.text) - self.window))
        return replace(event, delta=delta) if delta else None

    def _end(self, event: Event, id: str) -> Event | list[Event]:
        grows = _ENDS[type(event)]
        held = self._held.pop((grows, id), None)
        if held is None or not (rest := self._let_go(held, len(held.text), last=True)):
            return event
        key = "tool_call_id" if grows is ev.ToolCallArgs else "message_id"
        return [grows(**{key: id, "delta": rest, "subagent_run_id": event.subagent_run_id}), event]

    def _let_go(self, held: _Held, cut: int, *, last: bool = False) -> str:
        """The text up to `cut`, hidden where it must be, or less when a match may still grow over it."""
        spans = self._spans(held.text, held.gone)
        for start, end in spans:
            if start < cut and (end > cut or (end == len(held.text) and not last)):
                cut = start
        told = self._hidden(held.text, spans, held.gone, cut)
        # Some of what is gone stays for a while: a pattern may look at what stands before a match.
        forget = max(0, cut - self.window)
        held.text, held.gone = held.text[forget:], cut - forget
        return told

    # -- what is there at once -------------------------------------------------------------------------------

    def _result(self, event: ev.ToolCallResult) -> Event:
        metadata = event.metadata
        if metadata is not None:
            beside = {key: self._inside(metadata[key]) for key in ("full", "subagent") if key in metadata}
            metadata = {**metadata, **beside}
        return replace(event, content=self._content(event.content), metadata=metadata)

    def _content(self, content: str | tuple[ContentPart, ...]) -> str | tuple[ContentPart, ...]:
        if isinstance(content, str):
            return self.hide(content)
        return tuple(
            TextPart(self.hide(part.text)) if isinstance(part, TextPart) else part for part in content
        )

    def _inside(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list | tuple):
            return [self._inside(item) for item in value]
        if isinstance(value, Mapping):
            return {key: self._inside(item) for key, item in value.items()}
        return value

    def hide(self, text: str) -> str:
        return self._hidden(text, self._spans(text, 0), 0, len(text))

    def _spans(self, text: str, begin: int) -> list[tuple[int, int]]:
        """Where the matches of all patterns are from there on, those that overlap as one."""
        found = sorted(match.span() for pattern in self.patterns for match in pattern.finditer(text, begin))
        spans: list[tuple[int, int]] = []
        for start, end in found:
            if spans and start < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            elif end > start:
                spans.append((start, end))
        return spans

    def _hidden(self, text: str, spans: list[tuple[int, int]], begin: int, end: int) -> str:
        pieces: list[str] = []
        for start, stop in spans:
            if begin < stop <= end:
                pieces += (text[begin:start], self.with_)
                begin = stop
        return "".join((*pieces, text[begin:end]))


@dataclass
class _Held:
    """The end of a text that streams; its first `gone` characters have been told."""

    text: str = ""
    gone: int = 0
