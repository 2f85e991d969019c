"""The settings this app reads, with what they are when a project does not set them.

What Django has settings for (SECURE_SSL_REDIRECT, CSRF_TRUSTED_ORIGINS, ...) is asked of Django.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

DEFAULTS: dict[str, Any] = {
    # Proxies in front, the last entries of whose X-Forwarded-For are believed; see `addresses`.
    "TRUSTED_PROXIES": 0,
    # Whether people make accounts, and API keys, by themselves.
    "SIGNUP": False,
    "OWN_KEYS": True,
    # Who must have a second factor: "none", "staff" or "all".
    "MFA_REQUIRED": "none",
    # Whether mail can be sent.
    "HAS_MAIL": False,
    # Where the server is reached, for links that are made outside of a request; see `links`.
    "HTTPS": False,
    "HOST": "127.0.0.1",
    "PORT": 8000,
    "ANY_ADDRESS": frozenset({"0.0.0.0", "::"}),  # noqa: S104 - compared with, never bound here
    # An identity provider: its address ("": there is none), what its button says, whether whoever it knows gets an
    # account, the claim with groups, and the group of administrators.
    "OIDC_ISSUER": "",
    "OIDC_NAME": "single sign-on",
    "OIDC_SIGNUP": True,
    "OIDC_GROUPS_CLAIM": "",
    "OIDC_ADMIN_GROUP": "",
}


def setting(name: str) -> Any:
    return getattr(settings, name, DEFAULTS[name])
