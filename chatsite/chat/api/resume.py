"""What of a posted body takes a waiting run up again: answers to its questions, results of its client's calls.

A client sends its whole history. Nothing in it makes a call, an approval or a result, but for these two, and they
only for what the thread itself has open.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent import InvalidRequest
from agent.approvals import resolution_of
from agent.messages import ToolResultPart
from agent.wire.agui import ResumeAnswer
from chatsite.chat.commands.values import OneAnswer
from chatsite.chat.models import Thread, ToolCall
from chatsite.chat.problems import Unanswerable
from chatsite.chat.rows import questions


def answers_of(thread: Thread, resume: Iterable[ResumeAnswer]) -> list[OneAnswer]:
    """A body's `resume` as answers. An id that the thread does not know is left for the action to refuse."""
    entries = list(resume)
    rows = {
        row.public_id: row
        for row in thread.interrupts.filter(public_id__in=[each.interrupt_id for each in entries])
    }
    answers = []
    for entry in entries:
        row = rows.get(entry.interrupt_id)
        if row is None:
            raise Unanswerable(
                f"There is no open question {entry.interrupt_id[:200]!r} here.", "unknown_interrupt"
            )
        try:
            said = resolution_of(questions.interrupt_of(row), entry.status, entry.payload)
        except InvalidRequest as error:
            raise Unanswerable(str(error), error.code) from None
        answers.append(
            OneAnswer(
                interrupt_id=said.interrupt_id,
                status=said.status,
                edited_args=dict(said.edited_args) if said.edited_args is not None else None,
                reason=said.reason,
            )
        )
    return answers


def pending_results(thread: Thread, results: Iterable[ToolResultPart]) -> list[ToolResultPart]:
    """Those of a body's tool results that the thread waits for: of calls of its client, and of no others.

    Clients send their whole history; a result that the server has, or never asked a client for, is nobody's.
    """
    given = {result.tool_call_id: result for result in results}
    if not given:
        return []
    pending = ToolCall.objects.filter(run__thread=thread, state=ToolCall.State.WAITING, call_id__in=given)
    asked = set(thread.interrupts.filter(tool_call_id__in=given).values_list("tool_call_id", flat=True))
    waiting = {row.call_id for row in pending} - asked
    return [result for call_id, result in given.items() if call_id in waiting]
