"""uvicorn's server, with what we need of one and it has not."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from django.conf import settings

from chatsite.operator.bounded import Bounded
from chatsite.operator.limits import MAX_HEAD
from chatsite.operator.sparing import unloaded

with unloaded():
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["Http", "Server", "uvicorn", "web_socket"]


class Http(Bounded, HttpToolsProtocol):
    """Its parser takes a head of any length, and what stands around the chunks of a body, and holds it all: a client
    that goes on for ever ends at 400.

    What stands behind the last chunk (trailers) is let go of. uvicorn puts it among the request's headers, where a
    proxy in front, which vouches for some of those, has not seen it.
    """

    # Slots: with these in it, a connection's dict would have more names than Python shares between instances, and take
    # 1.3 KB more.
    __slots__ = ("_bodiless", "_in_head", "_silent")
    _in_head: bool
    _silent: asyncio.TimerHandle | None
    """Cuts off who connects and does not bring the head of a request to its end (bodies: `operator.gate`). Bytes alone
    do not put it off: empty lines in front of a head are none of it, and a head may come as one byte a minute."""
    _bodiless: int
    """Bytes since something of a body came, or a head began or ended."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._in_head, self._bodiless = False, 0
        self._silent = self.loop.call_later(settings.BODY_IDLE_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._hush()
        super().connection_lost(exc)

    def _hush(self) -> None:
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def on_message_begin(self) -> None:
        self._in_head, self._bodiless = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._bodiless = False, 0
        super().on_headers_complete()

    def _should_upgrade(self) -> bool:
        """Who asks for a socket with another method would wait for an answer for ever."""
        return self.parser.get_method() == b"GET" and super()._should_upgrade()

    def on_body(self, body: bytes) -> None:
        self._bodiless = 0
        super().on_body(body)

    def data_received(self, data: bytes) -> None:
        self._bodiless += len(data)
        super().data_received(data)
        if not self._awaits_head():
            self._hush()
        elif self._silent is None:
            self._silent = self.loop.call_later(settings.BODY_IDLE_SECONDS, self.transport.close)
        if self._bodiless > MAX_HEAD and not self.transport.is_closing():
            self._refuse()

    def _awaits_head(self) -> bool:
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return False  # a WebSocket took it over
        return self._in_head or self.cycle is None or self.cycle.response_complete

    def _refuse(self) -> None:
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.send_400_response("The head of the request is too long, or what stands around its body.")
        else:
            self.transport.abort()


def web_socket(**given: Any) -> asyncio.Protocol:
    """Of a connection that becomes a socket. Loaded with the first one: pages have none, and few programs."""
    from chatsite.operator.uvicorn_sockets import WebSocket

    return WebSocket(**given)


class Server(uvicorn.Server):
    """Signals are ours: what it does with them itself ends the process with SIGTERM's exit code."""

    on_started: Callable[[], None]

    def capture_signals(self):
        return nullcontext()

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        self.on_started()

    def end_within(self, seconds: float) -> None:
        """Take nothing new, and cut off what is not answered by then."""
        self.should_exit = True
        asyncio.get_running_loop().call_later(seconds, self._hang_up)

    def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()
