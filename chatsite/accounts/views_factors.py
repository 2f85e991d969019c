"""Second factors, where django-allauth's pages do not do it."""

from __future__ import annotations

import base64
from typing import Any

from allauth.account.decorators import reauthentication_required
from allauth.account.internal.decorators import login_stage_required
from allauth.mfa import signals
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from allauth.mfa.webauthn.views import remove_webauthn
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from chatsite.accounts.stages import FactorDueStage


@never_cache
@login_stage_required(stage=FactorDueStage.key, redirect_urlname="account_login")
def due(request: HttpRequest) -> HttpResponseBase:
    """The factor that somebody must have before they are signed in. An app, as everybody has a telephone."""
    stage: Any = request._login_stage
    user = stage.login.user
    if request.method != "POST":
        return _form(request, user, totp.get_totp_secret(regenerate=True))
    secret = totp.get_totp_secret()
    if not totp.validate_totp_code(secret, request.POST.get("code", "")):
        return _form(request, user, secret, problem=_("That is not the code. It changes every 30 seconds."))
    codes = _set_up(request, user, secret)
    answer: HttpResponseBase = stage.exit()
    if not 300 <= answer.status_code < 400:
        return answer
    return render(request, "mfa/ready.html", {"codes": codes, "go_on": answer.headers["Location"]})


@transaction.atomic
def _set_up(request: HttpRequest, user: Any, secret: str) -> list[str]:
    """The app's factor, and the recovery codes beside it."""
    made = totp.TOTP.activate(user, secret).instance
    codes = RecoveryCodes.activate(user)
    codes.mark_as_viewed()
    totp.clear_totp_secret(request)
    signals.authenticator_added.send(Authenticator, request=request, user=user, authenticator=made)
    return codes.get_unused_codes()


def _form(request: HttpRequest, user: Any, secret: str, problem: str = "") -> HttpResponseBase:
    adapter = get_adapter()
    svg = adapter.build_totp_svg(adapter.build_totp_url(user, secret))
    picture = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    shown = {"picture": picture, "secret": secret, "problem": problem}
    return render(request, "mfa/due.html", shown)


@login_required
@reauthentication_required(app="allauth.mfa")
def remove_passkey(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Theirs lets the last factor go, also where there must be one."""
    row = get_object_or_404(Authenticator, pk=pk, user=request.user, type=Authenticator.Type.WEBAUTHN)
    if not get_adapter().can_delete_authenticator(row):
        words = get_adapter().error_messages["cannot_delete_authenticator"]
        return render(request, "mfa/webauthn/authenticator_confirm_delete.html", {"refused": words})
    answer: HttpResponseBase = remove_webauthn(request, pk=pk)
    return redirect("account") if request.method == "POST" else answer
