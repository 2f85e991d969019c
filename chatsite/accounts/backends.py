"""A password with a user name, or with an address.

Rule: every attempt costs one hash, whether there is such a user, whether they have a password, and whether it is right.
So the time of an answer tells no more than its words.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend


class NameOrEmail(ModelBackend):
    def authenticate(self, request: Any, **credentials: Any) -> Any:
        login = credentials.get("username") or credentials.get("email")
        password = credentials.get("password")
        if not login or not password:
            return None
        user = _user_of(login)
        if user is None:
            get_user_model()().set_password(password)  # the hash that everybody waits for
            return None
        return user if user.check_password(password) and self.user_can_authenticate(user) else None

    async def aauthenticate(self, request: Any, **credentials: Any) -> Any:
        return await sync_to_async(self.authenticate)(request, **credentials)


def _user_of(login: str) -> Any | None:
    people = get_user_model()
    try:
        return people.objects.get_by_natural_key(login)
    except (people.DoesNotExist, ValueError):
        return _of_address(login) if "@" in login else None


def _of_address(address: str) -> Any | None:
    """The user whose address it is, proven addresses first. Two who merely claim it are nobody."""
    from allauth.account.internal.userkit import filter_users_by_email

    found = filter_users_by_email(address, prefer_verified=True, for_login=True)
    return found[0] if len(found) == 1 else None
