"""A run's log as it was kept, read from any place in it.

A log that was pruned is one row, its terminal event; a reader has all it needs once it has the snapshot that stands
for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from django.db.models import Max

from agent.events import Event, MessagesSnapshot, RunStarted
from agent.wire.agui import decode_event
from chatsite.chat.models import Run, RunEvent
from chatsite.chat.rows.branches import branch_of
from chatsite.chat.rows.packing import stands_for_a_log, unpack
from chatsite.chat.rows.values import message_of


def events_after(
    run_pk: int, number: int, up_to: int | None = None, *, at_most: int | None = None
) -> list[tuple[int, Event]]:
    """The kept events of a run behind `number`, each with its own number; the first `at_most` of them."""
    rows = RunEvent.objects.filter(run_id=run_pk, number__gt=number).order_by("number")
    rows = (rows if up_to is None else rows.filter(first__lte=up_to))[:at_most]
    events = (
        (at, event)
        for row in rows
        for at, event in _events_of(row, number)
        if at > number and (up_to is None or at <= up_to)
    )
    return list(islice(events, at_most))


def last_number(run_pk: int) -> int:
    return RunEvent.objects.filter(run_id=run_pk).aggregate(last=Max("number"))["last"] or 0


def snapshot_in_gap(run_pk: int, number: int) -> tuple[MessagesSnapshot, ...]:
    """For a reader at a place that the log has not, though it goes on behind it: what was told there was lost with its
    server. Empty for one whose place is known."""
    rows = RunEvent.objects.filter(run_id=run_pk)
    if rows.filter(first__lte=number, number__gte=number).exists():
        return ()
    run = Run.objects.select_related("thread").get(pk=run_pk)
    return (MessagesSnapshot(messages=tuple(map(message_of, branch_of(run)))),)


def next_run(thread_pk: int, after: int) -> Run | None:
    """The first run of the thread that began after the one with key `after`."""
    return Run.objects.filter(thread_id=thread_pk, pk__gt=after).order_by("pk").first()


def _events_of(row: RunEvent, after: int = 0) -> Iterator[tuple[int, Event]]:
    return _rebuilt(row) if stands_for_a_log(row) else unpack(row, after)


def _rebuilt(end: RunEvent) -> Iterator[tuple[int, Event]]:
    """What stands for a pruned log, as it is told."""
    run = Run.objects.select_related("thread", "parent").get(pk=end.run_id)
    yield (
        1,
        RunStarted(
            thread_id=run.thread.public_id,
            run_id=run.public_id,
            parent_run_id=run.parent.public_id if run.parent else None,
            timestamp=round(run.created_at.timestamp() * 1000),
            metadata={"continuation": run.continuation} if run.continuation else None,
        ),
    )
    messages = tuple(map(message_of, branch_of(run)))
    if messages:
        yield end.number - 1, MessagesSnapshot(messages=messages)
    yield end.number, decode_event(end.data)
