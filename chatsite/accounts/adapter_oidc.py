"""Where django-allauth asks us about people whom an identity provider knows.

    who comes                                      then
    known by (issuer, sub)                         is signed in
    nobody here has the address                    gets an account (OIDC_SIGNUP), with the address if it is proven
    it is proven there, and here too               is connected with that account
    somebody here has the address otherwise        is told to sign in and connect: an address alone proves nobody
    the account there administers here             the same: whoever runs the provider must not take it by an address

Groups and the administrator's rights follow the provider at each sign-in, where the settings say by which claim.
"""

from __future__ import annotations

import logging
from typing import Any

from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.providers.base import AuthError
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from chatsite.accounts.auditing import subject_of
from chatsite.accounts.conf import setting
from chatsite.audit import log

logger = logging.getLogger(__name__)

PAGE = "account/oidc_problem.html"


class OidcAdapter(DefaultSocialAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return bool(setting("OIDC_SIGNUP"))

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        if sociallogin.state.get("process") != "login":
            return
        if not sociallogin.is_existing:
            self._known_by_address(request, sociallogin)
        if sociallogin.is_existing:
            follow(sociallogin.user, sociallogin.account.extra_data)

    def _known_by_address(self, request: HttpRequest, sociallogin: Any) -> None:
        address = next(iter(sociallogin.email_addresses), None)
        if address is None:
            return
        owner = _who_has_proven(address.email)
        if address.verified and owner is not None and not owner.is_staff:
            sociallogin.connect(request, owner)
        elif owner is not None or _is_written_somewhere(address.email):
            raise ImmediateHttpResponse(render(request, PAGE, {"words": _taken(address.email)}, status=403))
        elif not address.verified:
            sociallogin.email_addresses = []
            sociallogin.user.email = ""

    @transaction.atomic
    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        user = super().save_user(request, sociallogin, form)
        follow(user, sociallogin.account.extra_data)
        return user

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:
        return reverse("account")

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Any = None,
        extra_context: Any = None,
    ) -> None:
        if error == AuthError.CANCELLED:
            words = _("You did not sign in there.")
        else:
            logger.warning("a sign-in by %s failed: %s", setting("OIDC_ISSUER"), repr(exception)[:300])
            log.record("login.failed", door="page", facts={"way": "oidc"})
            words = _(
                "The answer of the identity provider was not what it has to be. Try again from the start."
            )
        raise ImmediateHttpResponse(render(request, PAGE, {"words": words}, status=403))


def _taken(address: str) -> str:
    return _(
        "There is an account with the address %(address)s here. Sign in to it in the way you know, and connect the"
        " two on your account's page."
    ) % {"address": address}


def _who_has_proven(address: str) -> Any | None:
    row = EmailAddress.objects.filter(email__iexact=address, verified=True).select_related("user").first()
    return row.user if row else None


def _is_written_somewhere(address: str) -> bool:
    people = get_user_model().objects.filter(email__iexact=address)
    return people.exists() or EmailAddress.objects.filter(email__iexact=address).exists()


@transaction.atomic
def follow(user: Any, told: dict[str, Any]) -> None:
    """Give the user the groups and rights that the provider says, of those that there are here."""
    names = set(told.get("groups") or ())
    changed = []
    if setting("OIDC_GROUPS_CLAIM"):
        wanted = set(Group.objects.filter(name__in=names))
        if wanted != set(user.groups.all()):
            user.groups.set(wanted)
            changed.append("groups")
    if setting("OIDC_ADMIN_GROUP") and _becomes(user, setting("OIDC_ADMIN_GROUP") in names):
        changed.append("is_superuser")
    if changed:
        log.record("user.changed", subject=subject_of(user), door="oidc", facts={"fields": changed})


def _becomes(user: Any, admin: bool) -> bool:
    """Whether that was a change. The last administrator stays one: somebody must be able to mend the settings."""
    if user.is_superuser == admin == user.is_staff:
        return False
    others = get_user_model().objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    if not admin and (not user.is_superuser or not others.exists()):
        return False
    user.is_staff = user.is_superuser = admin
    user.save(update_fields=["is_staff", "is_superuser"])
    return True
