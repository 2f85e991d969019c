"""A stream's events, each with the very bytes it came in: for whoever may have to send them on as they were."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agent.wire.jsonload import NotJson, load

Json = dict[str, Any]

_BORDER = re.compile(rb"\r?\n\r?\n|\r\r")
_DATA = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)


@dataclass(slots=True)
class RawEvent:
    """`value` is the object in its data; None for a comment, an end mark, or what is no JSON object."""

    raw: bytes
    value: Json | None


class RawEvents:
    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[RawEvent]:
        data = self._rest + data
        events: list[RawEvent] = []
        begin = 0
        for border in _BORDER.finditer(data):
            events.append(_event(data[begin : border.end()]))
            begin = border.end()
        self._rest = data[begin:]
        return events

    def finish(self) -> list[RawEvent]:
        """What has no empty line behind it."""
        rest, self._rest = self._rest, b""
        return [_event(rest)] if rest else []


def _event(raw: bytes) -> RawEvent:
    data = b"\n".join(_DATA.findall(raw))
    if not data.lstrip().startswith(b"{"):
        return RawEvent(raw, None)
    try:
        value = load(data)
    except NotJson:
        return RawEvent(raw, None)
    return RawEvent(raw, value if isinstance(value, dict) else None)
