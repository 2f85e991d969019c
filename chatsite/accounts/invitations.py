"""Invitations: a link that makes one account, in these groups, until it is used, revoked or too old.

Rule 1: the token is told once, to whoever makes the invitation (or by mail to the invited); what is kept is its hash.
Rule 2: of two who accept at once, one gets the account.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.forms import BaseUserCreationForm
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from chatsite.accounts.models import Invitation
from chatsite.audit import log

DAYS = 7
MOST_DAYS = 90


class NewAccountForm(BaseUserCreationForm):
    """As for the first administrator: a name and a password, twice."""

    class Meta(BaseUserCreationForm.Meta):
        model = get_user_model()

    def clean_username(self) -> str:
        from allauth.account.adapter import get_adapter

        return get_adapter().clean_username(self.cleaned_data["username"])


@transaction.atomic
def invite(
    *, email: str = "", groups: Iterable[Any] = (), days: int = DAYS, by: Any = None
) -> tuple[Invitation, str]:
    """The invitation, and the token that is told here and nowhere else."""
    token = secrets.token_urlsafe(32)
    made = Invitation.objects.create(
        digest=_digest(token), email=email, made_by=by, expires_at=timezone.now() + timedelta(days=days)
    )
    made.groups.set(groups)
    log.record(
        "invitation.made", actor=by, subject=_subject(made), facts={"groups": _names(made), "days": days}
    )
    return made, token


def send(made: Invitation, link: str) -> None:
    """Mail it to the invited, who thereby proves the address."""
    words = _(
        "You are invited to Threadloom. This link makes your account; it works once, until %(day)s:\n\n%(link)s\n"
    )
    send_mail(
        _("Your invitation to Threadloom"),
        words % {"day": f"{made.expires_at:%Y-%m-%d}", "link": link},
        None,
        [made.email],
    )
    Invitation.objects.filter(pk=made.pk).update(mailed=True)


def find(token: str) -> Invitation | None:
    """The invitation, if it is still good."""
    return _good().filter(digest=_digest(token)).first()


@transaction.atomic
def revoke(invitation: Invitation, *, by: Any = None) -> bool:
    done = bool(_good().filter(pk=invitation.pk).update(revoked_at=timezone.now()))
    if done:
        log.record("invitation.revoked", actor=by, subject=_subject(invitation))
    return done


@transaction.atomic
def accept(invitation: Invitation, form: NewAccountForm) -> Any | None:
    """The new user, or None when the invitation is (by now) worth nothing."""
    if not _good().filter(pk=invitation.pk).update(used_at=timezone.now()):
        return None
    form.instance.email = invitation.email
    user = form.save()
    user.groups.set(invitation.groups.all())
    Invitation.objects.filter(pk=invitation.pk).update(used_by=user)
    if invitation.email:
        _own_address(user, invitation)
    log.record(
        "invitation.used", actor=user, subject=_subject(invitation), facts={"groups": _names(invitation)}
    )
    return user


def _own_address(user: Any, invitation: Invitation) -> None:
    from allauth.account.models import EmailAddress

    taken = EmailAddress.objects.filter(email__iexact=invitation.email, verified=True).exists()
    EmailAddress.objects.create(
        user=user, email=invitation.email.lower(), primary=True, verified=invitation.mailed and not taken
    )


def still_good() -> Q:
    return Q(used_at=None, revoked_at=None, expires_at__gt=timezone.now())


def _good() -> Any:
    return Invitation.objects.filter(still_good())


def _subject(invitation: Invitation) -> str:
    return f"invitation {invitation.pk}" + (f" for {invitation.email}" if invitation.email else "")


def _names(invitation: Invitation) -> str:
    """As one text, which the log cuts: of many long names a list would be refused."""
    return ", ".join(sorted(invitation.groups.values_list("name", flat=True)))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
