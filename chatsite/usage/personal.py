"""What the figures say of people (`chatsite.care.lines`): nothing but their key, and that goes with them."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from chatsite.care.lines import Rows


class ByUser(Rows):
    """The sums of one person. They stay in those of everybody."""

    __slots__ = ()

    def of(self, pk: Any) -> QuerySet[Any]:
        return self.table._default_manager.filter(about="user", value=str(pk))


LINES = (ByUser("usage.Day", "value"),)
