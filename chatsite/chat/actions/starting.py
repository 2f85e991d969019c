"""How a run begins, whichever action begins it: in a thread that is held and free, behind what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext

from agent.messages import Message
from chatsite.chat import models
from chatsite.chat.files import attachments, references
from chatsite.chat.limits import metering
from chatsite.chat.models import Run, Thread, new_run_id
from chatsite.chat.problems import Busy, Conflict, Missing
from chatsite.chat.rows import statements, values
from chatsite.policies.quotas import Account

TITLE_LENGTH = 60

Status = models.Interrupt.Status

Given = dict[str, Any]
"""What a run begins with besides messages, as JSON: `choices` (the thread's, unless it brings its own), `clientTools`
(specs), `clientResults` (parts), `onDisconnect` (`continue`: it outlives its client's connection)."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a run is to begin: with which model, in which process, by which door, under which id (None: a new one)."""

    model: str
    process: str
    door: str
    run_id: str | None = None
    given: Given = field(default_factory=dict)
    accounts: tuple[Account, ...] = ()
    """Whose limits it is counted on."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that somebody asked for; `fresh` is False when they had asked before.

    `first`: the message that its thread began with, when it began just now: then nothing else stands in it.
    """

    thread: Thread
    run: Run
    fresh: bool
    first: Message | None = None


def locked(thread: Thread) -> Thread:
    """The thread as it is now, held until the transaction ends (SQLite's IMMEDIATE holds everything already).

    Raises Missing when it was thrown away, or removed, since it was looked up.
    """
    row = Thread.objects.select_for_update().filter(pk=thread.pk, deleted_at=None).first()
    if row is None:
        raise Missing
    return row


def check_free(thread: Thread, run_id: str | None) -> None:
    """Raises Busy or Conflict when no run of that id can begin in the thread."""
    if Run.objects.filter(thread=thread, state__in=Run.ACTIVE).exists():
        raise Busy()
    if run_id is not None and Run.objects.filter(thread=thread, public_id=run_id).exists():
        raise Conflict(
            gettext("This thread already has a run of that id. Start a new run with an id of its own.")
        )


def begin(
    thread: Thread,
    start: Start,
    *,
    parent: Run | None = None,
    continuation: str = Run.Continuation.NONE,
) -> Run:
    now = timezone.now()
    thread.model = start.model
    thread.updated_at = now
    given = {"choices": thread.choices, **start.given}
    if not given["choices"]:
        del given["choices"]
    if start.accounts:
        given[metering.METERED] = True
    run = Run(
        thread=thread,
        public_id=start.run_id or new_run_id(),
        # One that goes on by itself waits for its turn: a thousand may do so at once.
        state=Run.State.QUEUED if continuation == Run.Continuation.AUTOMATIC else Run.State.RUNNING,
        model=start.model,
        door=start.door,
        parent=parent,
        continuation=continuation,
        given=given,
        owner=start.process,
        heartbeat_at=now,
        created_at=now,
    )
    statements.insert(run)
    if start.accounts:
        metering.admit(run, thread, start.accounts)
    return run


def carrying(start: Start, run: Run, *more: str) -> Start:
    """A run that takes another one up has that one's choices and client tools, unless it brings its own."""
    carried = {key: run.given[key] for key in ("clientTools", *more) if key in run.given}
    choices = run.given.get("choices", {})  # also when it had none: its thread may have other ones by now
    return replace(start, given={"choices": choices, **carried, **start.given})


def append(thread: Thread, run: Run, message: Message, client_id: str) -> None:
    """Put the message that the run answers at the thread's end."""
    row = values.row_of(
        message, thread_id=thread.pk, run_id=run.pk, parent_id=thread.head_id, client_id=client_id
    )
    statements.insert(row)
    attachments.use(thread, [message])
    thread.head = row
    thread.title = thread.title or title_from(message.text or references.names_in(message))
    changed = {name: getattr(thread, name) for name in ("head_id", "title", "model", "updated_at")}
    statements.change(Thread, changed, thread.pk)


def title_from(text: str) -> str:
    """The first line of what was asked, short enough for a list."""
    line = " ".join(text.split("\n\n", 1)[0].split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rsplit(" ", 1)[0] + "…"


def withdraw_questions(thread: Thread, run: Run) -> None:
    """Whoever goes on without answering has cancelled what was asked."""
    models.Interrupt.objects.filter(thread=thread, status=Status.OPEN).update(
        status=Status.CANCELLED, answered_at=timezone.now(), door=run.door, resumed_by=run
    )
