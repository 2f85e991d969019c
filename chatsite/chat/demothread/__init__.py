"""A thread in which each state can be seen: written as rows, so it is there at once and costs no model a word.

    python manage.py demothread --user NAME     and a button on the empty page, with the demo model

Its last question is a real one: `send_email` waits, and an answer to it begins a run like any other. What no rows can
show, since it is gone with the result, is in that run: a call that tells how far it is.

    script   what is asked in it, and what comes of it, as values; here they become rows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agent.approvals import interrupt_of
from agent.messages import Message, TextPart, ToolCallPart
from agent.wire.agui_messages import encode_messages
from chatsite.chat.agents import DEMO, agents
from chatsite.chat.demothread.script import Scene, Turns, scenes
from chatsite.chat.models import Run, Thread, ToolCall
from chatsite.chat.rows import questions, values

TITLE = _("A tour of what you may see")


def make(owner: Any) -> Thread:
    """A new tour of that person's. Caller holds the transaction."""
    now = timezone.now()
    thread = Thread.objects.create(
        owner=owner, title=str(TITLE), titled=Thread.Titled.PERSON, model=DEMO, created_at=now, updated_at=now
    )
    played = scenes()
    for place, scene in enumerate(played):
        _play(thread, scene, now - timedelta(minutes=len(played) - place))
    thread.save(update_fields=["head"])
    return thread


def _play(thread: Thread, scene: Scene, at: datetime) -> None:
    ended = at + timedelta(seconds=scene.seconds)
    run = Run.objects.create(
        thread=thread,
        state=scene.state,
        door="demo",
        model=DEMO,
        stop_reason=scene.stop_reason,
        finish_reason=scene.finish,
        error=scene.error,
        error_code=scene.error_code,
        turns=len(scene.turns),
        receipt=scene.receipt,
        created_at=at,
        finished_at=ended,
        log=Run.Log.PRUNED,
        booked=True,
    )
    for message in _messages(run, scene):
        row = values.row_of(
            message, thread_id=thread.pk, run_id=run.pk, parent_id=thread.head_id, created_at=at
        )
        row.save(force_insert=True)
        thread.head = row
        _keep_calls(run, message, at)
    for waiting in run.tool_calls.filter(state=ToolCall.State.WAITING):
        _ask(run, waiting, ended)


def _messages(run: Run, scene: Scene) -> Iterator[Message]:
    id = run.public_id
    yield Message(f"{id}-0", "user", (TextPart(scene.asked),))
    beside: dict[str, Any] = {}
    if scene.behind:
        said = encode_messages(tuple(_turns(f"{id}-c", scene.behind, "stop", {})), exact=True)
        beside["subagent"] = {"runId": f"{id}-c", "messages": said}
    if scene.whole:
        beside["full"] = scene.whole
    yield from _turns(id, scene.turns, scene.finish, beside)


def _turns(id: str, turns: Turns, finish: str, beside: Mapping[str, Any]) -> Iterator[Message]:
    for turn, (parts, results) in enumerate(turns, start=1):
        last = turn == len(turns)
        yield Message(f"{id}-{turn}", "assistant", tuple(parts), finish if last else "tool_calls")
        if results:
            yield Message(f"{id}-{turn}t", "tool", tuple(results), metadata=beside if turn == 1 else {})


def _keep_calls(run: Run, message: Message, at: datetime) -> None:
    """The ledger: a call waits until its result comes, in the message behind it."""
    for part in message.tool_calls:
        ToolCall.objects.create(
            run=run,
            call_id=part.id,
            name=part.name,
            state=ToolCall.State.WAITING,
            arguments=part.arguments,
            created_at=at,
        )
    for result in message.tool_results:
        state = ToolCall.State.FAILED if result.error else ToolCall.State.DONE
        run.tool_calls.filter(call_id=result.tool_call_id).update(
            state=state, error_code=result.error or "", finished_at=at, duration_ms=result.duration_ms
        )


def _ask(run: Run, waiting: ToolCall, at: datetime) -> None:
    tool = agents().tools_with().get(waiting.name)
    if tool is None:
        return
    part = ToolCallPart(waiting.call_id, waiting.name, waiting.arguments)
    asked = interrupt_of(part, tool, id=f"{run.public_id}-q", run_id=run.public_id, expires_at=None)
    questions.row_of(asked, run_id=run.pk, thread_id=run.thread_id, created_at=at).save(force_insert=True)
