"""Signing somebody in who has shown who they are in a way of ours (the setup link, an invitation), and asking again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseBase


def sign_in(request: HttpRequest, user: Any) -> HttpResponseBase:
    """Through the same stages as with a password, so a second factor that is asked for is asked for here too."""
    from allauth.account.utils import perform_login

    answer: HttpResponseBase = perform_login(request, user, email_verification="none")
    return answer


def shown_again(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Whoever is signed in shows once more who they are, unless they did in the last minutes; then it goes on.

    Who has neither a password nor a second factor here has nothing to show: another house vouches for them.
    """

    @wraps(view)
    def ask(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        from allauth.account.adapter import get_adapter
        from allauth.account.internal.flows.reauthentication import did_recently_reauthenticate
        from allauth.core.exceptions import ReauthenticationRequired

        has_something = bool(get_adapter().get_reauthentication_methods(request.user))
        if has_something and not did_recently_reauthenticate(request):
            raise ReauthenticationRequired
        return view(request, *args, **kwargs)

    return ask
