"""WebSockets: where each leads. Who may open one, says `origins`."""

from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.urls import path, re_path

from chatsite.chat.routing import websocket_urlpatterns
from chatsite.operator.probe import probe_socket
from chatsite.origins import KnownOrigin, deny

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
