"""Readers that never read: what they cost the server, and that nobody else notices."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.live.api import Api, new_id
from tests.live.conftest import BOTH, endpoints
from tests.server import SESSION_COOKIE, Server
from tests.standin import DONE, Raw, StandIn, chunk

STUCK = 200
MOST_GROWTH = 10.0
"""MiB, of all of them together, beyond what as many connections cost on which nothing happens."""
PIECES, SIZE, PACE = 800, 400, 0.004
"""Of the answer: all of it held for each would be 90 MiB."""
STAMP = re.compile(r"<(\d+)>")
LATE = 1 / 3
"""Of the time in which an answer is written, for half of its pieces. Told in one heap at its end, it would be a half.
The goal of 0.1 s is measured (bench/README.md)."""

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read in Linux's /proc"),
]


def stamped() -> Iterator[bytes]:
    """An answer whose every piece says when it was written."""
    yield chunk({"role": "assistant", "content": ""})
    for _ in range(PIECES):
        yield chunk({"content": f"<{time.monotonic_ns()}>{'x' * SIZE}"})
    yield chunk({}, "stop")
    yield DONE


def resident(server: Server) -> float:
    """MiB."""
    assert server.process is not None
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096 / 2**20


def stuck_reader(server: Server, session: str, path: str, *headers: str) -> socket.socket:
    """Asks, reads the first bytes of the answer, and nothing more."""
    address = urlsplit(server.url)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(30)
    sock.connect((address.hostname, address.port))
    lines = [f"GET {path} HTTP/1.1", f"Host: {address.netloc}", f"Cookie: {SESSION_COOKIE}={session}"]
    sock.sendall("\r\n".join([*lines, *headers, "", ""]).encode())
    assert sock.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.1 101")
    return sock


WEBSOCKET = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
KINDS = {
    "json": ("/threads/{}/events?format=json", ()),
    "html": ("/threads/{}/events?format=html", ()),
    "websocket": ("/ws/threads/{}/", WEBSOCKET),
}


@pytest.mark.parametrize("way", KINDS)
@pytest.mark.parametrize("kind", ["daphne", "uvicorn"])
def test_two_hundred_readers_that_never_read_cost_little_and_disturb_nobody(
    kind: str, way: str, tmp_path, standin: StandIn
):
    path, headers = KINDS[way]
    with Server(tmp_path, SERVER=kind, **endpoints(standin), **BOTH) as server:
        with Api(server, server.people(1)[0]) as api, ExitStack() as stack:
            thread = new_id()
            api.run("Hello", thread)
            for _ in range(3):
                lateness(api, new_id(), standin)  # what runs of that size cost is not the readers' doing
            warm = resident(server)
            for _ in range(STUCK):
                sock = stuck_reader(server, api.person.session, path.format(thread), *headers)
                stack.enter_context(sock)
            lateness(api, new_id(), standin)  # by then all of them wait
            idle = resident(server)
            late, span = lateness(api, thread, standin)
            grown = resident(server) - idle
            p99 = late[int(len(late) * 0.99)]
            print(f"{kind} {way}: connections {idle - warm:.1f} MiB, stuck {grown:.1f} MiB more,", end=" ")
            print(f"lateness p50 {late[len(late) // 2] * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms")
            assert grown < MOST_GROWTH
            assert late[len(late) // 2] < LATE * span, "they were told in heaps"
            assert api.run("And now?", thread)[-1]["type"] == "RUN_FINISHED"
        assert "Traceback" not in server.output


def lateness(api: Api, thread: str, standin: StandIn) -> tuple[list[float], float]:
    """Seconds that each piece of an answer took to a reader who reads, in order; and those in which it was written."""
    standin.play(Raw(stamped(), delay=PACE))  # type: ignore[arg-type]  # made while it is written
    late: list[float] = []
    stamps: list[int] = []
    with api.stream("Tell me", thread, model="of-openai") as events:
        for event in events:
            now = time.monotonic_ns()
            here = [int(stamp) for stamp in STAMP.findall(event.get("delta", ""))]
            stamps += here
            late += [(now - stamp) / 1e9 for stamp in here]
            assert event["type"] != "RUN_ERROR"
    assert len(late) == PIECES
    return sorted(late), (stamps[-1] - stamps[0]) / 1e9
