"""Links that an administrator hands to somebody."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from chatsite.accounts.conf import setting


def absolute(path: str, request: HttpRequest | None = None) -> str:
    """The path with the site's address: as the request has it, else as the settings say it."""
    return request.build_absolute_uri(path) if request is not None else site_url() + path


def site_url() -> str:
    if settings.CSRF_TRUSTED_ORIGINS:
        return str(settings.CSRF_TRUSTED_ORIGINS[0])
    if setting("HTTPS"):
        return f"https://{settings.ALLOWED_HOSTS[0].lstrip('.')}"
    host = "127.0.0.1" if setting("HOST") in setting("ANY_ADDRESS") else setting("HOST")
    return f"http://{f'[{host}]' if ':' in host else host}:{setting('PORT')}"


def reset_link(user: Any, request: HttpRequest | None = None) -> str:
    """Lets whoever has it choose a new password, once, for PASSWORD_RESET_TIMEOUT seconds."""
    from allauth.account import app_settings
    from allauth.account.utils import user_pk_to_url_str

    key = app_settings.PASSWORD_RESET_TOKEN_GENERATOR().make_token(user)
    names = {"uidb36": user_pk_to_url_str(user), "key": key}
    return absolute(reverse("account_reset_password_from_key", kwargs=names), request)
