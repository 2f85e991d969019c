"""Files over real connections, on both servers: what is too large is refused unsent, what breaks off is gone."""

from __future__ import annotations

import base64
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.live.api import Api, new_id
from tests.server import Server
from tests.site.processes import wait_until
from tests.standin import StandIn

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 200_000
HUGE = 200 * 1024 * 1024
ADDRESS = "/api/attachments?name=a.png"


def head(server: Server, api: Api, length: int | None, path: str = ADDRESS) -> bytes:
    lines = [f"POST {path} HTTP/1.1", f"Host: {urlsplit(server.url).netloc}"]
    lines += [f"{name}: {value}" for name, value in api.person.bearer.items()]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


def connected(server: Server) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def on_disk(server: Server) -> set[Path]:
    return {path for path in (server.data / "attachments").rglob("*") if path.is_file()}


@pytest.mark.parametrize("path", [ADDRESS, "/threads/", "/import", "/api/attachments/nothing"])
def test_what_says_it_has_200_mb_is_refused_before_it_is_sent(server: Server, api: Api, path: str):
    with connected(server) as connection:
        connection.sendall(head(server, api, HUGE, path))
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.slow
def test_what_grows_to_200_mb_without_saying_so_is_cut_off(server: Server, api: Api):
    before, piece = on_disk(server), b"x" * 2**20
    sent = 0
    with connected(server) as connection:
        connection.sendall(head(server, api, None))
        try:
            while sent < HUGE:
                connection.sendall(b"100000\r\n" + piece + b"\r\n")
                sent += len(piece)
        except OSError:
            pass
    assert sent < HUGE
    wait_until(lambda: on_disk(server) == before, "the end of what was kept of it")


def test_of_a_connection_that_is_lost_at_60_percent_nothing_stays(server: Server, api: Api):
    before = on_disk(server)
    with connected(server) as connection:
        connection.sendall(head(server, api, len(PNG)) + PNG[: len(PNG) * 6 // 10])
    wait_until(lambda: on_disk(server) == before, "the half file to go")


def test_a_file_reaches_the_model_as_its_protocol_has_it(
    server: Server, api: Api, standin: StandIn, model: str
):
    thread = new_id()
    content = [
        {"type": "text", "text": "Look"},
        {
            "type": "image",
            "source": {"type": "data", "value": base64.b64encode(PNG).decode(), "mimeType": "image/png"},
        },
    ]
    asked = api.body("", thread, model=model) | {
        "messages": [{"id": "u1", "role": "user", "content": content}]
    }
    before = len(standin.exchanges)
    assert api.http.post("/api/chat", json=asked).status_code == 200
    assert base64.b64encode(PNG) in standin.exchanges[before].body
    address = api.settled(thread)["messages"][0]["parts"][1]["source"]["value"]
    response = api.http.get(address)
    assert response.status_code == 200
    assert response.content == PNG
