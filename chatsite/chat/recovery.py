"""What becomes of a run whose process is gone. Any living process may do it; exactly one does.

| the lost run, the first line that fits | then |
|---|---|
| was asked to stop | it ends as cancelled |
| its person's account is deactivated | it is `lost` |
| had not begun: it waited to go on with another one | this process takes it over as it is |
| went on by itself with another lost run already | it is `lost`; a person may `Continue` it |
| a program's, whose connection was its Stop (no `onDisconnect: continue`) | likewise: that connection is gone |
| any other | it is `lost`, and another run goes on with it, once, under the same model |

One transaction: the end of the lost run (`unfinished`) and the row of the one that goes on. The run's row is held in
it, as it was seen to be lost: the second process finds it changed. A constraint holds besides that no run is gone on
with twice by itself. `rounds` looks, and starts what began here.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from django.db import DatabaseError, transaction
from django.db.models import F
from django.utils import timezone

from agent.events import Cancelled, ModelUsage, RunError, RunFinished
from chatsite.chat.actions import continuing
from chatsite.chat.actions.starting import Begun, Start
from chatsite.chat.agents import agents
from chatsite.chat.limits import metering
from chatsite.chat.models import Run, Thread, new_run_id
from chatsite.chat.process.heartbeat import PROCESS, Beat
from chatsite.chat.runs import unfinished

log = logging.getLogger(__name__)

DOOR = "recovery"
LOST = "The server stopped while answering. What was written is kept; it can be continued, or tried again."
GOES_ON = "The server stopped while answering. What was written is kept, and another run goes on with it."
CONTINUED_BY = "continuedBy"
"""In the metadata of a lost run's RUN_ERROR: the id of the run that goes on with it."""

Fate = Literal["taken over", "cancelled", "lost", "continued"]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was done with a run. `begun` is to be started here, for `user`, once this is committed."""

    thread_pk: int
    fate: Fate
    begun: Begun | None = None
    user: Any = None


def active_runs() -> list[Beat]:
    """The oldest first: whoever waits longest is recovered first."""
    rows = Run.objects.filter(state__in=Run.ACTIVE).order_by("pk").values_list("pk", "owner", "beat")
    return [Beat(*row) for row in rows]


def beat_for(run_pks: list[int]) -> None:
    ours = Run.objects.filter(pk__in=run_pks, owner=PROCESS)
    ours.update(beat=F("beat") + 1, heartbeat_at=timezone.now())


def give_up(run_pks: list[int]) -> None:
    """This process goes and leaves these runs to the next one: without an owner they are lost at once."""
    ours = Run.objects.filter(pk__in=run_pks, owner=PROCESS, state__in=Run.ACTIVE)
    ours.update(owner="", heartbeat_at=None)


def recover(seen: Beat) -> Recovered | None:
    """Do what becomes of it. None when it is not as it was seen: it lives, or somebody was faster.

    The caller holds the transaction.
    """
    try:
        with transaction.atomic():
            run = unfinished.held(Run.objects.filter(pk=seen.run_pk, owner=seen.owner, beat=seen.count))
            return _recover(run) if run is not None else None
    except DatabaseError:
        raise
    except Exception:
        # Whatever its log holds (a newer version wrote it): it keeps no other from its end, and its thread is free.
        log.exception("run %s: its log could not be read; it is closed without", seen.run_pk)
        return _close_unread(seen)


def fate_of(run: Run) -> Fate:
    """The table of this file."""
    if run.stop_requested:
        return "cancelled"
    if not run.thread.owner.is_active:
        return "lost"
    automatic = run.continuation == Run.Continuation.AUTOMATIC
    if automatic and run.state == Run.State.QUEUED:
        return "taken over"
    left_alone = run.door == "api" and run.given.get("onDisconnect") != "continue"
    return "lost" if automatic or left_alone else "continued"


def _recover(run: Run) -> Recovered:
    thread, user, fate = run.thread, run.thread.owner, fate_of(run)
    match fate:
        case "taken over":
            run.owner, run.beat = PROCESS, run.beat + 1
            run.save(update_fields=["owner", "beat"])
            return Recovered(thread.pk, fate, Begun(thread, run, fresh=True), user)
        case "cancelled":
            unfinished.end(run, partial(_stopped, run))
        case "lost":
            unfinished.end(run, partial(_lost, None))
        case "continued":
            return Recovered(thread.pk, fate, _continue(run), user)
    return Recovered(thread.pk, fate)


def _continue(run: Run) -> Begun:
    run_id = new_run_id()
    unfinished.end(run, partial(_lost, run_id), goes_on=True, runs_again=_idempotent_tools())
    thread = Thread.objects.select_related("head").get(pk=run.thread_id)
    start = Start(run.model, PROCESS, DOOR, run_id)
    begun = continuing.begin_continuation(thread, run, start, Run.Continuation.AUTOMATIC)
    return Begun(thread, begun, fresh=True)


def _idempotent_tools() -> frozenset[str]:
    """A subagent is not one: what it had done inside would be done again."""
    tools = agents().tools_with()
    return frozenset(tool.name for tool in tools if tool.idempotent and tool.execute and tool.inner is None)


def _lost(continued_by: str | None, usage: tuple[ModelUsage, ...]) -> RunError:
    if continued_by is None:
        return RunError(LOST, code="lost", usage=usage)
    return RunError(GOES_ON, code="lost", usage=usage, metadata={CONTINUED_BY: continued_by})


def _stopped(run: Run, usage: tuple[ModelUsage, ...]) -> RunFinished:
    return RunFinished(
        thread_id=run.thread.public_id,
        run_id=run.public_id,
        outcome=Cancelled(),
        usage=usage,
        stop_reason="cancelled",
        model=run.model,
    )


def _close_unread(seen: Beat) -> Recovered | None:
    rows = Run.objects.filter(pk=seen.run_pk, owner=seen.owner, state__in=Run.ACTIVE)
    thread_pk = rows.values_list("thread_id", flat=True).first()
    ended = rows.update(
        state=Run.State.LOST,
        stop_reason="lost",
        error=LOST,
        error_code="lost",
        finished_at=timezone.now(),
    )
    if not ended or thread_pk is None:
        return None
    metering.settle(seen.run_pk, ())
    return Recovered(thread_pk, "lost")
