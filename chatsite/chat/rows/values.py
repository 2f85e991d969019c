"""Single rows <-> values: a message, a run as a reader sees it, what it used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from agent.events import (
    Event,
    ModelUsage,
)
from agent.messages import Message, Usage
from agent.wire.parts import dump_parts, load_parts
from chatsite.chat import models
from chatsite.chat.limits import budgets
from chatsite.chat.models import Run
from chatsite.chat.state import RunView

# What a message row's metadata says besides what the message does, so that a query finds it there.
ROW_ONLY = ("finishReason", "stopReason")


def view_of(run: Run) -> RunView:
    used = used_in(run.usage)
    return RunView(
        id=run.public_id,
        state=run.state,
        stop_reason=run.stop_reason,
        error=run.error,
        error_code=run.error_code,
        model=run.model,
        usage=sum((each.usage for each in used), Usage()),
        cost=budgets.cost_of(used),
        duration_ms=lasted_ms(run.created_at, run.finished_at) if run.finished_at else None,
        resumes=run.parent.public_id if run.continuation and run.parent else "",
        receipt=run.receipt,
    )


def lasted_ms(began: datetime, ended: datetime) -> int:
    return round((ended - began).total_seconds() * 1000)


def told_at(event: Event) -> datetime:
    """When the event was told, by its own clock, so that rows and memory agree to the millisecond."""
    assert event.timestamp is not None
    return datetime.fromtimestamp(event.timestamp / 1000, tz=UTC)


def message_of(row: models.Message) -> Message:
    return Message(
        id=row.public_id,
        role=row.role,
        parts=load_parts(row.parts),
        finish_reason=row.finish_reason or None,
        metadata={key: value for key, value in row.metadata.items() if key not in ROW_ONLY},
    )


def row_of(message: Message, **columns: Any) -> models.Message:
    """A row of it; `columns` says whose it is, as for `columns_of`."""
    return models.Message(**columns_of(message, **columns))


def columns_of(
    message: Message, *, thread_id: int, run_id: int | None, parent_id: int | None, **extra: Any
) -> dict[str, Any]:
    metadata = dict(message.metadata)
    if message.role == "assistant":
        metadata["finishReason"] = message.finish_reason
    return {
        "public_id": message.id,
        "thread_id": thread_id,
        "run_id": run_id,
        "parent_id": parent_id,
        "role": message.role,
        "parts": dump_parts(message.parts),
        "text": message.text,
        "finish_reason": message.finish_reason,
        "metadata": metadata,
        **extra,
    }


def used_in(entries: Iterable[Mapping[str, Any]]) -> list[ModelUsage]:
    """A run's usage, as its row holds it."""
    return [
        ModelUsage(entry.get("model", ""), usage_of(entry), entry.get("provider") or None)
        for entry in entries
    ]


def usage_of(entry: Mapping[str, Any]) -> Usage:
    return Usage(
        entry.get("inputTokens", 0),
        entry.get("outputTokens", 0),
        entry.get("reasoningTokens", 0),
        entry.get("cachedInputTokens", 0),
        entry.get("cacheWriteInputTokens", 0),
    )
