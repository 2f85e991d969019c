"""The one ASGI application, the same under daphne and uvicorn.

    /api/chat            the chat's own ASGI application: a program's stream pays nothing for Django's handler
                         (a request without a key goes to Django: it may have a session)
    /v1/...              the gateway's, likewise
    /threads/.../events  the same for the streams of pages
    /api/attachments, /threads/.../attachments/...   the same for files, which Django would take in whole
    /static/...          files, likewise
    any other request    Django
    a WebSocket          routing.py

In front of all of them is `operator.gate`, which refuses keys in the open and bodies that do not come.

Nothing may depend on lifespan: daphne has none.
"""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatsite.settings")
django_app = get_asgi_application()

# Only now are the apps loaded, which all of these need.
from chatsite.bodies import BodyLimit
from chatsite.chat.api.doors import ChatApi
from chatsite.chat.files.upload_doors import UploadDoor
from chatsite.chat.process import rounds
from chatsite.chat.readers.thread_events import EventsDoor
from chatsite.gateway.asgi import GatewayApp
from chatsite.operator.gate import Gate
from chatsite.operator.probe import Probe
from chatsite.routing import websocket_app
from chatsite.static import StaticFiles
from chatsite.watch import ids
from chatsite.watch.requests import Counted

bounded_django = BodyLimit(Probe(otherwise=django_app))
static_files = Counted(StaticFiles(otherwise=bounded_django))
chat_api = ChatApi(otherwise=bounded_django)
gateway = GatewayApp()
thread_events = EventsDoor(otherwise=bounded_django)
files = UploadDoor(otherwise=bounded_django)


async def doors(scope, receive, send):
    if scope["type"] == "http":
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        ids.request_id.set(ids.of_request(given))
    match scope["type"]:
        case "websocket":
            await websocket_app(scope, receive, send)
        case "lifespan":
            await _lifespan(receive, send)
        case "http" if scope["path"] in {"/api/chat", "/api/chat/"}:
            await chat_api(scope, receive, send)
        case "http" if scope["path"].startswith(("/v1/", "//v1/")) or scope["path"] == "/v1":
            # Two slashes come of a base URL that ends in one. Nothing is there, and a program can read that.
            await gateway(scope, receive, send)
        case "http" if scope["path"].startswith("/threads/") and scope["path"].endswith("/events"):
            await thread_events(scope, receive, send)
        case "http" if scope["path"] == "/api/attachments" or (
            scope["path"].startswith("/threads/") and "/attachments/" in scope["path"]
        ):
            await files(scope, receive, send)
        case _:
            await static_files(scope, receive, send)


application = Gate(doors)


async def _lifespan(receive, send):
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            rounds.begin()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
