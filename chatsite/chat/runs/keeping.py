"""The one write of the token path: batches of runs' logs, one of each run, and the rows that these complete.

    a batch's events      -> RunEvent rows; an unbroken line of deltas of one entity is one row
    messages now whole    -> Message rows behind the thread's head
    calls that changed    -> the ledger
    turns that are over   -> what their requests were
    a terminal event      -> the run's end, the stop reason on its last message, the questions it asks

All of it in one transaction, which the caller holds. On PostgreSQL a word to the database and back is what costs, so
what nobody needs an answer to is sent in one go, for all runs that have something to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from agent.events import Cancelled, Event, Interrupted, RunError, RunFinished, Terminal
from agent.messages import Message
from agent.receipts import RECEIPT
from agent.wire.agui import encode_event
from agent.wire.parts import dump_parts
from chatsite.chat import models
from chatsite.chat.limits import budgets, metering
from chatsite.chat.models import Run, RunEvent, Thread
from chatsite.chat.rows import questions, statements, values
from chatsite.chat.rows.packing import EventRow, pack
from chatsite.chat.runs import requests
from chatsite.chat.runs.ledger_rows import CallChange, write_calls

State = Run.State


class RunTaken(Exception):
    """The run has its end already, or another owner."""


EVENT = ("run_id", "first", "number", "type", "data")


@dataclass(frozen=True, slots=True)
class Batch:
    """A piece of a run's log, from event `first` on, and what it completes.

    `head` is the key of the message that the thread ends with: only its active run moves it. `inserted` are
    results of calls that somebody spoke over, each with the id of the message that it stands before; `rewritten` are
    messages of earlier runs that this run changed (a call whose arguments a person edited). `provider` answered
    last. `owner` is the process
    that writes, None for whoever holds the run's row. `began` is when the run did. What a
    `metered` run used is settled with its end.
    """

    run_pk: int
    thread_pk: int
    head: int | None
    first: int
    events: tuple[Event, ...]
    messages: tuple[Message, ...] = ()
    inserted: tuple[tuple[Message, str], ...] = ()
    rewritten: tuple[Message, ...] = ()
    calls: tuple[CallChange, ...] = ()
    turns: int = 0
    provider: str = ""
    requests: tuple[requests.Note, ...] = ()
    began: datetime | None = None
    owner: str | None = None
    metered: bool = False
    at: datetime = field(default_factory=timezone.now)

    @property
    def terminal(self) -> RunFinished | RunError | None:
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Terminal) else None

    @property
    def last_said(self) -> Message | None:
        return next((each for each in reversed(self.messages) if each.role == "assistant"), None)


def keep(batches: Sequence[Batch]) -> list[int | None]:
    """Write batches, each of another run; of each the head of its thread behind it. All are kept or none.

    The caller holds the transaction. Raises RunTaken when a run is not its writer's any more: that was away for so long
    that another process has closed the run, and the thread may have gone on.
    """
    turns = _hold(batches)
    keys = statements.keys(models.Message, sum(len(batch.messages) for batch in batches))
    with statements.in_one_go():
        statements.add_many(RunEvent, EVENT, [row for batch in batches for row in _rows(batch)])
        heads = [_write(batch, turns[batch.run_pk], keys) for batch in batches]
    for batch in batches:
        _complete(batch)
    return heads


def _hold(batches: Sequence[Batch]) -> dict[int, int]:
    """How many turns their rows tell of; until the transaction ends nobody else ends them."""
    runs = {batch.run_pk: batch for batch in batches}
    turns = {}
    for run_pk, state, owner, known in statements.hold(Run, ("id", "state", "owner", "turns"), sorted(runs)):
        if state in Run.ACTIVE and runs[run_pk].owner in (owner, None):
            turns[run_pk] = known
    for run_pk in runs:
        if run_pk not in turns:
            raise RunTaken(run_pk)
    return turns


def _rows(batch: Batch) -> list[EventRow]:
    return pack(batch.run_pk, batch.first, batch.events, batch.at)


def _write(batch: Batch, turns: int, keys: Iterator[int | None]) -> int | None:
    """What needs no answer; the thread's head behind it."""
    changed = _end_of(batch) | ({"turns": batch.turns} if batch.turns != turns else {})
    if changed:
        statements.change(Run, changed, batch.run_pk)
    head = _append_messages(batch, keys)
    if batch.calls:
        write_calls(batch.calls, run_pk=batch.run_pk, at=batch.at)
    for note in batch.requests:
        requests.keep(batch.run_pk, note)
    return head


def _complete(batch: Batch) -> None:
    """What looks at rows before it writes."""
    for message, before in batch.inserted:
        _insert_message(batch, message, before)
    for message in batch.rewritten:
        _rewrite_message(batch, message)
    if batch.terminal is not None:
        _close(batch, batch.terminal)
        if batch.metered:
            metering.settle(batch.run_pk, batch.terminal.usage)


def _append_messages(batch: Batch, keys: Iterator[int | None]) -> int | None:
    head = batch.head
    for message in batch.messages:
        columns = values.columns_of(
            message, thread_id=batch.thread_pk, run_id=batch.run_pk, parent_id=head, created_at=batch.at
        )
        if batch.terminal is not None and message is batch.last_said:
            columns["metadata"]["stopReason"] = ending_of(batch.terminal).stop_reason
        head = statements.add(models.Message, columns, next(keys))
    changed = {"head": head} if batch.messages else {}
    if batch.terminal is not None:
        changed["updated_at"] = batch.at  # lists are in the order of what somebody said, and of what is done
    if changed:
        statements.change(Thread, changed, batch.thread_pk)
    return head


def _rewrite_message(batch: Batch, message: Message) -> None:
    row = models.Message.objects.get(thread_id=batch.thread_pk, public_id=message.id)
    ours = {key: row.metadata[key] for key in values.ROW_ONLY if key in row.metadata}
    row.parts, row.metadata = dump_parts(message.parts), {**message.metadata, **ours}
    row.save(update_fields=["parts", "metadata"])


def _insert_message(batch: Batch, message: Message, before: str) -> None:
    """Put a message into the tree in front of another: behind its call, though somebody has spoken since."""
    follower = models.Message.objects.get(thread_id=batch.thread_pk, public_id=before)
    row = values.row_of(
        message,
        thread_id=batch.thread_pk,
        run_id=batch.run_pk,
        parent_id=follower.parent_id,
        created_at=batch.at,
    )
    statements.insert(row)
    models.Message.objects.filter(pk=follower.pk).update(parent=row)


def _end_of(batch: Batch) -> dict[str, Any]:
    """What the end of a run sets in its row."""
    event = batch.terminal
    if event is None:
        return {}
    ending, ended = ending_of(event), values.told_at(event)
    return {
        "provider": batch.provider[:100],
        "tokens": sum(each.usage.total_tokens for each in event.usage),
        "cost": budgets.cost_of(event.usage),
        "state": ending.state,
        "stop_reason": ending.stop_reason[:100],
        "finish_reason": ending.finish_reason,
        "error": ending.error,
        "error_code": ending.error_code[:100],
        "usage": encode_event(event).get("usage", []),
        "receipt": (event.metadata or {}).get(RECEIPT, {}),
        "finished_at": ended,
        "duration_ms": max(0, values.lasted_ms(batch.began, ended)) if batch.began else None,
    }


def _close(batch: Batch, event: RunFinished | RunError) -> None:
    """What the end of a run means beside its row: the questions it asks, the reason on its last message."""
    if isinstance(event, RunFinished) and isinstance(event.outcome, Interrupted):
        models.Interrupt.objects.bulk_create(
            questions.row_of(interrupt, run_id=batch.run_pk, thread_id=batch.thread_pk, created_at=batch.at)
            for interrupt in event.outcome.interrupts
        )
    if batch.last_said is not None:
        return  # its row has the reason already
    newest = models.Message.objects.filter(run_id=batch.run_pk, role="assistant").order_by("-pk").first()
    if newest is not None:
        newest.metadata = {**newest.metadata, "stopReason": ending_of(event).stop_reason}
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
        why = str((event.metadata or {}).get("abortReason", ""))
        return Ending(State.CANCELLED, event.stop_reason, finish_reason, error=why)
    if isinstance(event.outcome, Interrupted):
        return Ending(State.INTERRUPTED, event.stop_reason, finish_reason)
    return Ending(State.FINISHED, event.stop_reason, finish_reason)
