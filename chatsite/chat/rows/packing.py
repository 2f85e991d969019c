"""A run's log as rows: an event is a row, and an unbroken line of deltas of one entity is one row.

    pack                       a batch's events -> rows, for the one who keeps it
    unpack                     a row -> its events, each with its number
    batches_of, as_batches     when a row's deltas were kept: folded, it holds several batches

What the columns hold is said at `models.RunEvent`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

from agent.events import Event, ReasoningMessageContent, TextMessageContent, ToolCallArgs
from agent.wire import jsontext
from agent.wire.agui import decode_event, encode_event
from chatsite.chat.models import RunEvent

EventRow = tuple[int, int, int, str, str]


def pack(run_pk: int, first: int, events: Sequence[Event], at: datetime) -> list[EventRow]:
    """One row an event; an unbroken line of deltas of one entity is one row. A delta has no time of its own: its row
    says `at`, when its batch was kept."""
    rows: list[EventRow] = []
    kept_at = round(at.timestamp() * 1000)
    for key, group in _lines(events):
        number = first + len(group) - 1
        data = encode_event(group[0])
        if key is not None:
            data["at"] = kept_at
            if len(group) > 1:
                data["delta"] = [event.delta for event in group]
        rows.append((run_pk, first, number, data["type"], jsontext.dump(data)))
        first = number + 1
    return rows


def _lines(events: Iterable[Event]) -> Iterator[tuple[object, list[Event]]]:
    line: list[Event] = []
    line_key: object = None
    for event in events:
        key = _entity(event)
        if line and (key is None or key != line_key):
            yield line_key, line
            line = []
        line.append(event)
        line_key = key
    if line:
        yield line_key, line


def _entity(event: Event) -> object:
    """What a delta grows; None for an event that stands in a row of its own."""
    if event.metadata is not None:
        return None
    match event:
        case (
            TextMessageContent(message_id=id)
            | ReasoningMessageContent(message_id=id)
            | ToolCallArgs(tool_call_id=id)
        ):
            return type(event), id
    return None


def unpack(row: RunEvent, after: int = 0) -> Iterator[tuple[int, Event]]:
    """The events of a row, but for deltas up to number `after`: a line of them may be long."""
    if row.first == row.number:
        yield row.number, decode_event(row.data)
        return
    unread = max(0, after + 1 - row.first)
    for at, delta in enumerate(deltas_of(row.data)[unread:], start=row.first + unread):
        yield at, decode_event({**row.data, "delta": delta})


def stands_for_a_log(row: RunEvent) -> bool:
    """A log that was pruned is its terminal event alone."""
    return row.first < row.number and "delta" not in row.data


def deltas_of(data: Mapping[str, Any]) -> list[str]:
    """The deltas of a row, whichever way it holds them."""
    delta = data["delta"]
    if "sizes" not in data:
        return delta if isinstance(delta, list) else [delta]
    ends = list(accumulate(map(int, data["sizes"].split())))
    return [delta[begin:end] for begin, end in pairwise([0, *ends])]


def batches_of(data: Mapping[str, Any]) -> list[tuple[int, int | None]]:
    """The batches that a row's deltas came in: how many each had, and when it was kept, in ms."""
    at = data.get("at")
    if "batches" not in data:
        return [(len(deltas_of(data)), at)]
    found: list[tuple[int, int | None]] = []
    for batch in data["batches"].split():
        count, _, later = batch.partition("+")
        at = at + int(later or 0) if at is not None else None
        found.append((int(count), at))
    return found


def as_batches(batches: Sequence[tuple[int, int | None]]) -> dict[str, Any]:
    """The same as a row holds it: `at` is the first one's, and `batches` says how much later each of the others came,
    as in "12 9+204 8+199". Nothing where a time is not known, as in logs from before they were kept."""
    times = [at for _, at in batches if at is not None]
    if len(times) < len(batches):
        return {}
    counts = [str(count) for count, _ in batches]
    later = [
        f"{count}+{at - before}" for count, (before, at) in zip(counts[1:], pairwise(times), strict=True)
    ]
    return {"at": times[0], "batches": " ".join([counts[0], *later])}
