"""No request is larger than anything here can need: what says that it is gets 413 unread, what grows so is cut off.

Django would take in all of a body, whatever its size, before it looks at it. (daphne does too: `operator.daphne` holds
it to the same limit before there is an application to ask.)
"""

from django.conf import settings

MB = 1024 * 1024
LARGEST_FORM = 64 * MB
"""A thread to import has at most 50 MB; a message with files, sent without JavaScript, may have what is left."""


def max_body():
    """Bytes."""
    return max(LARGEST_FORM, round(settings.ATTACHMENT_MAX_MB * MB) + MB, settings.GATEWAY_MAX_BODY + MB)


WORDS = b"The request is larger than this server takes."
HEADERS = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]


class BodyLimit:
    def __init__(self, application):
        self.application = application

    async def __call__(self, scope, receive, send):
        most, read = max_body(), 0
        if length_of(scope) > most:
            await send({"type": "http.response.start", "status": 413, "headers": HEADERS})
            await send({"type": "http.response.body", "body": WORDS})
            return

        async def receive_within():
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            return message if read <= most else {"type": "http.disconnect"}

        await self.application(scope, receive_within, send)


def length_of(scope):
    """What the request says of its body; 0 when it says nothing that can be read."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 20 else 0
