"""Where django-allauth asks us about second factors."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from chatsite.accounts import factors


class FactorsAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {
        "cannot_delete_authenticator": _("This site asks you for a second factor: add another one first."),
    }

    def encrypt(self, text: str) -> str:
        """What a code is made from is not kept in the clear: the database alone makes no codes."""
        return _box().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        plain: bytes = _box().decrypt(encrypted_text.encode())
        return plain.decode()

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        others = Authenticator.objects.filter(user=authenticator.user, type__in=factors.REAL)
        return not factors.is_required_of(authenticator.user) or others.exclude(pk=authenticator.pk).exists()


def _box() -> Any:
    """By the site's key; what an older one (SECRET_KEY_FALLBACKS) has encrypted can still be read."""
    from cryptography.fernet import Fernet, MultiFernet

    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    hashed = (hashlib.sha256(b"threadloom second factors:" + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(each)) for each in hashed])
