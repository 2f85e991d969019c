"""Questions to a person: rows <-> values.

An interrupt is told as AG-UI's (`agent.events.Interrupt`), kept as it was told (`models.Interrupt.data`), and shown
as an `InterruptView`. Its answer is an `agent.approvals.Resolution`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from agent.approvals import Resolution
from agent.events import Interrupt
from agent.wire.agui import decode_interrupt, encode_interrupt
from chatsite.chat import models
from chatsite.chat.state import InterruptView

Status = models.Interrupt.Status


def row_of(interrupt: Interrupt, *, run_id: int, thread_id: int, created_at: datetime) -> models.Interrupt:
    return models.Interrupt(
        public_id=interrupt.id,
        run_id=run_id,
        thread_id=thread_id,
        tool_call_id=interrupt.tool_call_id or "",
        tool_name=_tool_name(interrupt)[:200],
        data=encode_interrupt(interrupt),
        expires_at=datetime.fromisoformat(interrupt.expires_at) if interrupt.expires_at else None,
        created_at=created_at,
    )


def interrupt_of(row: models.Interrupt) -> Interrupt:
    return decode_interrupt(row.data)


def resolution_of(row: models.Interrupt) -> Resolution:
    """The answer that a row holds."""
    return Resolution(
        tool_call_id=row.tool_call_id,
        interrupt_id=row.public_id,
        status=row.status,
        edited_args=row.edited_arguments,
        reason=row.reason,
    )


def view_of(row: models.Interrupt) -> InterruptView:
    return replace(
        asked_view(interrupt_of(row), row.run.public_id),
        status=row.status,
        edited=row.edited_arguments,
        reason=row.reason,
        answered_by=row.answered_by.get_username() if row.answered_by else "",
        answered_at=row.answered_at.isoformat() if row.answered_at else "",
    )


def asked_view(interrupt: Interrupt, run_id: str) -> InterruptView:
    """The view of a question that nobody has answered yet."""
    metadata = interrupt.metadata or {}
    return InterruptView(
        id=interrupt.id,
        run_id=run_id,
        tool_call_id=_shown_call(interrupt),
        tool_name=_tool_name(interrupt),
        message=interrupt.message or "",
        input=metadata.get("input"),
        schema=_edited_schema(interrupt.response_schema or {}),
        expires_at=interrupt.expires_at,
    )


def views_for(run_pks: Iterable[int]) -> tuple[InterruptView, ...]:
    rows = (
        models.Interrupt.objects.filter(run__in=list(run_pks))
        .select_related("run", "answered_by")
        .order_by("pk")
    )
    return tuple(map(view_of, rows))


def _shown_call(interrupt: Interrupt) -> str:
    """The call whose card asks: the outermost one, when a subagent's call is meant."""
    path = (interrupt.metadata or {}).get("path")
    return str(path[0]["toolCallId"]) if path else interrupt.tool_call_id or ""


def _tool_name(interrupt: Interrupt) -> str:
    return str((interrupt.metadata or {}).get("toolName", ""))


def _edited_schema(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the arguments, out of the response schema's branch for "approved"."""
    for branch in response.get("oneOf", ()):
        edited = branch.get("properties", {}).get("editedArgs")
        if edited is not None:
            roots = {key: response[key] for key in ("$defs", "definitions") if key in response}
            return {**edited, **roots}
    return {}
