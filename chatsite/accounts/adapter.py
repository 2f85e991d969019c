"""Where django-allauth asks us about local accounts."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _

from chatsite.accounts.conf import setting

WRONG = _("The name or the password is not right. Both mind capitals.")

OURS = {"allauth.account.stages.EmailVerificationStage": "chatsite.accounts.stages.ProofStage"}
SEEN_ANYWAY = ("account/messages/logged_in.txt", "account/messages/logged_out.txt")


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        # One sentence for all of them: whether there is such an account is nobody's business.
        "username_password_mismatch": WRONG,
        "email_password_mismatch": WRONG,
        "invalid_login": WRONG,
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return bool(setting("SIGNUP"))

    def get_login_stages(self) -> list[str]:
        theirs = super().get_login_stages()
        return [*(OURS.get(stage, stage) for stage in theirs), "chatsite.accounts.stages.FactorDueStage"]

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("account")

    def send_password_reset_mail(self, user: Any, email: str, context: dict[str, Any]) -> None:
        """Who signs in elsewhere gets no second way in by mail: whoever lets them go there would not know of it."""
        if user.has_usable_password():
            super().send_password_reset_mail(user, email, context)

    def is_safe_url(self, url: str) -> bool:
        """Only this very host: another name of ALLOWED_HOSTS may be another site."""
        return url_has_allowed_host_and_scheme(
            url, {self.request.get_host()}, require_https=self.request.is_secure()
        )

    def clean_username(self, username: str, shallow: bool = False) -> str:
        if "@" in username:
            # It could be somebody else's address, who could then not sign in with it any more.
            raise ValidationError(_("A user name holds no @."))
        return str(super().clean_username(username, shallow))

    def add_message(
        self, request: HttpRequest, level: int, template: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        """Who came in or left sees it; it would be told on whatever page shows messages next."""
        if template not in SEEN_ANYWAY:
            super().add_message(request, level, template, *args, **kwargs)
