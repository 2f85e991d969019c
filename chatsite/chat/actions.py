"""What people do to a thread, one transaction each. The caller holds the transaction (`db.write`).

Idempotence: a message's client id is unique in its thread. The same send twice (a double click, a retry after a
lost answer, two tabs) finds the first one's run and makes nothing.
One active run a thread: the constraint says no to a second, and the person is told in words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.utils import timezone
from django.utils.translation import gettext

from agent import InvalidRequest, ToolRegistry
from agent.approvals import Resolution, check_resolutions
from agent.messages import NOTICE, Message, TextPart, ToolResultPart
from agent.wire.parts import dump_parts
from chatsite.chat import (
    attachment_references,
    attachments,
    branches,
    metering,
    models,
    questions,
    row_values,
    statements,
)
from chatsite.chat.models import ApprovalRule, Run, Thread, new_public_id, new_run_id
from chatsite.chat.problems import Busy, Conflict, NothingToContinue, NothingToRetry, Unanswerable
from chatsite.policies.quotas import Account

TITLE_LENGTH = 60

# In SQL, as each new thread asks it and mostly finds nothing.
FIRST_MESSAGE = """
    SELECT message.id FROM chat_message message JOIN chat_thread thread ON thread.id = message.thread_id
    WHERE message.client_id = %s AND message.parent_id IS NULL AND thread.owner_id = %s
"""
OF_THREAD = "AND thread.public_id = %s"

GO_ON = (
    "(The server was restarted while you were answering. What you wrote so far stands above. "
    "Go on exactly where it ends, and repeat nothing.)"
)
"""To the model, behind its own half answer."""

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
        _check_same(first, message)
        return Begun(first.thread, first.run, fresh=False)
    thread = Thread(owner=owner, public_id=public_id or new_public_id(), choices=dict(choices or {}))
    statements.insert(thread)
    # Nobody else can know this thread yet, so what `send_message` asks for need not be asked.
    run = _begin(thread, start)
    _append(thread, run, message, client_id)
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
        _check_same(known, message)
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
    run = _begin(thread, start)
    _withdraw_questions(thread, run)
    _append(thread, run, message, client_id)
    return Begun(thread, run, fresh=True)


def _check_same(known: models.Message, message: Message) -> None:
    """Whoever sends another text under the id of one that is kept must learn that it was not taken."""
    kept = row_values.message_of(known)
    if (kept.text, attachment_references.ids_in([kept])) != (
        message.text,
        attachment_references.ids_in([message]),
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
    run = _begin(thread, start)
    _withdraw_questions(thread, run)
    question = asked[-1]
    question.run = run
    question.save(update_fields=["run"])
    thread.head = question
    thread.save(update_fields=["head", "model", "updated_at"])
    return Begun(thread, run, fresh=True)


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
    run = _begin(thread, _carrying(start, asked_by), parent=asked_by)
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
    start = _carrying(start, last)
    run = _begin(
        thread, replace(start, given={**start.given, "clientResults": dump_parts(results)}), parent=last
    )
    thread.save(update_fields=["model", "updated_at"])
    return Begun(thread, run, fresh=True)


def continue_lost(*, thread: Thread, start: Start, run_id: str | None = None) -> Begun:
    """Go on with the thread's last run, which was lost (the one named `run_id`, if that is given).

    Asked for twice it finds the first one's run. Raises NothingToContinue when the thread has gone on.
    """
    thread = locked(thread)
    last = thread.runs.select_related("parent").order_by("-pk").first()
    if last is not None and last.continuation and last.state in Run.ACTIVE and _is_run(last.parent, run_id):
        return Begun(thread, last, fresh=False)
    if last is None or last.state != Run.State.LOST or not _is_run(last, run_id):
        raise NothingToContinue()
    if last.pk not in branches.runs_on_branch(thread):
        raise NothingToContinue()
    check_free(thread, start.run_id)
    run = begin_continuation(thread, last, start, Run.Continuation.ASKED)
    return Begun(thread, run, fresh=True)


def begin_continuation(thread: Thread, lost: Run, start: Start, kind: str) -> Run:
    """The run that goes on with a lost one. It begins with a notice to the model, if that stopped in mid sentence."""
    start = _carrying(start, lost, *lost.given)
    run = _begin(thread, start, parent=lost, continuation=kind)
    row = thread.head
    if row is not None and row.role == models.Message.Role.ASSISTANT and _is_cut(row_values.message_of(row)):
        notice = Message(new_public_id(), "system", (TextPart(GO_ON),), metadata={NOTICE: "resumed"})
        thread.head = row_values.row_of(notice, thread_id=thread.pk, run_id=run.pk, parent_id=row.pk)
        thread.head.save(force_insert=True)
    thread.save(update_fields=["head", "model", "updated_at"])
    return run


def _is_cut(message: Message) -> bool:
    """The message broke off in its text. What broke off in a thought or a call is begun anew by the model itself."""
    return message.finish_reason is None and bool(message.text.strip()) and not message.tool_calls


def _is_run(run: Run | None, run_id: str | None) -> bool:
    return run is not None and run_id in (None, run.public_id)


def drop_rule(*, thread: Thread, tool_name: str) -> bool:
    """Take an "always allow" back. False when there was none."""
    return bool(ApprovalRule.objects.filter(thread=thread, tool_name=tool_name).delete()[0])


def _carrying(start: Start, run: Run, *more: str) -> Start:
    """A run that takes another one up has that one's choices and client tools, unless it brings its own."""
    carried = {key: run.given[key] for key in ("clientTools", *more) if key in run.given}
    choices = run.given.get("choices", {})  # also when it had none: its thread may have other ones by now
    return replace(start, given={"choices": choices, **carried, **start.given})


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


def _withdraw_questions(thread: Thread, run: Run) -> None:
    """Whoever goes on without answering has cancelled what was asked."""
    models.Interrupt.objects.filter(thread=thread, status=Status.OPEN).update(
        status=Status.CANCELLED, answered_at=timezone.now(), door=run.door, resumed_by=run
    )


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


def title_from(text: str) -> str:
    """The first line of what was asked, short enough for a list."""
    line = " ".join(text.split("\n\n", 1)[0].split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rsplit(" ", 1)[0] + "…"


def locked(thread: Thread) -> Thread:
    """The thread as it is now, held until the transaction ends (SQLite's IMMEDIATE holds everything already)."""
    return Thread.objects.select_for_update().get(pk=thread.pk)


def check_free(thread: Thread, run_id: str | None) -> None:
    """Raises Busy or Conflict when no run of that id can begin in the thread."""
    if Run.objects.filter(thread=thread, state__in=Run.ACTIVE).exists():
        raise Busy()
    if run_id is not None and Run.objects.filter(thread=thread, public_id=run_id).exists():
        raise Conflict(
            gettext("This thread already has a run of that id. Start a new run with an id of its own.")
        )


def _first_message(owner: Any, public_id: str | None, client_id: str) -> models.Message | None:
    """The message of that client id that a thread of the owner's (the named one, or any) began with."""
    with connection.cursor() as cursor:
        if public_id is None:
            cursor.execute(FIRST_MESSAGE, [client_id, owner.pk])
        else:
            cursor.execute(FIRST_MESSAGE + OF_THREAD, [client_id, owner.pk, public_id])
        found = cursor.fetchone()
    return models.Message.objects.select_related("thread", "run").get(pk=found[0]) if found else None


def _append(thread: Thread, run: Run, message: Message, client_id: str) -> None:
    """Put the message that the run answers at the thread's end."""
    row = row_values.row_of(
        message, thread_id=thread.pk, run_id=run.pk, parent_id=thread.head_id, client_id=client_id
    )
    statements.insert(row)
    attachments.use(thread, [message])
    thread.head = row
    thread.title = thread.title or title_from(message.text or attachment_references.names_in(message))
    changed = {name: getattr(thread, name) for name in ("head_id", "title", "model", "updated_at")}
    statements.update(Thread, changed, "id = %s", [thread.pk])


def _begin(
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
