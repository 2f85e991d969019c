"""Rows <-> values.

Rule: while a run is active, its log is the truth about it, and its message rows (but for the user's, which began
it) are left aside when a thread is read. When it has ended, the message rows are the truth. Both are the same
fold, `agent.reducer.apply`, so a reader cannot tell which one it got.

`keep` is the one write of the token path: a batch of a run's log, and the rows that this batch completes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from django.db.models import Max
from django.utils import timezone

from agent.events import (
    Cancelled,
    Event,
    Interrupted,
    ReasoningMessageContent,
    RunError,
    RunFinished,
    Terminal,
    TextMessageContent,
    ToolCallArgs,
)
from agent.messages import Message, Transcript, Usage
from agent.reducer import apply
from agent.wire.agui import decode_event, encode_event
from agent.wire.parts import dump_parts, load_parts
from chatsite.chat import models
from chatsite.chat.models import Run, RunEvent, Thread, ToolCall
from chatsite.chat.state import RunView, Segment, ThreadState

State = Run.State

# What a message row's metadata says besides what the message does, so that a query finds it there.
ROW_ONLY = ("finishReason", "stopReason")

# -- cursors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a thread's logs: behind event `number` of run `run_id`."""

    run_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.run_id}:{self.number}"


def parse_cursor(text: str) -> Cursor | None:
    """None when it is no cursor: whoever sent it is then told everything from the start."""
    run_id, _, number = text.rpartition(":")
    return Cursor(run_id, int(number)) if run_id and number.isascii() and number.isdigit() else None


# -- reading -------------------------------------------------------------------------------------------------


def load_state(thread: Thread, until: Cursor | None = None) -> ThreadState:
    """What a reader of the thread sees; with `until`, what one saw who had read so far.

    With an `until` that names no run of the active branch the state has no segments and an empty cursor.
    """
    rows = active_branch(thread)
    runs = {run.pk: run for run in thread.runs.all()}
    last = max(runs.values(), key=lambda run: run.pk, default=None)
    groups = _by_run(rows)
    if last is not None and last.state in Run.ACTIVE and (not groups or groups[-1][0] != last.pk):
        groups.append((last.pk, []))

    if until is not None:
        places = [
            place for place, (pk, _) in enumerate(groups) if pk in runs and runs[pk].public_id == until.run_id
        ]
        if not places:
            return ThreadState(thread.public_id, thread.title)
        groups = groups[: places[-1] + 1]

    segments: list[Segment] = []
    cursor = ""
    for place, (pk, messages) in enumerate(groups):
        run = runs.get(pk)
        newest = place == len(groups) - 1
        if run is None:
            segments.append(Segment(RunView(id="", state=State.FINISHED), tuple(map(message_of, messages))))
        elif newest and (run.state in Run.ACTIVE or until is not None):
            segment, number = _replay(run, segments, messages, until.number if until else None)
            segments.append(segment)
            cursor = str(Cursor(run.public_id, number))
        else:
            segments.append(Segment(view_of(run), tuple(map(message_of, messages))))
    if not cursor and last is not None:
        cursor = str(Cursor(last.public_id, last_number(last.pk)))
    return ThreadState(thread.public_id, thread.title, tuple(segments), cursor)


def load_transcript(thread: Thread) -> Transcript:
    """The messages of the active branch, as the model will read them."""
    return transcript_of(load_state(thread))


def transcript_of(state: ThreadState) -> Transcript:
    return Transcript(tuple(message for segment in state.segments for message in segment.messages))


def active_branch(thread: Thread) -> list[models.Message]:
    """The path from the root to the thread's head."""
    rows = {row.pk: row for row in thread.messages.all()}
    path: list[models.Message] = []
    here = rows.get(thread.head_id)
    while here is not None:
        path.append(here)
        here = rows.get(here.parent_id)
    return path[::-1]


def events_after(run_pk: int, number: int, up_to: int | None = None) -> list[tuple[int, Event]]:
    """The kept events of a run behind `number`, each with its own number."""
    rows = RunEvent.objects.filter(run_id=run_pk, number__gt=number).order_by("number")
    return [
        (at, event)
        for row in rows
        for at, event in _unpack(row)
        if at > number and (up_to is None or at <= up_to)
    ]


def last_number(run_pk: int) -> int:
    return RunEvent.objects.filter(run_id=run_pk).aggregate(last=Max("number"))["last"] or 0


def next_run(thread_pk: int, after: int) -> Run | None:
    """The first run of the thread that began after the one with key `after`."""
    return Run.objects.filter(thread_id=thread_pk, pk__gt=after).order_by("pk").first()


def view_of(run: Run) -> RunView:
    usage = sum((_usage_of(entry) for entry in run.usage), Usage())
    return RunView(
        id=run.public_id,
        state=run.state,
        stop_reason=run.stop_reason,
        error=run.error,
        error_code=run.error_code,
        model=run.model,
        usage=usage,
        duration_ms=lasted_ms(run.created_at, run.finished_at) if run.finished_at else None,
    )


def lasted_ms(began: datetime, ended: datetime) -> int:
    return round((ended - began).total_seconds() * 1000)


def told_at(event: Event) -> datetime:
    """When the event was told, by its own clock, so that rows and memory agree to the millisecond."""
    assert event.timestamp is not None
    return datetime.fromtimestamp(event.timestamp / 1000, tz=UTC)


def message_of(row: models.Message) -> Message:
    return Message(
        id=row.public_id,
        role=row.role,
        parts=load_parts(row.parts),
        finish_reason=row.finish_reason or None,
        metadata={key: value for key, value in row.metadata.items() if key not in ROW_ONLY},
    )


def row_of(
    message: Message, *, thread_id: int, run_id: int | None, parent_id: int | None, **extra: Any
) -> models.Message:
    metadata = dict(message.metadata)
    if message.role == "assistant":
        metadata["finishReason"] = message.finish_reason
    return models.Message(
        public_id=message.id,
        thread_id=thread_id,
        run_id=run_id,
        parent_id=parent_id,
        role=message.role,
        parts=dump_parts(message.parts),
        text=message.text,
        finish_reason=message.finish_reason,
        metadata=metadata,
        **extra,
    )


def _by_run(rows: list[models.Message]) -> list[tuple[int | None, list[models.Message]]]:
    groups: list[tuple[int | None, list[models.Message]]] = []
    for row in rows:
        if not groups or groups[-1][0] != row.run_id:
            groups.append((row.run_id, []))
        groups[-1][1].append(row)
    return groups


def _replay(
    run: Run, before: list[Segment], rows: list[models.Message], number: int | None
) -> tuple[Segment, int]:
    """The run's segment as its log tells it, up to `number`; and the number it is at."""
    events = events_after(run.pk, 0, number)
    asked = tuple(message_of(row) for row in rows if row.role == models.Message.Role.USER)
    earlier = tuple(message for segment in before for message in segment.messages)
    folded = reduce(apply, (event for _, event in events), Transcript(earlier + asked))
    over = bool(events) and isinstance(events[-1][1], Terminal)
    view = (
        view_of(run) if over else replace(view_of(run), state=State.RUNNING, stop_reason="", duration_ms=None)
    )
    return Segment(view, folded.messages[len(earlier) :]), events[-1][0] if events else 0


def _unpack(row: RunEvent) -> Iterator[tuple[int, Event]]:
    if row.first == row.number:
        yield row.number, decode_event(row.data)
        return
    for offset, delta in enumerate(row.data["delta"]):
        yield row.first + offset, decode_event({**row.data, "delta": delta})


def _usage_of(entry: dict[str, Any]) -> Usage:
    return Usage(
        entry.get("inputTokens", 0),
        entry.get("outputTokens", 0),
        entry.get("reasoningTokens", 0),
        entry.get("cachedInputTokens", 0),
        entry.get("cacheWriteInputTokens", 0),
    )


# -- writing -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallChange:
    """What one batch says about one call's row; None leaves a column as it is."""

    call_id: str
    name: str
    arguments: str
    state: str
    claimed_at: datetime | None = None
    result: str = ""
    error_code: str = ""
    finished_at: datetime | None = None
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A piece of a run's log, from event `first` on, and what it completes."""

    run_pk: int
    thread_pk: int
    first: int
    events: tuple[Event, ...]
    messages: tuple[Message, ...] = ()
    calls: tuple[CallChange, ...] = ()
    turns: int = 0
    at: datetime = field(default_factory=timezone.now)


def keep(batch: Batch) -> None:
    """Write a batch. The caller holds the transaction, so all of it is kept or nothing."""
    RunEvent.objects.bulk_create(_pack(batch.run_pk, batch.first, batch.events))
    if batch.messages:
        _append_messages(batch)
    if batch.calls:
        _write_calls(batch)
    if batch.events and isinstance(batch.events[-1], Terminal):
        _end_run(batch, batch.events[-1])


def _append_messages(batch: Batch) -> None:
    thread = Thread.objects.only("pk", "head_id").get(pk=batch.thread_pk)
    head = thread.head_id
    for message in batch.messages:
        row = row_of(
            message, thread_id=batch.thread_pk, run_id=batch.run_pk, parent_id=head, created_at=batch.at
        )
        row.save(force_insert=True)
        head = row.pk
    Thread.objects.filter(pk=batch.thread_pk).update(head_id=head, updated_at=batch.at)


def _write_calls(batch: Batch) -> None:
    ToolCall.objects.bulk_create(
        [
            ToolCall(
                run_id=batch.run_pk,
                call_id=change.call_id,
                name=change.name[:200],
                state=change.state,
                arguments=change.arguments,
                result=change.result,
                error_code=change.error_code,
                created_at=batch.at,
                claimed_at=change.claimed_at,
                finished_at=change.finished_at,
                duration_ms=change.duration_ms,
            )
            for change in batch.calls
        ],
        update_conflicts=True,
        unique_fields=["run", "call_id"],
        update_fields=[
            "state",
            "arguments",
            "result",
            "error_code",
            "claimed_at",
            "finished_at",
            "duration_ms",
        ],
    )


def _end_run(batch: Batch, event: RunFinished | RunError) -> None:
    ending = ending_of(event)
    Run.objects.filter(pk=batch.run_pk).update(
        state=ending.state,
        stop_reason=ending.stop_reason[:100],
        finish_reason=ending.finish_reason,
        error=ending.error,
        error_code=ending.error_code[:100],
        usage=encode_event(event).get("usage", []),
        turns=batch.turns,
        finished_at=told_at(event),
    )
    newest = models.Message.objects.filter(run_id=batch.run_pk, role="assistant").order_by("-pk").first()
    if newest is not None:
        newest.metadata = {**newest.metadata, "stopReason": ending.stop_reason}
        newest.save(update_fields=["metadata"])


@dataclass(frozen=True, slots=True)
class Ending:
    state: str
    stop_reason: str
    finish_reason: str = ""
    error: str = ""
    error_code: str = ""


def ending_of(event: RunFinished | RunError) -> Ending:
    """How a run's terminal event stands in its row."""
    if isinstance(event, RunError):
        code = event.code or "internal_error"
        return Ending(
            State.LOST if code == "lost" else State.FAILED, code, error=event.message, error_code=code
        )
    finish_reason = event.finish_reason or ""
    if isinstance(event.outcome, Cancelled):
        return Ending(State.CANCELLED, event.stop_reason, finish_reason)
    if isinstance(event.outcome, Interrupted):
        return Ending(State.INTERRUPTED, event.stop_reason, finish_reason)
    return Ending(State.FINISHED, event.stop_reason, finish_reason)


def _pack(run_pk: int, first: int, events: Sequence[Event]) -> list[RunEvent]:
    """One row an event; an unbroken line of deltas of one entity is one row."""
    rows: list[RunEvent] = []
    for key, group in _lines(events):
        number = first + len(group) - 1
        data = encode_event(group[0])
        if key is not None and len(group) > 1:
            data = {**data, "delta": [event.delta for event in group]}  # type: ignore[union-attr]
        rows.append(RunEvent(run_id=run_pk, first=first, number=number, type=data["type"], data=data))
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
