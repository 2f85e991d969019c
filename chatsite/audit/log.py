"""The one place that writes the audit log.

Rule 1: an entry is part of what it tells of: written in the caller's transaction, and gone with it.
Rule 2: one entry after another, over all processes. Whoever writes one holds the head until the transaction ends, so
`record` comes last in it: what else it has to wait for is held already, and nobody waits for each other.
Rule 3: never content (see `facts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from chatsite.audit.chain import hash_of, seal_fits, seal_of
from chatsite.audit.facts import checked, cut
from chatsite.audit.models import Entry, Head

THE_HEAD = 1


def record(
    action: str,
    *,
    actor: Any = None,
    subject: str = "",
    reason: str = "",
    door: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Entry:
    """Write down that `actor` (a user; None: nobody who is known) did this. `action` is dotted words: "key.made".

    `subject` is whom or what it was done to, as text: "user ada", "thread Xb3…", "key tl-4f…".
    """
    said = {
        "action": cut(action, 100),
        "actor_id": _id_of(actor),
        "actor_name": _name_of(actor),
        "subject": cut(subject, 300),
        "reason": cut(reason, 2000),
        "door": cut(door, 20),
        "facts": checked(facts),
    }
    with transaction.atomic():
        head = _held_head()
        if not seal_fits(head):
            _append(head, action="audit.seal_broken", facts={"head": head.number, "hash": head.hash})
        entry = _append(head, **said)
        head.seal = seal_of(head)
        head.save(update_fields=["number", "hash", "seal"])
    return entry


def _append(head: Head, **said: Any) -> Entry:
    entry = Entry(number=head.number + 1, at=timezone.now(), previous=head.hash, **said)
    entry.hash = hash_of(entry)
    entry.save()
    head.number, head.hash = entry.number, entry.hash
    return entry


def _held_head() -> Head:
    """The head, which nobody else writes until this transaction ends: on either database an update sees to that."""
    hold = Head.objects.filter(pk=THE_HEAD)
    if not hold.update(number=F("number")):
        # The first entry of all; or somebody took the head away, which shows in its missing seal.
        last = Entry.objects.order_by("-number").first()
        made = Head(pk=THE_HEAD, number=last.number, hash=last.hash) if last else Head(pk=THE_HEAD)
        Head.objects.bulk_create([made], ignore_conflicts=True)
        hold.update(number=F("number"))
    return hold.get()


def _id_of(actor: Any) -> str:
    return str(actor.pk)[:64] if getattr(actor, "pk", None) is not None else ""


def _name_of(actor: Any) -> str:
    return cut(actor.get_username(), 200) if getattr(actor, "pk", None) is not None else ""
