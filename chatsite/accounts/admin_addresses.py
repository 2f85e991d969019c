"""People's addresses. Who has an address that counts as proven gets into the account by mail, so only superusers say
that one is: for others it would be a way into any account."""

from __future__ import annotations

from typing import Any

from allauth.account.admin import EmailAddressAdmin
from allauth.account.models import EmailAddress
from django.contrib import admin
from django.http import HttpRequest

from chatsite.adminkit.races import OnceOnly

if admin.site.is_registered(EmailAddress):
    admin.site.unregister(EmailAddress)


def _is_superuser(self: Any, request: HttpRequest, obj: Any = None) -> bool:
    return bool(request.user.is_active and request.user.is_superuser)


@admin.register(EmailAddress)
class AddressAdmin(OnceOnly, EmailAddressAdmin):
    has_module_permission = has_view_permission = has_add_permission = _is_superuser
    has_change_permission = has_delete_permission = _is_superuser
