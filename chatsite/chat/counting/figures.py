"""What runs and threads came to, in their rows: the columns by which lists of the admin are sorted and filtered.

Rule 1: they are counted when a run or a call is booked (`booking`), in that transaction: no token waits for it.
Rule 2: until then they are null, and in no index: a run costs nothing more while somebody waits for it.
Rule 3: they are counted anew from the rows each time and not added to, so that nothing is counted twice.

    run       calls of tools; errors: those that failed, and its own end if that is one
    thread    sums of its runs that are booked
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import Count, Q, QuerySet, Sum

from chatsite.chat.models import Run, Thread, ToolCall
from chatsite.chat.models.threads import FIGURES

BAD_ENDS = (Run.State.FAILED, Run.State.LOST)
BAD_CALLS = (ToolCall.State.FAILED, ToolCall.State.UNKNOWN)
AT_ONCE = 200


def count_runs(pks: Iterable[int]) -> None:
    for some in _pieces(pks):
        counted = called_of(some)
        for run in Run.objects.filter(pk__in=some).only("pk", "state", "calls", "errors"):
            calls, errors = counted[run.pk]
            errors += run.state in BAD_ENDS
            if (run.calls, run.errors) != (calls, errors):
                Run.objects.filter(pk=run.pk).update(calls=calls, errors=errors)


def called_of(pks: Iterable[int]) -> dict[int, tuple[int, int]]:
    """The calls of each of these runs, and how many of them failed."""
    counted = dict.fromkeys(pks, (0, 0))
    calls = ToolCall.objects.filter(run__in=list(counted)).values_list("run")
    for pk, many, bad in calls.annotate(many=Count("pk"), bad=Count("pk", filter=Q(state__in=BAD_CALLS))):
        counted[pk] = many, bad
    return counted


def count_threads(pks: Iterable[int]) -> None:
    for some in _pieces(pks):
        for pk, figures in sums_of(Run.objects.filter(thread__in=some, booked=True)).items():
            Thread.objects.filter(pk=pk).update(**figures)


def sums_of(runs: QuerySet[Run]) -> dict[int, dict[str, float]]:
    """What these runs come to together, thread by thread."""
    rows = runs.order_by().values("thread").annotate(**{f"{name}_": Sum(name) for name in FIGURES})
    # PostgreSQL's sum of whole numbers is a decimal one; and nobody may have said what any of them cost.
    return {
        row["thread"]: {name: (float if name == "cost" else int)(row[f"{name}_"] or 0) for name in FIGURES}
        for row in rows
    }


def _pieces(pks: Iterable[int]) -> Iterator[list[int]]:
    left = sorted(pks)
    for place in range(0, len(left), AT_ONCE):
        yield left[place : place + AT_ONCE]
