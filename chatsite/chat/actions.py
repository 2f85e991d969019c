"""What people do to a thread, one transaction each. The caller holds the transaction (`db.write`).

Idempotence: a message's client id is unique in its thread. The same send twice (a double click, a retry after a
lost answer, two tabs) finds the first one's run and makes nothing.
One active run a thread: the constraint says no to a second, and the person is told in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from agent.messages import Message
from chatsite.chat import models, store
from chatsite.chat.models import Run, Thread, new_public_id, new_run_id
from chatsite.chat.problems import Busy, Conflict, NothingToRetry

TITLE_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that somebody asked for; `fresh` is False when they had asked before.

    `first`: the message that its thread began with, when it began just now: then nothing else stands in it.
    """

    thread: Thread
    run: Run
    fresh: bool
    first: Message | None = None


def open_thread(
    *,
    owner: Any,
    public_id: str | None,
    message: Message,
    client_id: str,
    model: str,
    process: str,
    door: str,
    run_id: str | None = None,
) -> Begun:
    """A new thread with its first message. The same client id of the same user again finds the first one's."""
    known = models.Message.objects.select_related("thread", "run").filter(
        thread__owner=owner, client_id=client_id, parent=None
    )
    first = known.filter(thread__public_id=public_id).first() if public_id else known.first()
    if first is not None and first.run is not None:
        return Begun(first.thread, first.run, fresh=False)
    thread = Thread.objects.create(owner=owner, public_id=public_id or new_public_id())
    # Nobody else can know this thread yet, so what `send_message` asks for need not be asked.
    run = _begin(thread, model=model, process=process, door=door, run_id=run_id)
    _append(thread, run, message, client_id)
    return Begun(thread, run, fresh=True, first=message)


def send_message(
    *,
    thread: Thread,
    message: Message,
    client_id: str,
    model: str,
    process: str,
    door: str,
    run_id: str | None = None,
) -> Begun:
    """Keep a person's message and begin the run that answers it. Raises Busy while another run is active."""
    known = models.Message.objects.select_related("run").filter(thread=thread, client_id=client_id).first()
    if known is not None and known.run is not None:
        return Begun(thread, known.run, fresh=False)
    thread = _locked(thread)
    _check_free(thread, run_id)
    if models.Message.objects.filter(thread=thread, public_id=message.id).exists():
        raise Conflict("This thread already has another message of that id. Send it with an id of its own.")
    run = _begin(thread, model=model, process=process, door=door, run_id=run_id)
    _append(thread, run, message, client_id)
    return Begun(thread, run, fresh=True)


def retry(
    *,
    thread: Thread,
    model: str,
    process: str,
    door: str,
    message_id: str | None = None,
    run_id: str | None = None,
) -> Begun:
    """Answer a user message anew (the last one, or the one named): what stood behind it leaves the active branch.

    Nothing is deleted: the earlier answer stays a sibling in the tree.
    """
    thread = _locked(thread)
    asked = [row for row in store.active_branch(thread) if row.role == models.Message.Role.USER]
    if message_id is not None:
        asked = [row for row in asked if row.public_id == message_id]
    if not asked:
        raise NothingToRetry("There is no message here to answer again.")
    _check_free(thread, run_id)
    run = _begin(thread, model=model, process=process, door=door, run_id=run_id)
    question = asked[-1]
    question.run = run
    question.save(update_fields=["run"])
    thread.head = question
    thread.save(update_fields=["head", "model", "updated_at"])
    return Begun(thread, run, fresh=True)


def request_stop(*, thread: Thread) -> Run | None:
    """Ask the thread's active run to stop, wherever it runs. None when nothing runs."""
    run = Run.objects.filter(thread=thread, state__in=Run.ACTIVE).first()
    if run is not None and not run.stop_requested:
        run.stop_requested = True
        run.save(update_fields=["stop_requested"])
    return run


def title_from(text: str) -> str:
    """The first line of what was asked, short enough for a list."""
    line = " ".join(text.split("\n\n", 1)[0].split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rsplit(" ", 1)[0] + "…"


def _locked(thread: Thread) -> Thread:
    """The thread as it is now, held until the transaction ends (SQLite's IMMEDIATE holds everything already)."""
    return Thread.objects.select_for_update().get(pk=thread.pk)


def _check_free(thread: Thread, run_id: str | None) -> None:
    """Raises Busy or Conflict when no run of that id can begin in the thread."""
    if Run.objects.filter(thread=thread, state__in=Run.ACTIVE).exists():
        raise Busy()
    if run_id is not None and Run.objects.filter(thread=thread, public_id=run_id).exists():
        raise Conflict("This thread already has a run of that id. Start a new run with an id of its own.")


def _append(thread: Thread, run: Run, message: Message, client_id: str) -> None:
    """Put the message that the run answers at the thread's end."""
    row = store.row_of(
        message, thread_id=thread.pk, run_id=run.pk, parent_id=thread.head_id, client_id=client_id
    )
    row.save(force_insert=True)
    thread.head = row
    thread.title = thread.title or title_from(message.text)
    thread.save(update_fields=["head", "title", "model", "updated_at"])


def _begin(thread: Thread, *, model: str, process: str, door: str, run_id: str | None) -> Run:
    now = timezone.now()
    thread.model = model
    thread.updated_at = now
    return Run.objects.create(
        thread=thread,
        public_id=run_id or new_run_id(),
        state=Run.State.RUNNING,
        model=model,
        door=door,
        owner=process,
        heartbeat_at=now,
        created_at=now,
    )
