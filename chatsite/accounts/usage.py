"""What keys have used, booked on their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Case, DecimalField, F, Value, When
from django.utils import timezone

from chatsite.accounts.keys import month_of
from chatsite.accounts.models import ApiKey

MONEY = DecimalField(max_digits=18, decimal_places=8)


@dataclass(frozen=True, slots=True)
class Used:
    """A sum over requests."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, other: Used) -> Used:
        return Used(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost + other.cost,
        )


def book(sums: Mapping[int, Used]) -> None:
    """Add to the keys of these pks, one statement each. A key that is gone has nobody to add to."""
    month = month_of(timezone.now())
    for pk in sorted(
        sums
    ):  # always in one order: two processes that book the same keys do not lock each other
        used = sums[pk]
        cost = Value(used.cost, MONEY)
        ApiKey.objects.filter(pk=pk).update(
            requests=F("requests") + used.requests,
            input_tokens=F("input_tokens") + used.input_tokens,
            output_tokens=F("output_tokens") + used.output_tokens,
            spent=F("spent") + cost,
            spent_this_month=Case(
                When(month=month, then=F("spent_this_month") + cost), default=cost, output_field=MONEY
            ),
            month=month,
        )
