"""What an invitation's link leads to."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from chatsite.accounts import invitations
from chatsite.accounts.signing import sign_in

PAGE = "account/invitation.html"


@sensitive_post_parameters()
@sensitive_variables("token")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponseBase:
    """The form that makes the account and signs in to it; 404 with words for any other link."""
    found = invitations.find(token)
    if found is None:
        return _worth_nothing(request)
    if request.user.is_authenticated:
        return render(request, PAGE, {"invitation": found, "signed_in": True})
    form = invitations.NewAccountForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return render(request, PAGE, {"invitation": found, "form": form})
    user = invitations.accept(found, form)
    return _worth_nothing(request) if user is None else sign_in(request, user)


def _worth_nothing(request: HttpRequest) -> HttpResponse:
    return render(request, PAGE, {"invitation": None}, status=404)
