"""The way to the identity provider and back."""

from __future__ import annotations

from allauth.account.adapter import get_adapter as account_adapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException

from chatsite.accounts import oidc
from chatsite.accounts.adapter_oidc import PAGE
from chatsite.accounts.auditing import record
from chatsite.accounts.conf import setting
from chatsite.accounts.signing import shown_again


@never_cache
@require_POST
def login(request: HttpRequest) -> HttpResponseBase:
    """To the provider. By a page, since ours says that its forms lead nowhere else."""
    return _leave(request, "login")


@login_required
@require_POST
@shown_again
def connect(request: HttpRequest) -> HttpResponseBase:
    """The same, to connect the account that is signed in with one there."""
    return _leave(request, "connect")


def _leave(request: HttpRequest, process: str) -> HttpResponseBase:
    _must_be_set_up()
    wanted = request.POST.get("next", "")
    next_url = wanted if wanted and account_adapter().is_safe_url(wanted) else None
    try:
        answer = get_adapter().get_provider(request, oidc.NAME).redirect(request, process, next_url)
    except (RequestException, OAuth2Error, KeyError, ValueError):
        words = _("The identity provider does not answer as it should. Try again soon.")
        return render(request, PAGE, {"words": words}, status=502)
    if not isinstance(answer, HttpResponseRedirect):
        return answer
    return render(request, "account/oidc_leaving.html", {"address": answer.url, "name": setting("OIDC_NAME")})


@never_cache
@require_GET
def callback(request: HttpRequest) -> HttpResponseBase:
    _must_be_set_up()
    try:
        return oidc.callback(request)
    except (KeyError, TypeError, ValueError) as error:  # an answer of another shape than the standard's
        try:
            get_adapter().on_authentication_error(request, None, exception=error)
        except ImmediateHttpResponse as answer:
            refused: HttpResponse = answer.response
            return refused
        raise


@login_required
@require_POST
@shown_again
@transaction.atomic
def disconnect(request: HttpRequest) -> HttpResponseBase:
    """Only for who has another way in."""
    if request.user.has_usable_password():
        SocialAccount.objects.filter(user=request.user).delete()
        record("identity.disconnected", request.user, request)
    return redirect("account")


def _must_be_set_up() -> None:
    if not setting("OIDC_ISSUER"):
        raise Http404
