"""What people do to the branches of a thread: edit, show another one, delete and take back, go on elsewhere.

One transaction each, which the caller holds. A thread's messages are a tree; nothing here changes what a message says.
An edit is a sibling of what it replaces, with a run of its own; a deleted message is left out with all that stands
behind it until it is taken back, and `upkeep` removes it for good `KEPT_DELETED` later.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext_lazy

from agent.messages import Message, TextPart
from chatsite.care import holds
from chatsite.chat import actions, models
from chatsite.chat.actions import starting
from chatsite.chat.actions.starting import Begun, Start
from chatsite.chat.models import Interrupt, Run, RunEvent, Thread, ToolCall
from chatsite.chat.problems import Busy, Conflict
from chatsite.chat.rows import branches, tree, values
from chatsite.chat.transfer import moving

KEPT_DELETED = timedelta(days=30)
Role = models.Message.Role

GONE = gettext_lazy("This message is not here any more. Reload the page to see what is.")
BUSY = gettext_lazy("An answer is still being written here. Wait for it or stop it, then try again.")
NOT_A_QUESTION = gettext_lazy("Only a message of your own can be edited.")
NOT_A_MESSAGE = gettext_lazy("Only what you or the assistant said can be deleted.")
UNDER_DELETED = gettext_lazy("What stood before this message is deleted too. Take that back first.")


def edit(*, thread: Thread, message_id: str, message: Message, client_id: str, start: Start) -> Begun:
    """Ask something else in a message's place: a sibling of it, which the run answers. Files of the first one stay.

    The same edit twice finds the first one's run.
    """
    known = models.Message.objects.select_related("run").filter(thread=thread, client_id=client_id).first()
    if known is not None and known.run is not None:
        actions.check_same(known, message, with_files=False)  # those of the first one are in it
        return Begun(thread, known.run, fresh=False)
    thread = starting.locked(thread)
    old = _message(thread, message_id)
    if old.role != Role.USER:
        raise Conflict(NOT_A_QUESTION)
    starting.check_free(thread, start.run_id)
    actions.check_new(thread, message)
    files = tuple(part for part in values.message_of(old).parts if not isinstance(part, TextPart))
    thread.head_id = old.parent_id
    return actions.ask(thread, replace(message, parts=(*files, *message.parts)), client_id, start)


def show_branch(*, thread: Thread, message_id: str) -> Thread:
    """Show the branch that holds this message: the newest of those that do."""
    thread = _idle(thread)
    row = _message(thread, message_id)
    rows = _rows(thread)
    _move(thread, rows, tree.newest(tree.children_of(rows.values()), row))
    return thread


def remove(*, thread: Thread, message_id: str) -> Thread:
    """Delete a message and what stands behind it. Then the branch beside it is shown, or else what stood before it."""
    thread = _idle(thread)
    row = _message(thread, message_id)
    if row.role not in (Role.USER, Role.ASSISTANT):
        raise Conflict(NOT_A_MESSAGE)
    rows = _rows(thread)
    children = tree.children_of(rows.values())
    gone = {each.pk for each in tree.below(children, row)}
    models.Message.objects.filter(pk__in=gone).update(deleted_at=timezone.now())
    head = rows.get(thread.head_id)
    if head is None or head.pk in gone:
        beside = [each for each in children[row.parent_id] if each.pk != row.pk]
        nearest = min(beside, key=lambda each: abs(each.pk - row.pk), default=None)
        head = tree.newest(children, nearest) if nearest is not None else rows.get(row.parent_id)
    _move(thread, rows, head)
    return thread


def take_back(*, thread: Thread, message_id: str) -> Thread:
    """What was deleted with this message is there again, and is shown. Done twice it shows it."""
    thread = _idle(thread)
    row = models.Message.objects.filter(thread=thread, public_id=message_id).first()
    if row is None:
        raise Conflict(GONE)
    if row.deleted_at is not None:
        if models.Message.objects.filter(pk=row.parent_id, deleted_at__isnull=False).exists():
            raise Conflict(UNDER_DELETED)
        models.Message.objects.filter(thread=thread, deleted_at=row.deleted_at).update(deleted_at=None)
    return show_branch(thread=thread, message_id=message_id)


def fork(*, thread: Thread, message_id: str, owner: Any) -> Thread:
    """A new thread of the owner's with everything up to this message. No call of it is open there."""
    row = _message(thread, message_id)
    thread.head_id = row.pk
    file = moving.file_of(thread, branches.active_branch(thread))
    new = moving.take_in(owner, file)
    Thread.objects.filter(pk=new.pk).update(titled=thread.titled, updated_at=timezone.now())
    return new


def remove_deleted() -> bool:
    """Remove for good what was deleted with one message long ago, and what its runs told. False: nothing is due."""
    due = models.Message.objects.filter(deleted_at__lt=timezone.now() - KEPT_DELETED)
    row = holds.free(due, "thread__owner", "thread__public_id").order_by("deleted_at").first()
    if row is None:
        return False
    rows = models.Message.objects.filter(thread_id=row.thread_id, deleted_at=row.deleted_at)
    runs = set(rows.exclude(run=None).values_list("run_id", flat=True))
    rows.delete()
    silent = runs - set(models.Message.objects.filter(run__in=runs).values_list("run_id", flat=True))
    for model in (RunEvent, ToolCall, Interrupt):
        model.objects.filter(run__in=silent).delete()
    Run.objects.filter(pk__in=silent).update(log=Run.Log.PRUNED, given={}, receipt={})
    return True


def text_of(thread: Thread, message_id: str) -> str:
    """What a message says; "" when there is none."""
    row = models.Message.objects.filter(thread=thread, public_id=message_id, deleted_at=None).first()
    return row.text if row is not None else ""


def _idle(thread: Thread) -> Thread:
    """The thread, held. Raises Busy while it is answered: a run writes at the end of the branch that is shown."""
    thread = starting.locked(thread)
    if Run.objects.filter(thread=thread, state__in=Run.ACTIVE).exists():
        raise Busy(BUSY)
    return thread


def _message(thread: Thread, message_id: str) -> models.Message:
    row = models.Message.objects.filter(thread=thread, public_id=message_id, deleted_at=None).first()
    if row is None:
        raise Conflict(GONE)
    return row


def _rows(thread: Thread) -> dict[int | None, models.Message]:
    rows = thread.messages.only("pk", "parent_id", "run_id", "role", "public_id", "deleted_at", "thread_id")
    return {row.pk: row for row in rows}


def _move(thread: Thread, rows: dict[int | None, models.Message], head: models.Message | None) -> None:
    """Show the branch that ends there."""
    path = branches.path_to(rows, head.pk if head is not None else None)
    for row, run_pk in tree.owners(path):
        models.Message.objects.filter(pk=row.pk).update(run_id=run_pk)
    Thread.objects.filter(pk=thread.pk).update(head=head, branch=F("branch") + 1)
    thread.refresh_from_db(fields=["head", "branch"])
