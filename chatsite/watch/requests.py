"""Counts what an ASGI application answers, and puts the request's id on it.

Around pages, where an answer is two or three messages. Not around streams, which would pay for it with each event:
those count their runs and requests themselves.
"""

from __future__ import annotations

import time
from typing import Any

from chatsite.watch import ids
from chatsite.watch.counters import Counter, Timing

REQUESTS = Counter("threadloom_http_requests", "Requests for pages and files.", ("method", "status"))
SECONDS = Timing("threadloom_http_seconds", "From such a request to the head of its answer.")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Counted:
    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began = time.monotonic()
        request_id = ids.request_id.get().encode("ascii")
        method = scope["method"] if scope["method"] in METHODS else "other"

        async def counting(message: Any) -> None:
            if message["type"] == "http.response.start":
                REQUESTS.add(method, str(message["status"]))
                SECONDS.add(time.monotonic() - began)
                message = {
                    **message,
                    "headers": [*message.get("headers", ()), (b"x-request-id", request_id)],
                }
            await send(message)

        await self._application(scope, receive, counting)
