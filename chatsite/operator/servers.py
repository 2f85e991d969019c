"""The two servers, on a socket that is already ours.

The socket is bound before anything else happens, so a port in use is a sentence at once; and it listens
before the server is up, so whoever comes early waits instead of being refused.
"""

import errno
import gc
import socket

MAX_FRAME = 1024 * 1024  # of a WebSocket, the same on both
CLOSE_TIMEOUT = 5  # seconds for open streams to end; runs do not depend on them


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

    A full collection of it takes 50 ms, in which no stream gets a word.
    """
    gc.collect()
    gc.freeze()


def run_daphne(application, sock: socket.socket) -> None:
    # Imported here: it installs Twisted's reactor, which uvicorn has no use for.
    from daphne.server import Server
    from twisted.internet import reactor

    def adopt() -> None:
        reactor.adoptStreamPort(sock.fileno(), sock.family, server.http_factory)

    server = Server(
        application,
        endpoints=["adopted"],
        ready_callable=adopt,
        server_name="",
        websocket_max_message_size=MAX_FRAME,
        websocket_max_frame_size=MAX_FRAME,
        application_close_timeout=CLOSE_TIMEOUT,
    )
    # It insists on an endpoint, and knows no way to write an IPv6 socket that is open already.
    server.endpoints = []
    server.run()


def run_uvicorn(application, sock: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(
        application,
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_TIMEOUT,
    )
    uvicorn.Server(config).run(sockets=[sock])


SERVERS = {"daphne": run_daphne, "uvicorn": run_uvicorn}
