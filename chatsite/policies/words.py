"""What a limit says to the person who reached it."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_noop as noop

from chatsite.phrases import money
from chatsite.policies.quotas import COUNTED, Over
from chatsite.policies.windows import MONTH, next_of

OVER = {
    "requests_per_minute": noop("You may send %(limit)s requests a minute. Try again in %(seconds)s s."),
    "requests_per_day": noop("Your %(limit)s requests of today are used up; they come back at 00:00 UTC."),
    "tokens_per_minute": noop("You may use %(limit)s tokens a minute. Try again in %(seconds)s s."),
    "tokens_per_day": noop("Your daily tokens are used up; they come back at 00:00 UTC."),
    "tokens_per_month": noop("Your monthly tokens are used up; they come back on %(day)s."),
    "cost_per_month": noop("Your budget of this month is used up; it comes back on %(day)s."),
    "runs_at_once": noop(
        "You have %(limit)s answers under way, which is the most at once. Wait for one or stop it, then try again."
    ),
    "cost": noop("The budget of this API key is used up. An administrator can raise it."),
}
GROUPS = {
    "requests_per_minute": noop(
        "The group “%(group)s” may send %(limit)s requests a minute. Try again in %(seconds)s s."
    ),
    "requests_per_day": noop(
        "The %(limit)s requests of the group “%(group)s” are used up for today; they come back at 00:00 UTC."
    ),
    "tokens_per_day": noop(
        "The daily tokens of the group “%(group)s” are used up; they come back at 00:00 UTC."
    ),
    "tokens_per_month": noop(
        "The monthly tokens of the group “%(group)s” are used up; they come back on %(day)s."
    ),
    "cost_per_month": noop(
        "This month's budget of the group “%(group)s” is used up; it comes back on %(day)s."
    ),
    "runs_at_once": noop(
        "The group “%(group)s” has %(limit)s answers under way, which is the most at once. Try again soon."
    ),
}
HELD = noop(
    "What is left of your limit is needed by answers that are under way. Try again when they are done."
)

STOPPED = {
    "tokens_per_day": gettext_lazy("Your daily tokens are used up; they come back at 00:00 UTC."),
    "tokens_per_month": gettext_lazy(
        "Your monthly tokens are used up; they come back on the first of next month (UTC)."
    ),
    "cost_per_month": gettext_lazy(
        "Your budget of this month is used up; it comes back on the first of next month (UTC)."
    ),
    "group_tokens_per_day": gettext_lazy(
        "The daily tokens of your group are used up; they come back at 00:00 UTC."
    ),
    "group_tokens_per_month": gettext_lazy(
        "The monthly tokens of your group are used up; they come back on the first of next month (UTC)."
    ),
    "group_cost_per_month": gettext_lazy(
        "Your group's budget of this month is used up; it comes back on the first of next month (UTC)."
    ),
    "key_tokens_per_minute": gettext_lazy("The tokens of this API key are used up for this minute."),
    "key_cost_per_month": gettext_lazy("This month's budget of the API key is used up."),
    "key_cost": gettext_lazy("The budget of the API key is used up. An administrator can raise it."),
}
"""Of the limits that stop a run between two turns, by their names (`Over.name`)."""


def said(over: Over, now: datetime) -> str:
    """Why nothing begins, and when it would."""
    if over.held:
        return _(HELD)
    words = GROUPS if over.account.group else OVER
    limit = getattr(over.account.limits, over.limit)
    figure = money(limit) if over.limit.startswith("cost") else f"{limit:,}"
    return _(words[over.limit]) % {
        "limit": figure,
        "seconds": over.retry_after(now),
        "group": over.account.group,
        "day": _day(over, now),
    }


def _day(over: Over, now: datetime) -> str:
    span = COUNTED.get(over.limit, ("", ""))[0]
    return f"{next_of(span, now):%-d %B} (UTC)" if span == MONTH else ""
