"""What a run begins with, out of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from django.db.models import Q

from agent import ToolSpec
from agent.approvals import Resolution
from agent.closing import calls_left
from agent.context import NOTHING_BEFORE, Before
from agent.events import Event, StepFinished, ToolCallStart
from agent.messages import Message, ToolResultPart
from agent.wire.parts import load_parts
from chatsite.chat import choices, db, store
from chatsite.chat.actions.starting import Begun
from chatsite.chat.choices import Choices
from chatsite.chat.models import Run, ToolCall
from chatsite.chat.rows import kept_log, questions
from chatsite.chat.runs import ledger_rows, unfinished
from chatsite.chat.runs.ledger_rows import CallChange
from chatsite.chat.state import ThreadState


@dataclass(frozen=True, slots=True)
class Opening:
    """What a run begins with.

    `before` is what stood in its thread, `asked` the messages that it brings (a user's, or the notice of one that
    goes on with a lost run), `waiting` the ledger's rows of calls that were left open, `resolutions` and
    `client_results` what has been answered about those, `before_run` what the lost run had used and begun.
    """

    before: ThreadState
    asked: tuple[Message, ...] = ()
    parent_id: str | None = None
    client_tools: tuple[ToolSpec, ...] = ()
    choices: Choices = field(default_factory=Choices)
    waiting: Mapping[str, CallChange] = field(default_factory=dict)
    resolutions: tuple[Resolution, ...] = ()
    client_results: tuple[ToolResultPart, ...] = ()
    before_run: Before = NOTHING_BEFORE


async def opening_of(begun: Begun) -> Opening:
    if begun.first is None:
        return await db.read(_opening, begun.run.pk)
    return Opening(
        ThreadState(begun.thread.public_id, begun.thread.title),
        (begun.first,),
        client_tools=_client_tools(begun.run),
        choices=choices.kept(begun.run.given.get("choices")),
    )


def _opening(run_pk: int) -> Opening:
    run = Run.objects.select_related("thread", "parent").get(pk=run_pk)
    state = store.load_state(run.thread)
    before = replace(state, segments=state.segments[:-1], cursor="")
    open_ids = [call.id for call in calls_left(store.transcript_of(before))[0]]
    # Also those of calls within a subagent, which the transcript does not show; and what a lost run was to carry out.
    ours = Q(tool_call_id__in=open_ids) | Q(resumed_by__in=[run, *_lost_before(run)])
    answered = list(run.thread.interrupts.filter(ours).exclude(status="open").order_by("pk"))
    waiting = ledger_rows.known_calls(run.thread_id, {*open_ids, *(row.tool_call_id for row in answered)})
    return Opening(
        before=before,
        asked=state.segments[-1].messages,
        parent_id=run.parent.public_id if run.parent else None,
        client_tools=_client_tools(run),
        choices=choices.kept(run.given.get("choices")),
        waiting=waiting,
        resolutions=tuple(map(questions.resolution_of, answered)),
        client_results=tuple(load_parts(run.given.get("clientResults", ()))),
        before_run=_before_of(run, waiting, open_ids),
    )


def _lost_before(run: Run) -> Iterator[Run]:
    """The lost runs that this one goes on with, the newest first."""
    while run.continuation and run.parent is not None:
        run = run.parent
        yield run


def _before_of(run: Run, waiting: Mapping[str, CallChange], open_ids: list[str]) -> Before:
    """A person who has it continued begins anew; what goes on by itself goes on with what is left."""
    if run.continuation != Run.Continuation.AUTOMATIC or run.parent is None:
        return NOTHING_BEFORE
    told = [event for _, event in kept_log.events_after(run.parent_id, 0)]
    turns = [event.metadata or {} for event in told if isinstance(event, StepFinished) and _is_own(event)]
    last = turns[-1] if turns else {}
    calls = [event for event in told if isinstance(event, ToolCallStart) and _is_own(event)]
    times = [event.timestamp for event in told[:-1] if event.timestamp is not None]
    began_at = run.parent.created_at.timestamp()
    return Before(
        turns=len(turns),
        tool_calls=sum(not call.provider_executed for call in calls),
        finish_reason=last.get("storedFinishReason", last.get("finishReason")),
        usage=unfinished.used_by(told),
        seconds=max(max(times, default=0) / 1000 - began_at, 0.0),
        begun_calls=frozenset(id for id in open_ids if _is_begun(waiting.get(id))),
    )


def _is_own(event: Event) -> bool:
    return event.subagent_run_id is None


def _is_begun(call: CallChange | None) -> bool:
    return call is not None and call.state == ToolCall.State.CLAIMED


def _client_tools(run: Run) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(**spec) for spec in run.given.get("clientTools", ()))
