"""The paths under /accounts/.

A view is imported when it is first asked for: the pages of second factors alone bring 10 MiB along. So their names are
written out here, and `include("allauth.urls")` is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path, re_path
from django.utils.module_loading import import_string

from chatsite.accounts.guard import guarded
from chatsite.adminkit.races import looked_at_again


def later(view: str, door: str = "") -> Callable[..., HttpResponseBase]:
    """The view at this dotted path, once somebody comes; behind a `door` of `doors.DOORS`, not too often."""

    def ask(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        found = looked_at_again(import_string(view))
        return guarded(door, found, request, *args, **kwargs) if door else found(request, *args, **kwargs)

    return ask


def _paths(*table: tuple[str, str, str, str]) -> list[URLPattern]:
    """Of (route, view, name, door)."""
    return [path(route, later(view, door), name=name) for route, view, name, door in table]


LOCAL = "allauth.account.views"
OURS = "chatsite.accounts.views"
OIDC = "chatsite.accounts.views_oidc"
MFA = "allauth.mfa"
CODES = f"{MFA}.recovery_codes.views"
PASSKEYS = f"{MFA}.webauthn.views"

urlpatterns = _paths(
    ("", f"{OURS}.account", "account", ""),
    ("profile/", f"{OURS}.profile", "account_profile", ""),
    ("sessions/end/", f"{OURS}.end_sessions", "account_end_sessions", ""),
    ("sessions/<int:pk>/end/", f"{OURS}.end_session", "account_end_session", ""),
    ("keys/make/", f"{OURS}.make_key", "account_make_key", ""),
    ("keys/<int:pk>/revoke/", f"{OURS}.revoke_key", "account_revoke_key", ""),
    ("invitation/<str:token>/", "chatsite.accounts.views_invitations.invitation", "invitation", "invitation"),
    ("login/", f"{LOCAL}.login", "login", "login"),
    ("login/", f"{LOCAL}.login", "account_login", "login"),
    ("logout/", f"{LOCAL}.logout", "logout", ""),
    ("logout/", f"{LOCAL}.logout", "account_logout", ""),
    ("inactive/", f"{LOCAL}.account_inactive", "account_inactive", ""),
    ("signup/", f"{LOCAL}.signup", "account_signup", "signup"),
    ("reauthenticate/", f"{LOCAL}.reauthenticate", "account_reauthenticate", "again"),
    ("email/", f"{LOCAL}.email", "account_email", "mail"),
    ("confirm-email/", f"{LOCAL}.email_verification_sent", "account_email_verification_sent", ""),
    ("confirm-email/<str:key>/", f"{LOCAL}.confirm_email", "account_confirm_email", "link"),
    ("password/change/", f"{LOCAL}.password_change", "account_change_password", "again"),
    ("password/set/", f"{LOCAL}.password_set", "account_set_password", ""),
    ("password/reset/", f"{LOCAL}.password_reset", "account_reset_password", "reset"),
    ("password/reset/done/", f"{LOCAL}.password_reset_done", "account_reset_password_done", ""),
    (
        "password/reset/key/done/",
        f"{LOCAL}.password_reset_from_key_done",
        "account_reset_password_from_key_done",
        "",
    ),
    ("oidc/login/", f"{OIDC}.login", "oidc_login", "oidc"),
    ("oidc/connect/", f"{OIDC}.connect", "oidc_connect", "oidc"),
    ("oidc/disconnect/", f"{OIDC}.disconnect", "oidc_disconnect", ""),
    ("oidc/callback/", f"{OIDC}.callback", "oidc_callback", "oidc"),
    ("2fa/", f"{OURS}.account", "mfa_index", ""),
    ("2fa/authenticate/", f"{MFA}.base.views.authenticate", "mfa_authenticate", "code"),
    ("2fa/reauthenticate/", f"{MFA}.base.views.reauthenticate", "mfa_reauthenticate", "code"),
    ("2fa/due/", "chatsite.accounts.views_factors.due", "mfa_due", "code"),
    ("2fa/totp/activate/", f"{MFA}.totp.views.activate_totp", "mfa_activate_totp", "code"),
    ("2fa/totp/deactivate/", f"{MFA}.totp.views.deactivate_totp", "mfa_deactivate_totp", ""),
    ("2fa/recovery-codes/", f"{CODES}.view_recovery_codes", "mfa_view_recovery_codes", ""),
    (
        "2fa/recovery-codes/generate/",
        f"{CODES}.generate_recovery_codes",
        "mfa_generate_recovery_codes",
        "",
    ),
    ("2fa/webauthn/", f"{OURS}.account", "mfa_list_webauthn", ""),
    ("2fa/webauthn/add/", f"{PASSKEYS}.add_webauthn", "mfa_add_webauthn", ""),
    ("2fa/webauthn/login/", f"{PASSKEYS}.login_webauthn", "mfa_login_webauthn", "passkey"),
    (
        "2fa/webauthn/reauthenticate/",
        f"{PASSKEYS}.reauthenticate_webauthn",
        "mfa_reauthenticate_webauthn",
        "code",
    ),
    (
        "2fa/webauthn/<int:pk>/remove/",
        "chatsite.accounts.views_factors.remove_passkey",
        "mfa_remove_webauthn",
        "",
    ),
    ("2fa/webauthn/<int:pk>/edit/", f"{PASSKEYS}.edit_webauthn", "mfa_edit_webauthn", ""),
)
urlpatterns.append(
    re_path(
        # The key holds a hyphen too, so the first part may have none.
        r"^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$",
        later(f"{LOCAL}.password_reset_from_key", "link"),
        name="account_reset_password_from_key",
    )
)
