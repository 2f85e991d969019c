"""Clients that begin a request and fall silent, on both servers: refused in each door's form, and cut off."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

from tests.live.api import Api, new_id
from tests.server import Server

pytestmark = pytest.mark.slow

IDLE = 8.0
"""Seconds; what makes progress here does so with six to spare, however busy the machine is."""
PATHS = [
    "/v1/chat/completions",
    "/v1/messages",
    "/api/chat",
    "/api/attachments?name=a.txt",
    "/accounts/login/",
]


@pytest.fixture(scope="module", params=["daphne", "uvicorn"])
def site(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    with Server(folder, SERVER=request.param, BODY_IDLE_SECONDS=str(IDLE)) as site:
        yield site
        assert "Traceback" not in site.output


@pytest.fixture(scope="module")
def person(site: Server):
    return site.people(1)[0]


def said_to(site: Server, begun: bytes) -> socket.socket:
    parts = urlsplit(site.url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=60)
    connection.sendall(begun)
    return connection


def heard_on(connection: socket.socket) -> bytes:
    with connection:
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    return answer


@pytest.mark.parametrize(
    "rest", ["Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"]
)
def test_a_body_that_stops_coming_is_408_in_the_form_of_its_door(rest: str, site: Server, person):
    head = f"HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nx-api-key: {person.key}\r\n"
    waiting = {path: said_to(site, f"POST {path} {head}{rest}".encode()) for path in PATHS}
    answers = {path: heard_on(connection) for path, connection in waiting.items()}
    for path, answer in answers.items():
        assert answer.startswith(b"HTTP/1.1 408 "), (path, answer)
        assert b"connection: close" in answer.lower(), path
        assert b"Nothing of the request's body came for 8 seconds. Send it again." in answer, path
    bodies = {path: answer.partition(b"\r\n\r\n")[2] for path, answer in answers.items()}
    assert json.loads(bodies["/v1/chat/completions"])["error"]["code"] == "body_timeout"
    assert json.loads(bodies["/v1/messages"])["type"] == "error"
    assert json.loads(bodies["/api/chat"])["error"]["code"] == "body_timeout"


@pytest.mark.parametrize(
    "begun",
    [b"", b"\r\n", b"GET /healthz HTTP/1.1\r\nHost: localh"],
    ids=["nothing", "an empty line", "half a head"],
)
def test_a_head_that_does_not_come_is_no_connection_for_ever(begun: bytes, site: Server):
    assert heard_on(said_to(site, begun)) == b""


@pytest.mark.parametrize("first", [b"", b"Content-Length: 5\r\n"], ids=["of no body", "of a body"])
def test_a_head_that_comes_byte_by_byte_has_its_time_as_a_whole(first: bytes, site: Server):
    head = b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\n" + first + b"X-Slow: "
    with said_to(site, head) as connection:
        connection.settimeout(IDLE / 6)
        for _ in range(120):
            try:
                connection.sendall(b"a")
                assert connection.recv(1) == b"", "there is nothing to answer yet"
                return
            except TimeoutError:
                continue  # nobody has cut it off
            except OSError:
                return
    raise AssertionError("whoever sends a byte now and then is never cut off")


def test_an_upload_that_makes_progress_may_take_longer(site: Server, person):
    def slowly():
        for _ in range(6):
            time.sleep(IDLE * 0.2)  # not waited for: this is how slow it is
            yield b"words "

    path = "/api/attachments?name=a.txt"
    answer = httpx.post(site.url + path, content=slowly(), headers=person.bearer, timeout=60)
    assert (answer.status_code, answer.json()["size"]) == (201, 36)


def test_a_run_that_is_silent_is_not_a_body_that_is(site: Server, person):
    """Behind its body a client has nothing to say, however long the answer takes."""
    with Api(site, person) as api:
        thread = new_id()
        api.run("Hello", thread)
        with site.client(person) as client:
            path, end = f"/threads/{thread}/events", ""
            while (told := client.get(path, params={"wait": 0, "after": end}).json())["events"]:
                end = told["cursor"]
            began = time.monotonic()
            params = {"wait": round(IDLE) + 2, "after": end}
            answer = client.request("GET", path, params=params, content=b"x", timeout=60)
            assert (answer.status_code, answer.json()["events"]) == (200, []), answer.text
            assert time.monotonic() - began > IDLE, "else nobody was silent for so long"
