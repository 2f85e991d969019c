"""What comes between the password and being signed in, beside django-allauth's own stages."""

from __future__ import annotations

from typing import Any

from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage, LoginStage
from allauth.core.internal.httpkit import headed_redirect_response

from chatsite.accounts import factors


class ProofStage(EmailVerificationStage):
    """Who has signed up proves their address before they come in for the first time; nobody else is held up.

    An account that an administrator made, or that was there before there was a mail server, has another's word for it.
    """

    def handle(self) -> tuple[Any, bool]:
        user = self.login.user
        known = user is not None and user.last_login is not None
        # Without a user it is a sign-up with a taken address, which has to look like any other.
        if known or (user is not None and not EmailAddress.objects.filter(user=user).exists()):
            return None, True
        answer: tuple[Any, bool] = super().handle()
        return answer


class FactorDueStage(LoginStage):
    """Who must have a second factor and has none sets one up first: until then nobody is signed in.

    Whoever comes from an identity provider has it there, or the operator does not want it.
    """

    key = "factor_due"
    urlname = "mfa_due"

    def handle(self) -> tuple[Any, bool]:
        user = self.login.user
        if user is None or not factors.is_required_of(user) or factors.has_any(user):
            return None, True
        records = get_authentication_records(self.request, user)
        if any(record["method"] == "socialaccount" for record in records):
            return None, True
        return headed_redirect_response("mfa_due"), True
