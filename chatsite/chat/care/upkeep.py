"""What becomes of a run's log when the run has ended. Nobody waits for it, and it can stop anywhere.

    whole     as the token path kept it: a row for each batch of a text
    folded    an unbroken line of deltas of one entity is one row, whichever batches it came in, and one text in it
    pruned    `EVENTS_KEEP_DAYS` after the end: its terminal event alone, which stands for all of it; without what its
              turns received (`responses`)

Rule 1: event numbers keep their meaning, so a cursor into any of the three is good. A folded line knows the size of
each delta; of a pruned log a reader gets RUN_STARTED, the messages up to the run's last one as MESSAGES_SNAPSHOT,
and the end (`kept_log.events_after`). A snapshot replaces what a reader has, so half a log and the snapshot behind it
are no word too much.
Rule 2: only the log of a run that has ended is touched, and that grows no more.
Rule 3: one step is one short transaction on one run, whose row it holds: several processes share the work.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import cycle, groupby
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from agent.wire import jsontext
from chatsite.care import holds, housework
from chatsite.chat import db
from chatsite.chat.actions import organizing, steering
from chatsite.chat.care import retention
from chatsite.chat.conf import setting
from chatsite.chat.files import removing
from chatsite.chat.models import Run, RunEvent
from chatsite.chat.rows import packing
from chatsite.chat.runs import requests

log = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between two looks for work."""

SHARE = 0.1
"""Of the time, at most, that the steps of one process take."""

ROWS_A_STEP = 500
LONGEST_KEEP = 36_500
"""Days. What is beyond that is for ever, and more than a date can tell."""

_shards = cycle(removing.SHARDS)

REPLACE = "UPDATE chat_runevent SET first = %s, data = %s WHERE id = %s"
JOBS = (
    organizing.remove_deleted,
    steering.remove_deleted,
    removing.remove_unused,
    requests.remove_unused,
    retention.throw_away_old,
)
DELTAS = {"TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS"}
OF_ITS_DELTAS = {"delta", "sizes", "at", "batches"}
ENDS = {"RUN_FINISHED", "RUN_ERROR"}


async def keep_house() -> None:
    """Step by step whenever there is work, for as long as the process lives."""
    while True:
        await asyncio.sleep(EVERY)
        try:
            await _work_off()
            await db.aside(sweep_next)
        except Exception:
            # As with the rounds: whatever one run or a database that is away has, the next look tries again.
            log.warning("upkeep failed; it is tried again in %s s", EVERY, exc_info=True)


async def _work_off() -> None:
    for job in housework.steps().values():
        await _work_off_one(job)


async def _work_off_one(job: Callable[[], bool]) -> None:
    worked = True
    while worked:
        began = time.monotonic()
        worked = await db.aside(job)
        await asyncio.sleep((time.monotonic() - began) / SHARE)


def step() -> bool:
    """Fold a piece of one log, prune one, remove a piece of what was deleted, what nobody has, or what is too old.

    False when there is nothing to do.
    """
    with transaction.atomic():
        run = _first_free(_ended().filter(log=Run.Log.WHOLE))
        if run is not None:
            _fold(run)
            return True
        due = _ended().filter(log=Run.Log.FOLDED, finished_at__lt=_keep_since())
        run = _first_free(holds.free(due, "thread__owner", "thread__public_id"))
        if run is not None:
            _prune(run)
            return True
        return any(job() for job in JOBS)


def sweep_next() -> None:
    """Look through one of the folders with attached files, another one each time."""
    removing.sweep(next(_shards))


def _ended() -> QuerySet[Run]:
    return Run.objects.filter(finished_at__isnull=False).exclude(state__in=Run.ACTIVE)


def _first_free(runs: QuerySet[Run]) -> Run | None:
    """The oldest that no other process has in its hands."""
    skip = connection.features.has_select_for_update_skip_locked
    return runs.select_for_update(skip_locked=skip).only("pk", "log").order_by("finished_at").first()


def _keep_since() -> Any:
    return timezone.now() - timedelta(days=min(setting("EVENTS_KEEP_DAYS"), LONGEST_KEEP))


# -- folding -------------------------------------------------------------------------------------------------


def _fold(run: Run) -> None:
    """Fold the first rows that can be folded; the next step goes on behind them."""
    place = 0
    while True:
        rows = list(RunEvent.objects.filter(run=run, number__gt=place).order_by("number")[:ROWS_A_STEP])
        lines = [line for line in lines_of(rows) if len(line) > 1 or _is_list(line[0])]
        if lines:
            for line in lines:
                _make_one(line)
            return
        if len(rows) < ROWS_A_STEP:
            run.log = Run.Log.FOLDED
            run.save(update_fields=["log"])
            return
        place = rows[-2].number  # the last one may begin a line that goes on


def lines_of(rows: Sequence[RunEvent]) -> list[list[RunEvent]]:
    """The rows, in order, with those together that grow the same entity and follow each other."""
    return [list(line) for _, line in groupby(rows, key=_grows)]


def _grows(row: RunEvent) -> object:
    """What the row's deltas grow; for a row that stands alone, a key that no other has."""
    if row.type not in DELTAS or "metadata" in row.data:
        return row.number
    return sorted((key, value) for key, value in row.data.items() if key not in OF_ITS_DELTAS)


def _is_list(row: RunEvent) -> bool:
    """A line that came in one batch: its deltas take less room as one text."""
    return isinstance(row.data.get("delta"), list)


def _make_one(line: list[RunEvent]) -> None:
    """The line as its last row, which has the right number already."""
    deltas = [delta for row in line for delta in packing.deltas_of(row.data)]
    sizes = " ".join(str(len(delta)) for delta in deltas)
    times = packing.as_batches([batch for row in line for batch in packing.batches_of(row.data)])
    grown = {key: value for key, value in line[-1].data.items() if key not in OF_ITS_DELTAS}
    data = jsontext.dump({**grown, "delta": "".join(deltas), "sizes": sizes, **times})
    RunEvent.objects.filter(pk__in=[row.pk for row in line[:-1]]).delete()
    with connection.cursor() as cursor:
        # Past the ORM, whose JSON writes six bytes for each letter that is not ASCII.
        cursor.execute(REPLACE, [line[0].first, data, line[-1].pk])


# -- pruning -------------------------------------------------------------------------------------------------


def _prune(run: Run) -> None:
    """Leave the end alone. A log without one (it could not be read when its run was closed) stays as it is."""
    end = RunEvent.objects.filter(run=run).order_by("-number").first()
    # Of a log of two, a start and an end, nothing would be gained; and the snapshot needs a number between them.
    if end is not None and end.type in ENDS and end.number > 2:
        RunEvent.objects.filter(run=run, number__lt=end.number).delete()
        end.first = 1
        end.save(update_fields=["first"])
    run.turn_rows.exclude(response=None).update(response=None)
    run.log = Run.Log.PRUNED
    run.save(update_fields=["log"])
