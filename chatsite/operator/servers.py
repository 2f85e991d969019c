"""The two servers, on a socket that is already ours.

The socket is bound before anything else happens, so a port in use is a sentence at once; and it listens
before the server is up, so whoever comes early waits instead of being refused. `when_up` is called once, within the
loop that serves: daphne has no lifespan.
"""

import asyncio
import errno
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable

from django.conf import settings

from chatsite.chat.process import departure
from chatsite.operator.limits import MAX_FRAME, MAX_UNSENT, PING_EVERY

CLOSE_TIMEOUT = 1  # seconds for answers that are on their way; streams have ended before, and runs too
DAPHNE_LOOKS_EVERY = 2  # seconds between two looks whether a ping is due
EXIT_WITHIN = 5  # seconds from there to the end of the process
COLLECT_AFTER = (
    5_000,
    20,
    20,
)  # what the garbage collector waits for: new containers, and rounds of the younger ones


class CannotListen(Exception):
    """A sentence for whoever started the server."""


def bind(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise CannotListen(f"HOST is {host!r}, which is no address; write 127.0.0.1 or 0.0.0.0.") from None
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        # Inherited by each connection. Else the system takes megabytes for a client that does not read.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT)
    try:
        sock.bind(address)
        sock.listen(1024)
        sock.setblocking(False)  # Twisted takes it as it is
    except OSError as exc:
        sock.close()
        raise CannotListen(_reason(exc, host, port)) from None
    return sock


def _reason(exc: OSError, host: str, port: int) -> str:
    if exc.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use; stop what uses it, or set PORT to another number."
    if exc.errno == errno.EACCES:
        return f"Port {port} is not open to this user; set PORT to a number from 1024."
    if exc.errno == errno.EADDRNOTAVAIL:
        return f"HOST is {host!r}, which is no address of this machine; write 127.0.0.1 or 0.0.0.0."
    return f"Cannot listen on {host}, port {port}: {exc.strerror}."


def settle_memory() -> None:
    """Take what the start has built out of the garbage collector's hands: none of it becomes garbage.

    A full collection of it takes 50 ms, in which no stream gets a word. What is made later is looked at less often than
    by default: nearly all of it is gone by itself when it is done with, and looking was 4 % of a run.
    """
    sys.path_importer_cache.clear()  # the names of all files beside what is loaded; read again when they are needed
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


class Going:
    """What a signal sets off, on the server's loop: the first one the departure, and `end` behind it."""

    def __init__(self, end: Callable[[], Awaitable[None]]) -> None:
        self._end = end
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._heard)

    def _heard(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._go())
        elif not self._hurry.is_set():
            self._hurry.set()
        else:
            os._exit(1)

    async def _go(self) -> None:
        try:
            await departure.depart(settings.DRAIN_SECONDS, self._hurry)
        finally:
            # Whatever still holds the process then (a thread that hangs) must not hold it for ever.
            last = threading.Timer(EXIT_WITHIN, os._exit, [0])
            last.daemon = True
            last.start()
            await self._end()


def _started(going: Going, when_up: Callable[[], None]) -> Callable[[], None]:
    def started() -> None:
        going.listen()
        when_up()

    return started


def run_daphne(application, sock: socket.socket, when_up: Callable[[], None]) -> None:
    # Imported here: it installs Twisted's reactor, which uvicorn has no use for.
    from chatsite.operator.daphne import Server, reactor

    def begin() -> None:
        server.use_flow_control()
        port = reactor.adoptStreamPort(sock.fileno(), sock.family, server.http_factory)

        async def end() -> None:
            port.stopListening()
            await server.answered(CLOSE_TIMEOUT)
            reactor.stop()

        reactor.callLater(0, _started(Going(end), when_up))  # on the loop, once it runs

    server = Server(
        application,
        endpoints=["adopted"],
        ready_callable=begin,
        signal_handlers=False,
        server_name="",
        websocket_max_message_size=MAX_FRAME,
        websocket_max_frame_size=MAX_FRAME,
        application_close_timeout=CLOSE_TIMEOUT,
        ping_interval=PING_EVERY - DAPHNE_LOOKS_EVERY,
    )
    # It insists on an endpoint, and knows no way to write an IPv6 socket that is open already.
    server.endpoints = []
    server.run()


def run_uvicorn(application, sock: socket.socket, when_up: Callable[[], None]) -> None:
    # Imported here: daphne has no use for it.
    from chatsite.operator.uvicorn import Http, Server, uvicorn, web_socket

    config = uvicorn.Config(
        application,
        http=Http,
        ws=web_socket,
        ws_max_size=MAX_FRAME,
        ws_ping_interval=PING_EVERY,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_TIMEOUT,
    )
    server = Server(config)

    async def end() -> None:
        server.end_within(CLOSE_TIMEOUT)

    server.on_started = _started(Going(end), when_up)
    server.run(sockets=[sock])


SERVERS = {"daphne": run_daphne, "uvicorn": run_uvicorn}
