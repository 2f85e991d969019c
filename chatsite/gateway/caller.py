"""Who calls: an ASGI request with its headers, its body and the way back.

Rule 1: the head of an answer goes out once, and the end of it too.
Rule 2: a caller that leaves ends the work for it, whether it reads a stream or waits for one piece (`until_gone`).
Rule 3: after the head an error is told inside the stream, and never looks like a good end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from chatsite.accounts import addresses
from chatsite.gateway.dialects import Dialect
from chatsite.gateway.errors import Refused, error_body, error_frame
from chatsite.watch import ids

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Gone(Exception):
    """The caller has left: there is nobody to tell anything."""


class Caller:
    def __init__(self, scope: Any, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._scope = scope
        self.query: bytes = scope.get("query_string", b"")
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.dialect: Dialect = dialect_of(self.path, self.headers)
        # Who serves this has mostly made one already.
        self.request_id = ids.request_id.get() or ids.of_request(self.headers.get(b"x-request-id", b""))
        ids.request_id.set(self.request_id)
        self.began = False
        self.ended = False
        self._receive = receive
        self._send = send
        self._work: asyncio.Task[Any] | None = None
        self.why: Exception | None = None
        """Why the work for it was ended from outside."""

    @property
    def address(self) -> str:
        """Whose it is, as far as proxies that are trusted say."""
        return addresses.of_scope(self._scope)

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    async def body(self, most: int) -> bytes:
        """All of it. Raises Refused when it is larger than `most` bytes, Gone when it does not come."""
        length = self.headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        message = await self._receive()
        pieces: list[bytes] = []
        size = 0
        while True:
            if message["type"] == "http.disconnect":
                raise Gone
            piece = message.get("body", b"")
            if not message.get("more_body", False) and not pieces:
                break
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                piece = b"".join(pieces)
                break
            message = await self._receive()
        if len(piece) > most:
            raise _too_large(most)
        return piece

    # -- the way back ----------------------------------------------------------------------------------------

    async def reply(self, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
        length = (b"content-length", str(len(body)).encode())
        await self._begin(status, [*headers, length])
        await self.end(body)

    async def begin_stream(self, headers: Headers = ()) -> None:
        await self._begin(200, [*STREAM_HEADERS, *headers])

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        self.ended = True
        await self._send({"type": "http.response.body", "body": data})

    async def refuse(self, refused: Refused) -> None:
        """Tell it, wherever the answer is."""
        if self.ended:
            return
        if self.began:
            await self.end(error_frame(self.dialect, refused, self.request_id))
            return
        headers = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in refused.headers.items()
        ]
        body = refused.body or error_body(self.dialect, refused, self.request_id).encode()
        await self.reply(refused.status, body, [JSON, *headers])

    async def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.began = True
        id = self.request_id.encode("ascii")
        headers.append((b"x-request-id", id))
        if self.dialect == "anthropic" and not any(name == b"request-id" for name, _ in headers):
            headers.append((b"request-id", id))  # Anthropic's SDKs look here
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def cut(self, refused: Refused) -> None:
        """End the work that `until_gone` waits for, and tell the caller why."""
        if self._work is not None and self.why is None and not self.ended:
            self.why = refused
            self._work.cancel()

    async def until_gone(self, work: Awaitable[None]) -> None:
        """Do it, unless the caller leaves or is cut off: then it is cancelled where it waits, and this raises why."""
        self._work = asyncio.current_task()
        watcher = asyncio.create_task(self._watch())
        try:
            await work
        except asyncio.CancelledError:
            if self.why is None or self._work is None or self._work.uncancel() > 0:
                raise
            raise self.why from None
        finally:
            self._work = None
            watcher.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        # Servers also say so when the answer is out; what is done behind it is not to be cut.
        if self._work is not None and self.why is None and not self.ended:
            self.why = Gone()
            self._work.cancel()


def dialect_of(path: str, headers: dict[bytes, bytes]) -> Dialect:
    """What this caller speaks, also on a path that both have, or that nobody has."""
    if path.startswith(("/v1/messages", "//v1/messages")):
        return "anthropic"
    if path.startswith(("/v1/chat", "//v1/chat")):
        return "openai"
    return "anthropic" if b"anthropic-version" in headers else "openai"


def _too_large(most: int) -> Refused:
    return Refused(
        413, "request_too_large", f"The body is larger than {most} bytes, which is all that is taken here."
    )
