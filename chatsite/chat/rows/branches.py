"""The branches of a thread: paths of message rows from the root. `tree` has what needs no look into the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatsite.chat import models
from chatsite.chat.models import Run, Thread


def active_branch(thread: Thread) -> list[models.Message]:
    """The path from the root to the thread's head."""
    return path_to({row.pk: row for row in thread.messages.all()}, thread.head_id)


def runs_on_branch(thread: Thread) -> set[int]:
    """Keys of the runs whose messages are on the active branch. One that has none stands where its parent does."""
    here = {row.run_id for row in active_branch(thread)}
    told = set(thread.messages.values_list("run_id", flat=True))
    found: set[int] = set()
    for pk, parent in thread.runs.order_by("pk").values_list("pk", "parent_id"):
        if pk in here or (pk not in told and parent in found):
            found.add(pk)
    return found


def path_to(rows: Mapping[Any, models.Message], to: int | None) -> list[models.Message]:
    """The rows from the root to that key, out of all by key."""
    path: list[models.Message] = []
    here = rows.get(to)
    while here is not None:
        path.append(here)
        here = rows.get(here.parent_id)
    return path[::-1]


def branch_of(run: Run) -> list[models.Message]:
    """The path from the root to the run's last message; empty when a retry took over all that it had."""
    rows = {row.pk: row for row in run.thread.messages.all()}
    own = [row for row in rows.values() if row.run_id == run.pk]
    followed = {row.parent_id for row in own}
    return path_to(rows, max((row.pk for row in own if row.pk not in followed), default=None))
