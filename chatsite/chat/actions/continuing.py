"""A lost run is gone on with: because a person asked, or by itself (`recovery`)."""

from __future__ import annotations

from agent.messages import NOTICE, Message, TextPart
from chatsite.chat import models
from chatsite.chat.actions.starting import Begun, Start, begin, carrying, check_free, locked
from chatsite.chat.models import Run, Thread, new_public_id
from chatsite.chat.problems import NothingToContinue
from chatsite.chat.rows import branches, values

GO_ON = (
    "(The server was restarted while you were answering. What you wrote so far stands above. "
    "Go on exactly where it ends, and repeat nothing.)"
)
"""To the model, behind its own half answer."""


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
    start = carrying(start, lost, *lost.given)
    run = begin(thread, start, parent=lost, continuation=kind)
    row = thread.head
    if row is not None and row.role == models.Message.Role.ASSISTANT and _is_cut(values.message_of(row)):
        notice = Message(new_public_id(), "system", (TextPart(GO_ON),), metadata={NOTICE: "resumed"})
        thread.head = values.row_of(notice, thread_id=thread.pk, run_id=run.pk, parent_id=row.pk)
        thread.head.save(force_insert=True)
    thread.save(update_fields=["head", "model", "updated_at"])
    return run


def _is_cut(message: Message) -> bool:
    """The message broke off in its text. What broke off in a thought or a call is begun anew by the model itself."""
    return message.finish_reason is None and bool(message.text.strip()) and not message.tool_calls


def _is_run(run: Run | None, run_id: str | None) -> bool:
    return run is not None and run_id in (None, run.public_id)
