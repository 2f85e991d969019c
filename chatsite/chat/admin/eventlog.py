"""A page of what a run said: its kept events, as they were kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.paginator import Paginator
from django.utils.safestring import SafeString

from chatsite.adminkit.base import as_json
from chatsite.chat.models import Run, RunEvent

EVENTS_ON_A_PAGE = 200
PREVIEW = 140


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the log. `number` is a range when the row holds several deltas of one text."""

    number: str
    at: datetime | None
    since_start: str
    type: str
    preview: str
    data: SafeString | str


def page_of(run: Run, number: str | None) -> dict[str, Any]:
    paginator = Paginator(RunEvent.objects.filter(run=run).order_by("number"), EVENTS_ON_A_PAGE)
    page = paginator.get_page(number)
    return {"run": run, "page": page, "entries": list(_entries(run, page.object_list))}


def _entries(run: Run, rows: Any) -> Iterator[Entry]:
    began = run.created_at.timestamp() * 1000
    for row in rows:
        data = {key: value for key, value in row.data.items() if key not in {"type", "timestamp"}}
        stamp = row.data.get("timestamp")
        known = isinstance(stamp, int | float)
        yield Entry(
            number=str(row.number) if row.first == row.number else f"{row.first}–{row.number}",
            at=datetime.fromtimestamp(stamp / 1000, UTC) if known else None,
            since_start=f"{max(stamp - began, 0) / 1000:+.3f} s" if known else "",
            type=row.type,
            preview=_preview(data),
            data=as_json(data),
        )


def _preview(data: dict[str, Any]) -> str:
    deltas = data.get("delta")
    if isinstance(deltas, list):
        data = {**data, "delta": "".join(map(str, deltas))}
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= PREVIEW else text[: PREVIEW - 1] + "…"
