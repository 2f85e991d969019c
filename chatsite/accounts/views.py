"""The pages of accounts that are not django-allauth's."""

from __future__ import annotations

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse


def admin_login(request: HttpRequest) -> HttpResponseBase:
    """Who is signed in and comes here may not open the admin; everybody else signs in where all do."""
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))
