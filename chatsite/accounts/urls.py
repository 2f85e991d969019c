"""The paths under /accounts/.

A view is imported when it is first asked for: the pages of second factors alone bring 10 MiB along. So their names are
written out here, and `include("allauth.urls")` is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path
from django.utils.module_loading import import_string


def later(view: str) -> Callable[..., HttpResponseBase]:
    """The view at this dotted path, once somebody comes."""

    def ask(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        answer: HttpResponseBase = import_string(view)(request, *args, **kwargs)
        return answer

    return ask


def _paths(*table: tuple[str, str, str]) -> list[URLPattern]:
    return [path(route, later(view), name=name) for route, view, name in table]


LOCAL = "allauth.account.views"

urlpatterns = _paths(
    ("login/", f"{LOCAL}.login", "login"),
    ("login/", f"{LOCAL}.login", "account_login"),
    ("logout/", f"{LOCAL}.logout", "logout"),
    ("logout/", f"{LOCAL}.logout", "account_logout"),
    ("inactive/", f"{LOCAL}.account_inactive", "account_inactive"),
    ("signup/", f"{LOCAL}.signup", "account_signup"),
    ("reauthenticate/", f"{LOCAL}.reauthenticate", "account_reauthenticate"),
    ("email/", f"{LOCAL}.email", "account_email"),
    ("confirm-email/", f"{LOCAL}.email_verification_sent", "account_email_verification_sent"),
    ("confirm-email/<str:key>/", f"{LOCAL}.confirm_email", "account_confirm_email"),
    ("password/change/", f"{LOCAL}.password_change", "account_change_password"),
    ("password/set/", f"{LOCAL}.password_set", "account_set_password"),
    ("password/reset/", f"{LOCAL}.password_reset", "account_reset_password"),
    ("password/reset/done/", f"{LOCAL}.password_reset_done", "account_reset_password_done"),
    (
        "password/reset/key/done/",
        f"{LOCAL}.password_reset_from_key_done",
        "account_reset_password_from_key_done",
    ),
    (
        "password/reset/key/<str:uidb36>-<str:key>/",
        f"{LOCAL}.password_reset_from_key",
        "account_reset_password_from_key",
    ),
)
