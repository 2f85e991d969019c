"""Second factors: which somebody has, and who must have one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from allauth.mfa.models import Authenticator

from chatsite.accounts.conf import setting

Type = Authenticator.Type
REAL = (Type.TOTP, Type.WEBAUTHN)
"""Recovery codes stand in for one of these; alone they are none."""


@dataclass(frozen=True, slots=True)
class Passkey:
    pk: int
    name: str
    last_used_at: Any


@dataclass(slots=True)
class Factors:
    app: bool = False
    passkeys: list[Passkey] = field(default_factory=list)
    codes: bool = False
    required: bool = False

    @property
    def any(self) -> bool:
        return self.app or bool(self.passkeys)


def factors_of(user: Any) -> Factors:
    found = Factors(required=is_required_of(user))
    for row in Authenticator.objects.filter(user=user).order_by("pk"):
        match row.type:
            case Type.TOTP:
                found.app = True
            case Type.WEBAUTHN:
                found.passkeys.append(Passkey(row.pk, row.data.get("name", ""), row.last_used_at))
            case Type.RECOVERY_CODES:
                found.codes = True
    return found


def is_required_of(user: Any) -> bool:
    return setting("MFA_REQUIRED") == "all" or (setting("MFA_REQUIRED") == "staff" and user.is_staff)


def has_any(user: Any) -> bool:
    return Authenticator.objects.filter(user=user, type__in=REAL).exists()
