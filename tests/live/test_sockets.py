"""`ws/threads/<id>/` with a real client, on both servers."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from typing import Any

import pytest
import websockets

from chatsite.operator import limits
from tests.live.api import Api, new_id
from tests.live.conftest import BOTH, endpoints
from tests.live.test_stuck_readers import WEBSOCKET, stuck_reader
from tests.server import SESSION_COOKIE, Person, Server
from tests.site.processes import opened_socket
from tests.standin import Say, StandIn

CLOSE, PING, PONG = 0x8, 0x9, 0xA

pytestmark = pytest.mark.slow


def opcodes_until(sock: Any, wanted: int, times: int) -> list[int]:
    """The kinds of frames that come behind the rest of the handshake's answer. Pings are answered, as by any client.

    A server's frames are not masked, a client's are (here with zeros).
    """
    stream = sock.makefile("rb")
    while stream.readline().strip():
        pass
    heard: list[int] = []
    while heard.count(wanted) < times:
        head = stream.read(2)
        size = int.from_bytes(stream.read(2)) if head[1] == 126 else head[1]
        said = stream.read(size)
        heard.append(head[0] & 0x0F)
        if heard[-1] == PING:
            sock.sendall(bytes([0x80 | PONG, 0x80 | size, 0, 0, 0, 0]) + said)
    return heard


@pytest.fixture
def thread(api: Api) -> str:
    thread = new_id()
    api.run("Hello", thread, model="of-openai")
    return thread


@asynccontextmanager
async def socket(
    server: Server,
    thread: str,
    *,
    cookie: Person | None = None,
    origin: str | None = None,
    headers: dict[str, str] | None = None,
    after: str = "",
):
    url = f"{server.url.replace('http', 'ws')}/ws/threads/{thread}/" + (f"?after={after}" if after else "")
    more = dict(headers or {})
    if cookie is not None:
        more["Cookie"] = f"{SESSION_COOKIE}={cookie.session}"
    async with opened_socket(url, additional_headers=more, origin=origin) as sock:
        yield sock


async def until(sock: Any, wanted: str) -> list[dict[str, Any]]:
    """What comes in, up to the first event of that type, or an answer of it."""
    heard = []
    while True:
        heard.append(json.loads(await sock.recv()))
        if wanted in (heard[-1].get("type"), heard[-1].get("event", {}).get("type")):
            return heard


async def test_a_page_sends_hears_and_stops(
    server: Server, api: Api, thread: str, standin: StandIn, gate: threading.Event
):
    standin.play(Say("Word after word. " * 200, pieces=10, gate=gate))  # only the stop ends this answer
    async with socket(server, thread, cookie=api.person, origin=server.url) as sock:
        await until(sock, "RUN_FINISHED")  # what was said before
        await sock.send(json.dumps({"type": "send", "text": "Go on", "model": "of-openai", "id": 1}))
        heard = await until(sock, "TEXT_MESSAGE_CONTENT")
        assert {"type": "done", "id": 1} in [
            {key: each[key] for key in ("type", "id")} for each in heard if each.get("type") == "done"
        ]
        await sock.send(json.dumps({"type": "send", "text": "Me too", "id": "two"}))
        refused = (await until(sock, "problem"))[-1]
        assert refused["id"] == "two"
        assert refused["code"] == "run_active"
        assert "still being written" in refused["message"]
        await sock.send(json.dumps({"type": "stop"}))
        end = (await until(sock, "RUN_FINISHED"))[-1]
        assert end["event"]["outcome"] == {"type": "cancelled"}
        assert await standin.exchanges[-1].gone()


@pytest.mark.slow
async def test_a_reader_goes_on_behind_its_cursor(server: Server, api: Api, thread: str):
    async with socket(server, thread, headers=api.person.bearer) as sock:
        heard = await until(sock, "RUN_FINISHED")
    middle = len(heard) // 2
    async with socket(server, thread, headers=api.person.bearer, after=heard[middle]["cursor"]) as sock:
        assert await until(sock, "RUN_FINISHED") == heard[middle + 1 :]


@pytest.mark.slow
async def test_closing_the_socket_does_not_end_the_run(
    server: Server, api: Api, thread: str, standin: StandIn
):
    text = "Word after word. " * 12
    standin.play(Say(text, pieces=6, delay=0.08))  # longer than the grace an API client has
    async with socket(server, thread, headers=api.person.bearer) as sock:
        await sock.send(json.dumps({"type": "send", "text": "Go on", "model": "of-openai"}))
        await until(sock, "done")  # the thread's first run is told anew before
    read = await asyncio.to_thread(api.settled, thread)
    assert read["messages"][-1]["parts"][-1]["content"] == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent", ["", "{", "[]", '"send"', '{"type": "dance"}', '{"type": "send"}', '{"type": "send", "text": ""}']
)
async def test_nonsense_is_answered_in_words(sent: str, server: Server, api: Api, thread: str):
    async with socket(server, thread, headers=api.person.bearer) as sock:
        await until(sock, "RUN_FINISHED")
        await sock.send(sent)
        assert (await until(sock, "problem"))[-1]["message"]
        await sock.send(json.dumps({"type": "stop", "id": 1}))
        assert (await until(sock, "done"))[-1]["id"] == 1


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null"])
async def test_a_page_of_another_site_is_refused_though_it_brings_the_cookie(
    origin: str, server: Server, api: Api, thread: str
):
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with socket(server, thread, cookie=api.person, origin=origin):
            pass
    assert refused.value.response.status_code == 403


@pytest.mark.slow
async def test_others_do_not_get_in(server: Server, api: Api, thread: str):
    stranger = server.people(1)[0]
    for options, code in (
        ({"headers": stranger.bearer}, 4404),
        ({"cookie": stranger, "origin": server.url}, 4404),
        ({"headers": {"x-api-key": "nonsense"}}, 4401),
        ({}, 4401),
    ):
        async with socket(server, thread, **options) as sock:
            await sock.wait_closed()
            assert sock.close_code == code, options


def test_a_sign_of_life_is_due_at_least_every_fifteen_seconds():
    assert limits.PING_EVERY <= 15


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["daphne", "uvicorn"])
async def test_a_silent_socket_shows_signs_of_life(kind: str, tmp_path, standin: StandIn):
    """Pings of the protocol, which a client answers by itself; an open socket that has lost its client ends by them."""
    settings = {"DJANGO_SETTINGS_MODULE": "tests.live.brisk", "SERVER": kind, **endpoints(standin), **BOTH}
    with Server(tmp_path, **settings) as server:
        with Api(server, server.people(1)[0]) as api:
            thread = new_id()
            api.run("Hello", thread, model="of-openai")
            with stuck_reader(server, api.person.session, f"/ws/threads/{thread}/", *WEBSOCKET) as sock:
                sock.settimeout(60)  # daphne looks every two seconds
                opcodes = await asyncio.to_thread(opcodes_until, sock, PING, 2)
        assert opcodes.count(PING) == 2
        assert CLOSE not in opcodes


async def test_daphne_says_in_a_send_that_the_client_has_left_as_uvicorn_does():
    """Autobahn knows that the connection is closing before daphne does, and says so with an error of its own."""
    from chatsite.operator.daphne import Server as Daphne
    from chatsite.operator.daphne import WebSocket

    left = WebSocket()
    left.state, left.muted, left.client_addr = WebSocket.STATE_CLOSING, False, None
    server = Daphne(application=None, endpoints=["tcp:port=0"])
    server.connections = {left: {}}
    with pytest.raises(ConnectionError):
        await server.handle_reply(left, {"type": "websocket.send", "text": "more"})
