"""A view behind a door: attempts are counted, and too many of them answered with 429 and words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatsite.accounts import addresses, doors

View = Callable[..., HttpResponseBase]


def guarded(door: str, view: View, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
    """The view's answer, or 429."""
    if request.method not in COUNTED.get(door, {"POST"}):
        return view(request, *args, **kwargs)
    try:
        attempt = doors.knock(door, addresses.of_request(request), _account(door, request))
    except doors.TooMany as refused:
        return too_many(request, refused.seconds)
    answer = view(request, *args, **kwargs)
    if LED_ON.get(door, _leads_on)(answer):
        attempt.led_on()
    return answer


def too_many(request: HttpRequest, seconds: int) -> HttpResponse:
    minutes = math.ceil(seconds / 60)
    wait = ngettext("Try again in %(n)d minute.", "Try again in %(n)d minutes.", minutes) % {"n": minutes}
    words = _("There were too many attempts from here, or at this account.")
    answer = render(request, "429.html", {"words": words, "wait": wait}, status=429)
    answer.headers["Retry-After"] = str(seconds)
    return answer


def _leads_on(answer: HttpResponseBase) -> bool:
    """A form that was right redirects; but not back to where everybody begins."""
    leads = 300 <= answer.status_code < 400
    return leads and not answer.headers.get("Location", "").startswith(reverse("login"))


def _found(answer: HttpResponseBase) -> bool:
    return answer.status_code < 400


def _never(answer: HttpResponseBase) -> bool:
    """Each one counts: it sends mail, or makes an account."""
    return False


LINKS = {"GET", "HEAD", "POST"}
COUNTED = {"link": LINKS, "setup": LINKS, "invitation": LINKS, "oidc": LINKS}
LED_ON = {
    "oidc": _found,
    "setup": _found,
    "invitation": _found,
    "reset": _never,
    "mail": _never,
    "signup": _never,
}


def _account(door: str, request: HttpRequest) -> str:
    """What is being guessed at."""
    match door:
        case "login":
            return request.POST.get("login", "")[:254]
        case "reset":
            return request.POST.get("email", "")[:254]
        case "again" | "mail":
            return str(request.user.pk or "")
        case "code":
            return _of_pending_login(request)
    return ""


def _of_pending_login(request: HttpRequest) -> str:
    """Who has shown the password and not yet the second factor; or who shows the factor once more."""
    if request.user.is_authenticated:
        return str(request.user.pk)
    from allauth.account.internal.stagekit import unstash_login

    login = unstash_login(request, peek=True)
    return str(login.user.pk) if login is not None and login.user is not None else ""
