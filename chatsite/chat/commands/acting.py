"""An action, carried out for a command: its transaction, a second try for who lost a race, the task of its run.

    carry_out    an action in its transaction; what stands in the way is a `problems.Problem`
    begin_run    one that begins a run, and the run's task

The whole of `begin_run` is work of the server's own: whoever asked may leave at any moment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, DataError, IntegrityError
from django.utils.translation import gettext

from chatsite.chat import db, runner
from chatsite.chat.actions.starting import Given, Start
from chatsite.chat.agents import catalog_for
from chatsite.chat.files import attachments
from chatsite.chat.limits import allowance
from chatsite.chat.models import Run, Thread
from chatsite.chat.problems import Busy, Conflict, Invalid, Missing, NotStored, Problem
from chatsite.chat.process import draining
from chatsite.chat.process.heartbeat import PROCESS

_beginning: set[asyncio.Future[Done]] = set()


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did: the run it began or stopped, None when there was nothing to stop."""

    thread: Thread
    run: Run | None = None
    fresh: bool = True


async def start_of(
    user: Any,
    asked: str,
    stored: str = "",
    *,
    door: str,
    goes_on: bool = False,
    run_id: str | None = None,
    given: Given | None = None,
) -> Start:
    """How a run of this process begins, with the model that was asked for, else the thread's own."""
    model = (await catalog_for(user)).to_run(asked, stored, goes_on=goes_on)
    return Start(model, PROCESS, door, run_id, given or {}, (await allowance.of(user)).accounts)


async def begin_run(user: Any, action: Any, *, taken: type[Problem] = Busy, **asked: Any) -> Done:
    """Begin a run and make its task, as one piece of work of the server's own.

    Whoever asked may be cancelled at any moment (a browser that leaves); a run that is kept must be at work.
    """
    if "message" in asked:
        attachments.check_taken(asked["message"], asked["start"].model)
    work = asyncio.ensure_future(_begin_and_start(user, action, taken, asked))
    _beginning.add(work)
    work.add_done_callback(_beginning.discard)
    return await asyncio.shield(work)


async def _begin_and_start(user: Any, action: Any, taken: type[Problem], asked: dict[str, Any]) -> Done:
    with draining.beginning():
        begun = await carry_out(action, taken=taken, **asked)
        ours = begun.run.state in Run.ACTIVE and begun.run.owner == PROCESS
        if begun.fresh or (ours and not runner.is_here(begun.run.pk)):
            runner.start(begun, user)
    return Done(begun.thread, begun.run, begun.fresh)


async def carry_out(action: Any, *, taken: type[Problem] = Busy, **asked: Any) -> Any:
    """An action in its transaction. Two at once: a constraint lets one win, and the other looks once more."""
    for last_try in (False, True):
        try:
            return await db.write(action, **asked)
        except IntegrityError as error:
            if last_try:
                raise _broken_by(error, taken) from error
        except DataError as error:
            raise Invalid(gettext("This holds something that the database cannot store.")) from error
        except DatabaseError as error:
            raise NotStored from error
    raise AssertionError("unreachable")


def _broken_by(error: IntegrityError, taken: type[Problem]) -> Problem:
    """What stands in the way, by the constraint: PostgreSQL gives its name, SQLite its columns."""
    said = str(error)
    if "chat_one_active_run_a_thread" in said or said.endswith("failed: chat_run.thread_id"):
        return Busy()
    if "foreign key" in said.lower():
        return Missing()  # the thread was deleted meanwhile
    if "chat_thread" in said and "public_id" in said:
        return taken()
    return Conflict(
        gettext("Something else was stored under this id in the same moment. Send it again with another id.")
    )
