"""Runs that have ended, and calls that are settled, into the figures of their day (`chatsite.usage`). Each once.

Nobody waits for it: it is a step of the upkeep, and its mark (`booked`) is set in the transaction that adds to the
sums. So it can stop anywhere, and rows from before there were figures are counted like new ones. With it the rows of
runs and threads get the figures that lists are sorted by (`figures`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from django.db import connection, transaction

from agent.events import ModelUsage
from chatsite.chat.counting import figures
from chatsite.chat.limits import budgets
from chatsite.chat.models import Run, ToolCall
from chatsite.chat.rows import values
from chatsite.usage.booking import book
from chatsite.usage.models import Day
from chatsite.usage.tally import Tally, Use

AT_ONCE = 200
OPEN = (ToolCall.State.PROPOSED, ToolCall.State.WAITING, ToolCall.State.CLAIMED)


def step() -> bool:
    """Book some. False when there are none."""
    with transaction.atomic():
        skip = connection.features.has_select_for_update_skip_locked
        due = Run.objects.filter(booked=False, finished_at__isnull=False).exclude(state__in=Run.ACTIVE)
        due = due.select_for_update(skip_locked=skip, of=("self",)).select_related("thread")
        runs = list(due.order_by("finished_at").defer("error", "given", "receipt")[:AT_ONCE])
        if not runs:
            return False
        # Also calls that an earlier run left open: the run that settled them is here now.
        threads = {run.thread_id for run in runs}
        calls = ToolCall.objects.filter(run__thread__in=threads, booked=False).exclude(state__in=OPEN)
        settled = list(calls.only("run", "name", "state", "finished_at", "created_at", "duration_ms"))
        Run.objects.filter(pk__in=[run.pk for run in runs]).update(booked=True)
        _mark(settled)
        figures.count_runs({run.pk for run in runs} | {call.run_id for call in settled})
        figures.count_threads(threads)
        book(tally_of(runs, settled))
        return True


def tally_of(runs: Sequence[Run], calls: Sequence[ToolCall]) -> Tally:
    tally = Tally()
    for run in runs:
        assert run.finished_at is not None
        use = Use(
            day=run.finished_at.date(),
            source=Day.Source.CHAT,
            error=run.state in figures.BAD_ENDS,
            input_tokens=sum(each.get("inputTokens", 0) for each in run.usage),
            output_tokens=sum(each.get("outputTokens", 0) for each in run.usage),
            cost=run.cost or 0.0,
            ms=run.duration_ms,
        )
        only, parts = _endpoints(run, use)
        end = run.stop_reason or run.state
        tally.add(use, model=run.model, user=run.thread.owner_id, end=end, endpoint=only)
        for name, part in parts.items():
            tally.add_endpoint(part, name)
    for call in calls:
        day = (call.finished_at or call.created_at).date()
        use = Use(day, Day.Source.CHAT, error=call.state in figures.BAD_CALLS, ms=call.duration_ms)
        tally.add_tool(use, call.name)
    return tally


def _endpoints(run: Run, whole: Use) -> tuple[str, dict[str, Use]]:
    """The endpoint that had all of the run, as mostly one has; else what each had, as far as that is known."""
    used: defaultdict[str, list[ModelUsage]] = defaultdict(list)
    for each in values.used_in(run.usage):
        used[each.provider or run.provider].append(each)
    if len(used) < 2:
        return next(iter(used), run.provider), {}
    return "", {
        name: whole._replace(
            input_tokens=sum(each.usage.input_tokens for each in part),
            output_tokens=sum(each.usage.output_tokens for each in part),
            cost=budgets.cost_of(part) or 0.0,
            ms=None,
        )
        for name, part in used.items()
    }


def _mark(calls: Sequence[ToolCall]) -> None:
    for begin in range(0, len(calls), AT_ONCE):
        pks = [call.pk for call in calls[begin : begin + AT_ONCE]]
        ToolCall.objects.filter(pk__in=pks).update(booked=True)
