"""The ledger's rows: what is known of calls, read and written. `ledger` says which of them changed, and how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from chatsite.chat.models import ToolCall
from chatsite.chat.rows import statements


@dataclass(frozen=True, slots=True)
class CallChange:
    """All that is known of one call. `run_pk` is the run that asked for it, None: the batch's own."""

    call_id: str
    name: str
    arguments: str
    state: str
    run_pk: int | None = None
    edited_arguments: str = ""
    claimed_at: datetime | None = None
    result: str = ""
    error_code: str = ""
    finished_at: datetime | None = None
    duration_ms: int | None = None


def known_calls(thread_pk: int, call_ids: Iterable[str]) -> dict[str, CallChange]:
    """What the rows say of these calls, whichever run of the thread asked for them."""
    rows = ToolCall.objects.filter(run__thread_id=thread_pk, call_id__in=list(call_ids)).order_by("pk")
    return {
        row.call_id: CallChange(
            call_id=row.call_id,
            name=row.name,
            arguments=row.arguments,
            state=row.state,
            run_pk=row.run_id,
            edited_arguments=row.edited_arguments,
            claimed_at=row.claimed_at,
            result=row.result,
            error_code=row.error_code,
            finished_at=row.finished_at,
            duration_ms=row.duration_ms,
        )
        for row in rows
    }


def write_calls(calls: Iterable[CallChange], *, run_pk: int, at: datetime) -> None:
    """What is known of each by now, at a batch of that run's."""
    statements.upsert(
        ToolCall,
        [
            {
                "run_id": change.run_pk or run_pk,
                "call_id": change.call_id,
                "name": change.name[:200],
                "state": change.state,
                "arguments": change.arguments,
                "edited_arguments": change.edited_arguments,
                "result": change.result,
                "error_code": change.error_code[:100],
                "created_at": at,
                "claimed_at": change.claimed_at,
                "finished_at": change.finished_at,
                "duration_ms": change.duration_ms,
            }
            for change in calls
        ],
        unique=("run", "call_id"),
        update=(
            "state",
            "arguments",
            "edited_arguments",
            "result",
            "error_code",
            "claimed_at",
            "finished_at",
            "duration_ms",
        ),
    )
