"""WebSockets: who may open one, and where it leads.

A browser sends cookies along with a socket that any page opens, and it always says which page that was. So an
Origin must be this site's own (or one of CSRF_TRUSTED_ORIGINS, as for forms); a program sends none and must
show who it is by itself.
"""

from urllib.parse import urlsplit

from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.urls import path, re_path

from chatsite.chat.routing import websocket_urlpatterns
from chatsite.operator.probe import probe_socket

DEFAULT_PORTS = {"http": 80, "https": 443}


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
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


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


websocket_app = KnownOrigin(
    # Whose session it is, the consumer asks, which has words for a database that is away.
    SessionMiddlewareStack(
        # Without the last route an unknown path would be an exception, and a line of it in the log.
        URLRouter(
            [
                path("ws/healthz/", probe_socket),
                *websocket_urlpatterns,
                re_path("", deny),
            ]
        )
    )
)
