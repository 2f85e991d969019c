"""The first administrator.

A site without an administrator has one setup link, printed at its start. Its token is kept as a hash, lasts a
day, works once, and dies with the next start or the first administrator, however that one was made.
"""

import hashlib
import hmac
import secrets
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.forms import UserCreationForm
from django.db import transaction
from django.utils import timezone

from chatsite.operator.models import SetupLink

LIFETIME = timedelta(hours=24)
ONLY_ROW = 1


class FirstAdminForm(UserCreationForm):
    class Meta(UserCreationForm.Meta):
        model = get_user_model()

    def save(self, commit=True):
        self.instance.is_staff = self.instance.is_superuser = True
        return super().save(commit)


@transaction.atomic
def renew_link() -> str | None:
    """A new token in place of any older one, or None when the site has an administrator."""
    if _has_admin():
        SetupLink.objects.all().delete()
        return None
    token = secrets.token_urlsafe(32)
    SetupLink.objects.update_or_create(
        id=ONLY_ROW, defaults={"digest": _digest(token), "expires_at": timezone.now() + LIFETIME}
    )
    return token


def is_valid(token: str) -> bool:
    link = SetupLink.objects.filter(id=ONLY_ROW, expires_at__gt=timezone.now()).first()
    return link is not None and hmac.compare_digest(link.digest, _digest(token)) and not _has_admin()


@transaction.atomic
def make_first_admin(token: str, form: FirstAdminForm):
    """The new user, or None when the link is (by now) worth nothing."""
    # Of two who try at once, one deletes the row; the other waits for that and then finds nothing to delete.
    if not is_valid(token) or not SetupLink.objects.filter(id=ONLY_ROW, digest=_digest(token)).delete()[0]:
        return None
    return form.save()


def _has_admin() -> bool:
    return get_user_model().objects.filter(is_superuser=True, is_active=True).exists()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
