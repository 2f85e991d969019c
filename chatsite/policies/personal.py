"""What policies say of people (`chatsite.care.lines`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from chatsite.care.exporting import Part, as_json
from chatsite.care.lines import Rows
from chatsite.policies.models import Used


class OfSubject(Rows):
    """Rows that name their person in words and not by a key: what people, groups and keys used stands together."""

    __slots__ = ()

    def of(self, pk: Any) -> QuerySet[Any]:
        return self.table._default_manager.filter(subject=f"user:{pk}")


LINES = (
    Rows("policies.UserPolicy", "user"),
    OfSubject("policies.Reservation", ""),
    OfSubject("policies.Used", ""),
)


def usage_of(user: Any) -> Iterator[Part]:
    rows = Used.objects.filter(subject=f"user:{user.pk}").order_by("span")
    yield "usage.json", as_json(list(rows.values("span", "since", "requests", "tokens", "cost")))


EXPORTS = (usage_of,)
