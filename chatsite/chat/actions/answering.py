"""What people and programs answer to a thread's open questions and calls, and the rules by which none is asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext

from agent import InvalidRequest, ToolRegistry
from agent.approvals import Resolution, check_resolutions
from agent.messages import ToolResultPart
from agent.wire.parts import dump_parts
from chatsite.chat import models
from chatsite.chat.actions.starting import Begun, Start, begin, carrying, check_free, locked
from chatsite.chat.models import ApprovalRule, Run, Thread
from chatsite.chat.problems import Conflict, Unanswerable
from chatsite.chat.rows import branches, questions

Status = models.Interrupt.Status


def answer(
    *,
    thread: Thread,
    by: Any,
    resolutions: Sequence[Resolution],
    always: Collection[str],
    tools: ToolRegistry,
    start: Start,
) -> Begun:
    """Take a person's answers to all open questions of the thread, and begin the run that carries them out.

    All or nothing: `Unanswerable` with a code, and nothing is taken, when one of them cannot be. The same answers
    sent again find the run that carries them out. `always` names tools to allow in this thread from now on.
    """
    thread = locked(thread)
    ids = [resolution.interrupt_id for resolution in resolutions]
    rows = list(
        models.Interrupt.objects.filter(thread=thread, public_id__in=ids).select_related("resumed_by")
    )
    if (before := _answered_so_before(rows, resolutions)) is not None:
        return Begun(thread, before, fresh=False)
    if any(row.status != Status.OPEN for row in rows):
        raise Unanswerable(
            gettext("This was answered already; look at the thread for what came of it."), "already_answered"
        )
    shown = branches.runs_on_branch(thread)
    if any(row.run_id not in shown for row in rows):
        raise Unanswerable(
            gettext("This was asked on another branch of the thread. Show that branch, then answer."),
            "unknown_interrupt",
        )
    open_rows = list(
        models.Interrupt.objects.filter(thread=thread, status=Status.OPEN, run__in=shown).select_related(
            "run"
        )
    )
    now = timezone.now()
    try:
        check_resolutions([questions.interrupt_of(row) for row in open_rows], resolutions, tools, now)
    except InvalidRequest as error:
        raise Unanswerable(str(error), error.code) from None
    check_free(thread, start.run_id)
    asked_by = open_rows[-1].run
    run = begin(thread, carrying(start, asked_by), parent=asked_by)
    for resolution in resolutions:
        _answer_one(thread, resolution, by=by, run=run, now=now)
    for name in always:
        ApprovalRule.objects.get_or_create(thread=thread, tool_name=name, defaults={"created_by": by})
    thread.save(update_fields=["model", "updated_at"])
    return Begun(thread, run, fresh=True)


def take_client_results(
    *,
    thread: Thread,
    results: Sequence[ToolResultPart],
    start: Start,
) -> Begun:
    """Go on with the results of calls that the thread's client ran."""
    thread = locked(thread)
    check_free(thread, start.run_id)
    last = thread.runs.order_by("-pk").first()
    if last is not None and last.pk not in branches.runs_on_branch(thread):
        raise Conflict(
            gettext("The calls were made on another branch of the thread. Show that branch first.")
        )
    if last is None or models.Interrupt.objects.filter(thread=thread, status=Status.OPEN).exists():
        raise Unanswerable(
            gettext("Open questions are answered together with the client's results."), "missing_answer"
        )
    start = carrying(start, last)
    run = begin(
        thread, replace(start, given={**start.given, "clientResults": dump_parts(results)}), parent=last
    )
    thread.save(update_fields=["model", "updated_at"])
    return Begun(thread, run, fresh=True)


def drop_rule(*, thread: Thread, tool_name: str) -> bool:
    """Take an "always allow" back. False when there was none."""
    return bool(ApprovalRule.objects.filter(thread=thread, tool_name=tool_name).delete()[0])


def _answered_so_before(rows: list[models.Interrupt], resolutions: Sequence[Resolution]) -> Run | None:
    """The run that took exactly these answers up, when they come a second time."""
    kept = {row.public_id: questions.resolution_of(row) for row in rows if row.resumed_by is not None}
    runs = {row.resumed_by for row in rows}
    same = len(rows) == len(resolutions) and all(kept.get(each.interrupt_id) == each for each in resolutions)
    return runs.pop() if rows and same and len(runs) == 1 else None


def _answer_one(thread: Thread, resolution: Resolution, *, by: Any, run: Run, now: datetime) -> None:
    """Exactly one answer wins, also between processes: the row says `open` to the first alone."""
    won = models.Interrupt.objects.filter(
        thread=thread, public_id=resolution.interrupt_id, status=Status.OPEN
    ).update(
        status=resolution.status,
        edited_arguments=resolution.edited_args,
        reason=resolution.reason,
        answered_by=by,
        answered_at=now,
        door=run.door,
        resumed_by=run,
    )
    if not won:
        raise Unanswerable(
            gettext("This was answered already; look at the thread for what came of it."), "already_answered"
        )
