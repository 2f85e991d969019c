"""Who may open a WebSocket.

A browser sends cookies along with a socket that any page opens, and it always says which page that was. So an
Origin must be this site's own (or one of CSRF_TRUSTED_ORIGINS, as for forms); a program sends none and must
show who it is by itself.
"""

from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

DEFAULT_PORTS = {"http": 80, "https": 443}
LOCAL = [".localhost", "127.0.0.1", "[::1]"]
"""What Django answers to with DEBUG where ALLOWED_HOSTS is empty."""


async def deny(scope, receive, send):
    """No handshake: the answer is 403. Not channels' own, which looks after the database's connections for it."""
    await receive()
    await send({"type": "websocket.close"})


class KnownOrigin:
    def __init__(self, application):
        self.application = application

    async def __call__(self, scope, receive, send):
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        known = _is_allowed(host) and (not origin or _is_own(origin, host))
        return await (self.application if known else deny)(scope, receive, send)


def _is_allowed(host: str) -> bool:
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS or (LOCAL if settings.DEBUG else []))


def _is_own(origin: str, host: str) -> bool:
    """Whether a page of `origin` came from the `host` that is now asked. Ports count: cookies ignore them."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        page = urlsplit(origin)
        asked = urlsplit(f"{page.scheme}://{host}")
        default = DEFAULT_PORTS[page.scheme]
        return (page.hostname, page.port or default) == (asked.hostname, asked.port or default)
    except (KeyError, ValueError):
        return False
