"""The end of a run that nobody works on any more: its log is folded into rows, and its calls get their results.

| an open call of it | the run is gone on with | it is not |
|---|---|---|
| claimed, by an `idempotent` tool that is still there | stays open: it runs again, same key | `outcome_unknown` |
| claimed otherwise | `outcome_unknown`: it may have happened | the same |
| not claimed, of a turn that ended with `tool_calls` | stays open: it runs | `aborted` |
| not claimed, of a turn that was cut or broke off | as the loop has it (`agent.steps.NOT_RUN`) | the same |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import reduce

from django.db.models import QuerySet
from django.utils import timezone

from agent.events import Event, ModelUsage, RunError, RunFinished, StepFinished, ToolCallResult
from agent.messages import Message, ToolCallPart, ToolResultPart, Transcript, Usage, open_calls
from agent.receipts import at_work, receipt, with_receipt
from agent.reducer import apply
from agent.results import error_result
from agent.steps import NOT_RUN, last_turn
from chatsite.chat import store
from chatsite.chat.limits import metering
from chatsite.chat.models import Run, ToolCall, new_public_id
from chatsite.chat.rows import kept_log, values
from chatsite.chat.runs import keeping, ledger_rows
from chatsite.chat.runs.keeping import Batch
from chatsite.chat.runs.ledger import STATE_OF_ERROR
from chatsite.chat.runs.ledger_rows import CallChange

READERS_AHEAD = 100_000
"""More events than a reader can have been told beyond what was kept when a server was killed."""

UNKNOWN = "Outcome unknown: the server stopped while this ran, so it may have happened. Check before doing it again."
NEVER_RAN = "Not run: the server stopped before it began."

NO_CALLS: Container[str] = frozenset()
End = RunError | RunFinished


def used_by(events: Iterable[Event]) -> tuple[ModelUsage, ...]:
    """What a run's log says of the turns that came to their end, a subagent's included."""
    usage: dict[tuple[str, str | None], Usage] = {}
    for event in events:
        if isinstance(event, StepFinished) and event.metadata:
            of = str(event.metadata.get("model", "")), event.metadata.get("provider")
            usage[of] = usage.get(of, Usage()) + values.usage_of(event.metadata.get("usage", {}))
    return tuple(
        ModelUsage(model, each, provider) for (model, provider), each in usage.items() if each != Usage()
    )


def _answered_by(events: Iterable[Event]) -> str:
    """The endpoint that answered last."""
    ended = [event for event in events if isinstance(event, StepFinished) and event.subagent_run_id is None]
    named = [event.metadata["provider"] for event in ended if event.metadata and "provider" in event.metadata]
    return str(named[-1]) if named else ""


def close_run(run_pk: int, *, code: str, message: str) -> bool:
    """Give a run that broke its end. False when it has one. Caller holds the transaction."""
    run = held(Run.objects.filter(pk=run_pk))
    if run is None:
        return False
    end(run, lambda usage: RunError(message=message, code=code, usage=usage))
    return True


def held(runs: QuerySet[Run]) -> Run | None:
    """The one active run among these, locked until the transaction ends."""
    rows = runs.filter(state__in=Run.ACTIVE).select_related("thread__owner", "parent")
    return rows.select_for_update(of=("self", "thread")).first()


def end(
    run: Run,
    terminal: Callable[[tuple[ModelUsage, ...]], End],
    *,
    goes_on: bool = False,
    runs_again: Container[str] = NO_CALLS,
) -> None:
    """End it with the event that `terminal` makes of what it used. `runs_again`: names of tools that are idempotent."""
    state = store.load_state(run.thread)
    transcript = store.transcript_of(state)
    before = store.transcript_of(replace(state, segments=state.segments[:-1]))
    left = {call.id: call for call in open_calls(transcript)}
    # A call that this run began may be one that an earlier run asked for, and a person approved.
    claimed = set(
        ToolCall.objects.filter(run__thread=run.thread_id, state=ToolCall.State.CLAIMED).values_list(
            "call_id", flat=True
        )
    )
    turn = last_turn(transcript)
    given = [
        result
        for call in left.values()
        if (result := _result_of(call, turn, call.id in claimed, goes_on, runs_again)) is not None
    ]
    results = [
        ToolCallResult(new_public_id(), each.tool_call_id, each.content, error=each.error) for each in given
    ]
    whole: Transcript = reduce(apply, results, transcript)
    told = [event for _, event in kept_log.events_after(run.pk, 0)]
    last = replace(terminal(used_by(told)), timestamp=time.time_ns() // 1_000_000)
    if isinstance(last, RunFinished):
        last = with_receipt(last, receipt(before, whole, at_work(transcript)))
    saved = set(run.thread.messages.values_list("public_id", flat=True))
    batch = Batch(
        run_pk=run.pk,
        thread_pk=run.thread_id,
        head=run.thread.head_id,
        # Behind a gap: a reader may know later numbers than the rows do, and must not take this end for known.
        first=kept_log.last_number(run.pk) + READERS_AHEAD,
        events=(*results, last),
        messages=tuple(entry for entry in whole if entry.id not in saved and entry.role != "user"),
        calls=(*_closed(run, left, given), *_closed_within(run, left, claimed)),
        turns=run.turns,
        provider=_answered_by(told),
        metered=metering.is_metered(run),
    )
    keeping.keep([batch])


def _result_of(
    call: ToolCallPart, turn: Message | None, claimed: bool, goes_on: bool, runs_again: Container[str]
) -> ToolResultPart | None:
    """The table of this file; None: it stays open."""
    if claimed:
        again = goes_on and call.name in runs_again
        return None if again else error_result(call.id, "outcome_unknown", UNKNOWN)
    if turn is not None and turn.finish_reason in NOT_RUN:
        return error_result(call.id, *NOT_RUN[turn.finish_reason])
    return None if goes_on else error_result(call.id, "aborted", NEVER_RAN)


def _closed(run: Run, left: dict[str, ToolCallPart], given: list[ToolResultPart]) -> list[CallChange]:
    known = ledger_rows.known_calls(run.thread_id, left)
    return [
        replace(
            known.get(result.tool_call_id) or _never_kept(left[result.tool_call_id]),
            state=STATE_OF_ERROR[result.error],
            result=str(result.content),
            error_code=result.error or "",
            finished_at=timezone.now(),
        )
        for result in given
    ]


def _closed_within(run: Run, left: Container[str], claimed: set[str]) -> list[CallChange]:
    """Calls that the transcript does not show, since a subagent made them: nobody goes on with those."""
    states = (ToolCall.State.PROPOSED, ToolCall.State.CLAIMED)
    ids = set(run.tool_calls.filter(state__in=states).values_list("call_id", flat=True)) | claimed
    inner = [id for id in ids if id not in left]
    return [
        replace(
            call,
            state=ToolCall.State.UNKNOWN
            if call.state == ToolCall.State.CLAIMED
            else ToolCall.State.CANCELLED,
            finished_at=timezone.now(),
        )
        for call in ledger_rows.known_calls(run.thread_id, inner).values()
    ]


def _never_kept(call: ToolCallPart) -> CallChange:
    return CallChange(call.id, call.name, call.arguments, ToolCall.State.PROPOSED)
