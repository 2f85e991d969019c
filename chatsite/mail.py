"""EMAIL_URL as Django's settings for mail."""

from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

FORMS = "smtp://USER:PASSWORD@HOST:PORT, smtp+starttls://..., smtps://... or console:"
PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


def mail_settings(url: str) -> dict[str, Any]:
    """Nothing when there is no mail server. What is wrong is said without the address: it holds a password."""
    if not url:
        return {}
    if url == "console:":
        return {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in PORTS:
        raise ImproperlyConfigured(f"EMAIL_URL is no address of a mail server; write {FORMS}.")
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": host,
        "EMAIL_PORT": port or PORTS[parts.scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_USE_TLS": parts.scheme == "smtp+starttls",
    }
