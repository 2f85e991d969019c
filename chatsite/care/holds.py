"""Nobody erases what is held: no rule of retention, no upkeep behind a person's own "delete", no erasure of the person.

A hold is on all of a person, or on one thread of theirs (which keeps the person, too). It takes nobody's access away,
and nobody sees in the chat that there is one.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _

from chatsite.audit import log
from chatsite.care.models import Hold


class Refused(Exception):
    """A sentence for whoever asked."""


def place(*, user: Any, thread: str = "", reason: str, actor: Any = None, door: str = "") -> Hold:
    """Raises Refused without a reason, and where there is such a hold already."""
    reason = _reason(reason)
    with transaction.atomic():
        # An erasure that begins meanwhile waits here, and then sees the hold.
        get_user_model().objects.select_for_update().only("pk").get(pk=user.pk)
        try:
            with transaction.atomic():
                hold = Hold.objects.create(
                    user=user, thread=thread, reason=reason, placed_by=actor.get_username() if actor else ""
                )
        except IntegrityError:
            raise Refused(_("There is such a hold already: lift it first, to give another reason.")) from None
        log.record("hold.placed", actor=actor, subject=subject_of(hold), reason=reason, door=door)
    return hold


def lift(hold: Hold, *, reason: str, actor: Any = None, door: str = "") -> None:
    reason = _reason(reason)
    with transaction.atomic():
        log_as = subject_of(hold)
        hold.delete()
        log.record("hold.lifted", actor=actor, subject=log_as, reason=reason, door=door)


def on(user_pk: Any) -> list[Hold]:
    """All holds on a person and on threads of theirs."""
    return list(Hold.objects.filter(user=user_pk).order_by("pk"))


def free(rows: QuerySet[Any], owner: str, thread: str = "") -> QuerySet[Any]:
    """Those of the rows that nobody holds. `owner` is the path to their user's key, `thread` to their thread's id."""
    holding = Hold.objects.filter(user=OuterRef(owner))
    holding = (
        holding.filter(Q(thread="") | Q(thread=OuterRef(thread))) if thread else holding.filter(thread="")
    )
    return rows.filter(~Exists(holding))


def subject_of(hold: Hold) -> str:
    return f"user {hold.user}" + (f", thread {hold.thread}" if hold.thread else "")


def _reason(given: str) -> str:
    given = given.strip()
    if not given:
        raise Refused(_("Write a reason: it is kept in the audit log."))
    return given[:2000]
