"""What subjects have used, in the windows that are now: one statement, which holds the rows until the transaction ends.

Rows are taken in the order of their subjects, and of each its windows (`windows.SPANS`), so that nobody who waits for
one holds another that is waited for. Which subjects, and when, is the business of `quotas`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from django.db import connection

from chatsite.policies.models import Used
from chatsite.policies.windows import SPANS, window_of

Counted = dict[tuple[str, str], Used]
"""By subject and span."""
Counting = tuple[str, int, int, Decimal]
"""Subject, requests, tokens, money."""

ROW = "(%s, %s, %s, %s, %s, %s)"
COUNT = """
    INSERT INTO policies_used (subject, span, since, requests, tokens, cost) VALUES {rows}
    ON CONFLICT (subject, span) DO UPDATE SET
        requests = excluded.requests
            + CASE WHEN policies_used.since >= excluded.since THEN policies_used.requests ELSE 0 END,
        tokens = excluded.tokens
            + CASE WHEN policies_used.since >= excluded.since THEN policies_used.tokens ELSE 0 END,
        cost = excluded.cost
            + CASE WHEN policies_used.since >= excluded.since THEN policies_used.cost ELSE 0 END,
        since = CASE WHEN policies_used.since >= excluded.since THEN policies_used.since ELSE excluded.since END
    RETURNING subject, span, since, requests, tokens, cost
"""
"""Add to the windows that are now; a row of an earlier one begins anew. Also with nothing to add it takes hold of the
rows. A clock that is behind another process's counts into that one's window."""


def count(
    subjects: Sequence[str],
    now: datetime,
    *,
    requests: int = 0,
    tokens: int = 0,
    cost: Decimal = Decimal(0),
) -> Counted:
    """Add the same to each of them; they are in order. Nothing at all only takes hold of their rows."""
    return add([(subject, requests, tokens, cost) for subject in subjects], now)


def add(amounts: Sequence[Counting], now: datetime) -> Counted:
    """Each is of another subject; they are in order."""
    if not amounts:
        return {}
    given = [
        value
        for subject, *more in amounts
        for span in SPANS
        for value in (subject, span, window_of(span, now), *more)
    ]
    with connection.cursor() as cursor:
        cursor.execute(COUNT.format(rows=", ".join([ROW] * (len(amounts) * len(SPANS)))), given)
        found = cursor.fetchall()
    return {(row[0], row[1]): _used(*row) for row in found}


def _used(subject: str, span: str, since: str, requests: int, tokens: int, cost: object) -> Used:
    return Used(
        subject=subject, span=span, since=since, requests=requests, tokens=tokens, cost=Decimal(str(cost))
    )
