"""`GET /api/chat`: a page restores itself, or joins a run that is under way."""

from __future__ import annotations

from typing import Any

from agent.wire.agui import encode_interrupt, encode_ui_messages
from chatsite.chat import access, commands, db, eventlog, store
from chatsite.chat.api.exchange import Asked, Refused, Reply, json_reply
from chatsite.chat.api.stream import stream_of
from chatsite.chat.files import references
from chatsite.chat.models import Interrupt, Message, Run, Thread
from chatsite.chat.problems import Invalid, Missing
from chatsite.chat.readers import following
from chatsite.chat.rows import questions
from chatsite.chat.state import RunView, ThreadState


async def join(user: Any, asked: Asked) -> Reply:
    run_id = asked.query["runId"]
    runs = Run.objects.filter(thread__owner=user, public_id=run_id).select_related("thread").order_by("-pk")
    run = await db.read(runs.first) if access.sane_id(run_id) else None
    if run is None:
        raise Missing()
    return stream_of(await commands.thread_for(user, run.thread.public_id), run, asked)


async def restore(user: Any, asked: Asked) -> Reply:
    thread_id = asked.query.get("threadId", "")
    if not thread_id:
        raise Refused(422, "invalid_request", "threadId: say which thread, as `GET /api/chat?threadId=<id>`.")
    thread = await commands.thread_for(user, thread_id)
    state = await following.state_now(eventlog.channel_of(thread.pk), thread)
    unanswered = await db.read(_unanswered, thread, state)
    interrupts = [questions.interrupt_of(row) for row in unanswered]
    times = await db.read(_times_of, thread.pk)
    transcript = references.addressed(store.transcript_of(state), thread.public_id)
    messages = encode_ui_messages(transcript, times, interrupts)
    limit, before = asked.query.get("limit"), asked.query.get("before")
    page, has_more = _page(messages, limit, before)
    active = state.active_run
    return json_reply(
        200,
        {
            "threadId": thread.public_id,
            "messages": page,
            "activeRun": _active(active),
            "interrupts": {
                "runId": unanswered[-1].run.public_id,
                "pending": [encode_interrupt(interrupt) for interrupt in interrupts],
            }
            if unanswered
            else None,
            # `truncated` and `cursor` are TanStack's words.
            "page": {"truncated": True, "cursor": page[0]["id"]} if has_more else {"truncated": False},
            "cursor": state.cursor,
        },
        {"Cache-Control": "no-store"},
    )


def _unanswered(thread: Thread, state: ThreadState) -> list[Interrupt]:
    """Those of the branch that is shown: another one's cannot be answered here."""
    shown = [question.id for question in state.open_interrupts]
    rows = thread.interrupts.filter(status="open", public_id__in=shown)
    return list(rows.select_related("run").order_by("pk"))


def _active(run: RunView | None) -> dict[str, str] | None:
    if run is None:
        return None
    return {"runId": run.id, **({"parentRunId": run.resumes} if run.resumes else {})}


def _page(messages: list[Any], limit: str | None, before: str | None) -> tuple[list[Any], bool]:
    """The last `limit` messages in front of the one with id `before`, and whether there are older ones."""
    if before is not None:
        places = [place for place, message in enumerate(messages) if message["id"] == before]
        if not places:
            raise Invalid("before: there is no message of that id in this thread.")
        messages = messages[: places[0]]
    if limit is None:
        return messages, False
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 5 and 0 < int(limit) <= 10_000):
        raise Invalid("limit: must be a whole number from 1 to 10000.")
    return messages[-int(limit) :], len(messages) > int(limit)


def _times_of(thread_pk: int) -> dict[str, str]:
    rows = Message.objects.filter(thread_id=thread_pk).values_list("public_id", "created_at")
    return {public_id: created_at.isoformat() for public_id, created_at in rows}
