"""Settings of accounts that are each right, and wrong together: they stop the start, in words."""

from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def check_oidc(issuer: str, client_id: str, admin_group: str, groups_claim: str) -> None:
    if not issuer:
        return
    if not client_id:
        raise ImproperlyConfigured("OIDC_ISSUER is set, OIDC_CLIENT_ID is not; write the id the issuer gave.")
    parts = urlsplit(issuer)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        # The keys that everything hangs on would come over a line that anybody may write on.
        raise ImproperlyConfigured("OIDC_ISSUER begins with http://; write its https:// address.")
    if admin_group and not groups_claim:
        raise ImproperlyConfigured("OIDC_ADMIN_GROUP is set; write in OIDC_GROUPS_CLAIM where groups stand.")
