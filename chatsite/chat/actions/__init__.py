"""What people do to a thread, one transaction each. The caller holds the transaction (`db.write`).

Idempotence: a message's client id is unique in its thread. The same send twice (a double click, a retry after a
lost answer, two tabs) finds the first one's run and makes nothing.
One active run a thread: the constraint says no to a second, and the person is told in words.

    (here)       a message and the run that answers it; Retry; Stop
    answering    questions and calls that a run left open
    continuing   a run that was lost
    steering     branches: edit, switch, delete, take back, fork
    organizing   threads as a whole          choosing   how a thread answers, presets
    starting     how a run begins, which they share
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.utils.translation import gettext

from agent.messages import Message
from chatsite.chat import models
from chatsite.chat.actions.starting import Begun, Start, append, begin, check_free, locked, withdraw_questions
from chatsite.chat.files import references
from chatsite.chat.models import Run, Thread, new_public_id
from chatsite.chat.problems import Conflict, NothingToRetry
from chatsite.chat.rows import branches, statements, values

# In SQL, as each new thread asks it and mostly finds nothing.
FIRST_MESSAGE = """
    SELECT message.id FROM chat_message message JOIN chat_thread thread ON thread.id = message.thread_id
    WHERE message.client_id = %s AND message.parent_id IS NULL AND thread.owner_id = %s
"""
OF_THREAD = "AND thread.public_id = %s"


def open_thread(
    *,
    owner: Any,
    public_id: str | None,
    message: Message,
    client_id: str,
    start: Start,
    choices: Mapping[str, Any] | None = None,
) -> Begun:
    """A new thread with its first message. The same client id of the same user again finds the first one's."""
    if connection.features.has_select_for_update:
        # Two processes may get the two halves of a double click; SQLite lets only one of them write anyway.
        get_user_model().objects.select_for_update().only("pk").get(pk=owner.pk)
    first = _first_message(owner, public_id, client_id)
    if first is not None and first.run is not None:
        check_same(first, message)
        return Begun(first.thread, first.run, fresh=False)
    thread = Thread(owner=owner, public_id=public_id or new_public_id(), choices=dict(choices or {}))
    statements.insert(thread)
    # Nobody else can know this thread yet, so what `send_message` asks for need not be asked.
    run = begin(thread, start)
    append(thread, run, message, client_id)
    return Begun(thread, run, fresh=True, first=message)


def send_message(
    *,
    thread: Thread,
    message: Message,
    client_id: str,
    start: Start,
) -> Begun:
    """Keep a person's message and begin the run that answers it. Raises Busy while another run is active."""
    known = models.Message.objects.select_related("run").filter(thread=thread, client_id=client_id).first()
    if known is not None and known.run is not None:
        check_same(known, message)
        return Begun(thread, known.run, fresh=False)
    thread = locked(thread)
    check_free(thread, start.run_id)
    check_new(thread, message)
    return ask(thread, message, client_id, start)


def check_new(thread: Thread, message: Message) -> None:
    if models.Message.objects.filter(thread=thread, public_id=message.id).exists():
        raise Conflict(
            gettext("This thread already has another message of that id. Send it with an id of its own.")
        )


def ask(thread: Thread, message: Message, client_id: str, start: Start) -> Begun:
    """Put a person's message behind the head of a thread that is held and free, and begin the run that answers it."""
    run = begin(thread, start)
    withdraw_questions(thread, run)
    append(thread, run, message, client_id)
    return Begun(thread, run, fresh=True)


def check_same(known: models.Message, message: Message, *, with_files: bool = True) -> None:
    """Whoever sends another text under the id of one that is kept must learn that it was not taken."""
    kept = values.message_of(known)
    if kept.text != message.text or (
        with_files and references.ids_in([kept]) != references.ids_in([message])
    ):
        raise Conflict(
            gettext("This message was sent already, with another text. Reload the page to see it.")
        )


def retry(
    *,
    thread: Thread,
    start: Start,
    message_id: str | None = None,
) -> Begun:
    """Answer a user message anew: what stood behind it leaves the active branch.

    It is the last one, or the one named, or the one that the answer named stands behind. Nothing is deleted: the
    earlier answer stays a sibling in the tree.
    """
    thread = locked(thread)
    path = branches.active_branch(thread)
    if message_id is not None:
        named = next((place for place, row in enumerate(path) if row.public_id == message_id), -1)
        path = path[: named + 1]
    asked = [row for row in path if row.role == models.Message.Role.USER]
    if not asked:
        raise NothingToRetry(gettext("There is no message here to answer again."))
    check_free(thread, start.run_id)
    run = begin(thread, start)
    withdraw_questions(thread, run)
    question = asked[-1]
    question.run = run
    question.save(update_fields=["run"])
    thread.head = question
    thread.save(update_fields=["head", "model", "updated_at"])
    return Begun(thread, run, fresh=True)


def request_stop(*, thread: Thread, run_id: str | None = None, run_pk: int | None = None) -> Run | None:
    """Ask the thread's active run to stop, wherever it runs: the one that is meant, if that is known, and no other.

    None when that does not run.
    """
    runs = Run.objects.filter(thread=thread, state__in=Run.ACTIVE)
    if run_id is not None:
        runs = runs.filter(public_id=run_id)
    if run_pk is not None:
        runs = runs.filter(pk=run_pk)
    run = runs.first()
    if run is not None and not run.stop_requested:
        run.stop_requested = True
        run.save(update_fields=["stop_requested"])
    return run


def _first_message(owner: Any, public_id: str | None, client_id: str) -> models.Message | None:
    """The message of that client id that a thread of the owner's (the named one, or any) began with."""
    with connection.cursor() as cursor:
        if public_id is None:
            cursor.execute(FIRST_MESSAGE, [client_id, owner.pk])
        else:
            cursor.execute(FIRST_MESSAGE + OF_THREAD, [client_id, owner.pk, public_id])
        found = cursor.fetchone()
    return models.Message.objects.select_related("thread", "run").get(pk=found[0]) if found else None
