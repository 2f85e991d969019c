"""daphne's server, with what we need of one and it has not.

It writes without waiting: a client that does not read would have all that it does not read held for it here. So
whoever answers waits once `MAX_PENDING` bytes are pending, and a client that takes nothing for long is cut off.

And it asks the system whether a connection takes a byte before each frame, and takes the question back behind it: three
calls for one. What one step of the loop writes is offered behind it, and only what is left of that waits.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from chatsite.operator.sparing import unloaded

with unloaded():
    from daphne import http_protocol, server, ws_protocol  # first: it chooses Twisted's reactor

from autobahn.exception import Disconnected  # isort: skip
from django.conf import settings
from twisted.internet import reactor
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from chatsite.bodies import max_body
from chatsite.operator.gate import late
from chatsite.operator.limits import MAX_PENDING, STUCK_AFTER

__all__ = ["Server", "reactor"]


@implementer(IPushProducer)
class Flow:
    """Told by a transport whether it takes more, in Twisted's words."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()
        self._stuck: Any = None
        self._offering = False
        transport.bufferSize = MAX_PENDING
        self._wait_to_write = transport.startWriting
        transport.startWriting = self._write_soon

    def _write_soon(self) -> None:
        """In the place of `startWriting`, which Twisted also calls to close what it has nothing to write to."""
        if self._offering:
            return
        transport = self._transport
        if len(transport.dataBuffer) > transport.offset or not transport._tempDataLen:
            self._wait_to_write()
            return
        self._offering = True
        asyncio.get_running_loop().call_soon(self._offer)

    def _offer(self) -> None:
        self._offering = False
        transport = self._transport
        if transport.connected and (transport.doWrite() is not None or transport.dataBuffer):
            self._wait_to_write()  # where it failed, the reactor meets the same and closes the connection

    async def writable(self) -> None:
        await self._writable.wait()

    def pauseProducing(self) -> None:
        self._writable.clear()
        if self._stuck is None:
            self._stuck = reactor.callLater(STUCK_AFTER, self._transport.abortConnection)

    def resumeProducing(self) -> None:
        self._writable.set()
        if self._stuck is not None and self._stuck.active():
            self._stuck.cancel()
        self._stuck = None

    def stopProducing(self) -> None:
        self.resumeProducing()


TOO_LARGE = b"HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
SILENT = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: %d\r\nContent-Type: %b\r\n\r\n"
)


class Request(http_protocol.WebRequest):
    flow: Flow | None = None
    _received = 0
    _refused = False

    def gotLength(self, length: int | None) -> None:
        """The head is here; its body has a time of its own."""
        super().gotLength(length)
        self.channel.setTimeout(settings.BODY_IDLE_SECONDS)
        if length is not None and length > max_body():
            self._refuse()

    def handleContentChunk(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > max_body():
            self._refuse()
        else:
            super().handleContentChunk(data)

    def _refuse(self) -> None:
        """daphne gives a request to its application once it has all of it, which this one is too large for."""
        self._refused = True
        if self.channel is not None:
            self.channel.transport.write(TOO_LARGE)
            self.channel.loseConnection()

    def handle_reply(self, message: Any) -> None:
        """A message of the answer; while it is under way the transport tells us how it goes."""
        if self.finished or self.channel is None:
            return
        if message["type"] == "http.response.start" and self.flow is None:
            self.flow = Flow(self.channel.transport)
            self.registerProducer(self.flow, True)
        super().handle_reply(message)

    def finish(self) -> None:
        if self.flow is not None and self.producer is not None:
            self.unregisterProducer()
            self.flow.stopProducing()
        super().finish()


def _cut_silent(channel: Any, cut: Callable[[], None]) -> None:
    """Nothing came for long, in the place of Twisted's `timeoutConnection`: whose body it is gets words first."""
    if channel.requests and not channel.line_mode and not channel.requests[-1]._refused:
        request = channel.requests[-1]
        path = channel._path.decode("latin-1").partition("?")[0]
        kind, body = late(
            path, {name.lower(): values[-1] for name, values in request.requestHeaders.getAllRawHeaders()}
        )
        channel.transport.write(SILENT % (len(body), kind) + body)
    cut()


def _put_off(channel: Any, put_off: Callable[[], None]) -> None:
    """In the place of Twisted's `resetTimeout`: a head may come as one byte a minute, so its bytes put nothing off."""
    if not channel.line_mode:
        put_off()


class HTTPFactory(http_protocol.HTTPFactory):
    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = Request
        channel = protocol._channel
        protocol.timeOut = settings.BODY_IDLE_SECONDS
        channel.timeoutConnection = partial(_cut_silent, channel, channel.timeoutConnection)
        channel.resetTimeout = partial(_put_off, channel, channel.resetTimeout)
        return protocol


class WebSocket(ws_protocol.WebSocketProtocol):
    flow: Flow | None = None

    def makeConnection(self, transport: Any) -> None:
        self.flow = Flow(transport)
        transport.unregisterProducer()  # it was that of the request which became this socket
        transport.registerProducer(self.flow, True)
        super().makeConnection(transport)

    def serverClose(self, code: int | None = None) -> None:
        # `sendClose` refuses the codes from 1001 to 1015, some of which are for servers to say.
        self.sendCloseFrame(code=code or 1000, isReply=False)


class Server(server.Server):
    def use_flow_control(self) -> None:
        """Once `run` has made its own factories."""
        self.http_factory = HTTPFactory(self)
        self.ws_factory.protocol = WebSocket

    async def handle_reply(self, protocol: Any, message: Any) -> None:
        """Raises ConnectionError where the client has left, as uvicorn does: a reader's end and nobody's fault."""
        try:
            await super().handle_reply(protocol, message)
        except Disconnected as gone:
            raise ConnectionError("the client has left") from gone
        if protocol.flow is not None:
            await protocol.flow.writable()

    async def answered(self, seconds: float) -> None:
        """Returns when no request waits for the rest of its answer any more, or after so many seconds."""
        deadline = time.monotonic() + seconds
        while self._at_work() and time.monotonic() < deadline:  # noqa: ASYNC110 - they are many
            await asyncio.sleep(0.05)

    def _at_work(self) -> list[asyncio.Future]:
        applications = [details.get("application_instance") for details in self.connections.values()]
        return [each for each in applications if each is not None and not each.done()]

    def kill_all_applications(self) -> None:
        """As daphne's own, which takes it for sure that every connection has an application."""
        for application in self._at_work():
            application.cancel()
