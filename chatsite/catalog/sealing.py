"""Keys of endpoints, encrypted where they are kept (Fernet: AES-128-CBC with HMAC-SHA256).

The key to them is derived from SECRET_KEY (HKDF-SHA256, RFC 5869), so a copy of the database alone opens nothing. With
SECRET_KEY_FALLBACKS the older ones still open what they sealed, and whatever is saved anew is sealed by the first. Who
changes SECRET_KEY otherwise enters the endpoints' keys once more.
"""

from __future__ import annotations

import base64

from django.conf import settings

PURPOSE = b"threadloom: keys of endpoints"


class CannotOpen(Exception):
    """It was sealed under another SECRET_KEY."""


def seal(text: str) -> str:
    return _fernet().encrypt(text.encode()).decode() if text else ""


def unseal(sealed: str) -> str:
    """Raises CannotOpen."""
    from cryptography.fernet import InvalidToken

    if not sealed:
        return ""
    try:
        return _fernet().decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise CannotOpen from None


def _fernet():
    # Loaded where a key is sealed or opened: most installations have theirs in the environment.
    from cryptography.fernet import Fernet, MultiFernet
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    def derived(secret: str) -> Fernet:
        key = HKDF(SHA256(), 32, salt=None, info=PURPOSE).derive(secret.encode())
        return Fernet(base64.urlsafe_b64encode(key))

    return MultiFernet([derived(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])
