"""Erase a person: all rows and files that `lines` knows, and then the account. With proof.

    begin(user)      says no (a hold, the last administrator), or: the account is shut, what there is is counted,
                     and an Erasure and an audit entry say who wanted it and why
    one_step         one short transaction: some rows of one table; in the last one the account, proof, audit entry
    run(erasure)     steps until it is over, or the time is

Rule 1: an erasure can be stopped anywhere. Its row is its memory: whoever runs it again goes on, and so does upkeep.
Rule 2: it is over when every table counts 0 in the transaction that deletes the account. That is the proof:
        counts before and after, and its SHA-256 in the audit log, whose entry's hash stands in it.
Rule 3: what stays is who was erased, by whom, when, why and how much. Backups keep what they had until they are
        deleted themselves; a person who comes back out of one has to be erased again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from chatsite.audit import log
from chatsite.care import holds
from chatsite.care.holds import Refused
from chatsite.care.lines import lines, modules
from chatsite.care.models import Erasure

Tell = Callable[[str, int, int], None]
"""Table, rows gone, rows there were."""

_places: dict[int, int] = {}
"""Erasure -> the line it is at, of this process: to begin at the first one again costs time, and nothing else."""


def begin(user: Any, *, reason: str, actor: Any = None, door: str = "") -> Erasure:
    """Raises Refused. One that began before goes on as it was asked for then."""
    reason = reason.strip()
    if not reason:
        raise Refused(_("Write a reason: it is kept in the audit log."))
    with transaction.atomic():
        person = get_user_model().objects.select_for_update().get(pk=user.pk)
        known = Erasure.objects.filter(user_id=str(person.pk)).first()
        if known is not None:
            return known
        _check(person, actor)
        person.is_active = False
        person.save(update_fields=["is_active"])
        erasure = Erasure.objects.create(
            user_id=str(person.pk),
            user_name=person.get_username(),
            reason=reason[:2000],
            asked_by=actor.get_username() if actor else "",
            door=door,
            before={line.name: line.count(person.pk) for line in lines()},
        )
        log.record(
            "user.erasure_begun",
            actor=actor,
            subject=f"user {person}",
            reason=reason,
            door=door,
            facts={"rows": sum(erasure.before.values()), "tables": len(erasure.before)},
        )
    return erasure


def _check(person: Any, actor: Any) -> None:
    if found := holds.on(person.pk):
        raise Refused(_("Nobody may erase this user: %(reason)s") % {"reason": _in_words(found)})
    if actor is not None and actor.pk == person.pk:
        raise Refused(_("This is you. Ask another administrator."))
    if actor is not None and person.is_superuser and not actor.is_superuser:
        raise Refused(_("Only an administrator who may do everything erases another one."))
    others = get_user_model().objects.filter(is_superuser=True, is_active=True).exclude(pk=person.pk)
    if person.is_superuser and not others.exists():
        raise Refused(_("This is the only administrator. Make another one first."))


def _in_words(found: list[Any]) -> str:
    return "; ".join(
        _("held (%(what)s) since %(day)s: %(reason)s")
        % {"what": hold.thread or _("everything"), "day": f"{hold.placed_at:%Y-%m-%d}", "reason": hold.reason}
        for hold in found
    )


def run(erasure: Erasure, *, seconds: float | None = None, tell: Tell | None = None) -> bool:
    """Go on until all is gone, or for so long; whether all is gone. Raises Refused when a hold came in between."""
    until = None if seconds is None else time.monotonic() + seconds
    _prepare(erasure)
    place = 0
    while erasure.finished_at is None:
        if until is not None and time.monotonic() > until:
            return False
        place = one_step(erasure, place, tell)
    return True


def step() -> bool:
    """For upkeep: a piece of an erasure that was left half way. False when there is none."""
    for erasure in Erasure.objects.filter(finished_at=None).order_by("pk"):
        try:
            _prepare(erasure)
            _places[erasure.pk] = one_step(erasure, _places.get(erasure.pk, 0))
        except Refused:
            continue  # it waits for the hold's end
        return True
    return False


def _prepare(erasure: Erasure) -> None:
    """What works for the person ends. Doing it again does no harm."""
    person = get_user_model().objects.filter(pk=erasure.user_id).first()
    if person is not None and erasure.finished_at is None:
        for module in modules():
            if (prepare := getattr(module, "before_erasing", None)) is not None:
                prepare(person)


def one_step(erasure: Erasure, place: int = 0, tell: Tell | None = None) -> int:
    """Some rows of the first line from `place` on that has any; where the next step begins.

    Lines before it were empty. Whether they still are is looked at in the end.
    """
    with transaction.atomic():
        _overwrite_what_goes()
        known = Erasure.objects.select_for_update().get(pk=erasure.pk)
        if known.finished_at is not None:  # somebody else went on with it meanwhile
            erasure.finished_at, erasure.proof = known.finished_at, known.proof
            return 0
        person = get_user_model().objects.select_for_update().filter(pk=erasure.user_id).first()
        if found := holds.on(erasure.user_id):
            raise Refused(_("Nobody may erase this user: %(reason)s") % {"reason": _in_words(found)})
        for place_of_line, line in enumerate(lines()[place:], place):
            if gone := line.erase_some(erasure.user_id):
                if tell is not None:
                    tell(line.name, gone, erasure.before.get(line.name, 0))
                return place_of_line
        _finish(erasure, person)
    return 0


def _overwrite_what_goes() -> None:
    """SQLite else leaves deleted text in the file until the space is used again."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete = ON")


def _finish(erasure: Erasure, person: Any) -> None:
    """In the transaction in which nothing was left to erase. If something came since, the next step goes on."""
    now = timezone.now()
    after = {line.name: line.count(erasure.user_id) for line in lines()}
    if any(after.values()):
        return
    if person is not None:
        person.delete()
    document = document_of(erasure, after, now)
    digest = digest_of(document)
    entry = log.record(
        "user.erased",
        actor=_actor_of(erasure),
        subject=f"user {erasure.user_name}",
        reason=erasure.reason,
        door=erasure.door,
        facts={"user_id": erasure.user_id, "rows": sum(erasure.before.values()), "proof_sha256": digest},
    )
    erasure.proof = {
        "document": document,
        "sha256": digest,
        "audit": {"number": entry.number, "hash": entry.hash},
    }
    erasure.finished_at = now
    erasure.save(update_fields=["proof", "finished_at"])


def document_of(erasure: Erasure, after: dict[str, int], finished: datetime) -> dict[str, Any]:
    return {
        "what": "erasure of a user",
        "user": {"id": erasure.user_id, "name": erasure.user_name},
        "reason": erasure.reason,
        "asked_by": erasure.asked_by,
        "started": erasure.started_at.astimezone(UTC).isoformat(),
        "finished": finished.astimezone(UTC).isoformat(),
        "rows": {
            name: {"before": erasure.before.get(name, 0), "after": left} for name, left in after.items()
        },
        "account": {"before": 1, "after": get_user_model().objects.filter(pk=erasure.user_id).count()},
    }


def digest_of(document: dict[str, Any]) -> str:
    """As anybody can make it: of the document as JSON with sorted names, without blanks, in ASCII."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _actor_of(erasure: Erasure) -> Any:
    """Who asked for it, if they are still here: it may be a while ago."""
    return get_user_model().objects.filter(**{get_user_model().USERNAME_FIELD: erasure.asked_by}).first()
