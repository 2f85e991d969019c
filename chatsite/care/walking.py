"""From person to person, a few at a time: how rules of retention, which differ between people, find what is due.

Each look into an index finds the next person who has rows at all. Behind the last one the walk rests for a while; it
remembers its place in this process alone, since to begin again costs little and harms nothing.
"""

from __future__ import annotations

import time
from typing import Any

from django.db.models import Min, QuerySet

REST = 3600.0
"""Seconds between two walks."""


class Walk:
    def __init__(self) -> None:
        self._after: Any = None
        self._rest_until = 0.0

    def next_of(self, rows: QuerySet[Any], column: str) -> Any:
        """The next value of the column, which an index has; None at the end, and for as long as the walk rests."""
        if time.monotonic() < self._rest_until:
            return None
        if self._after is not None:
            rows = rows.filter(**{f"{column}__gt": self._after})
        self._after = rows.aggregate(next=Min(column))["next"]
        if self._after is None:
            self._rest_until = time.monotonic() + REST
        return self._after

    def again(self) -> None:
        """Begin at the first one, and now."""
        self._after, self._rest_until = None, 0.0
