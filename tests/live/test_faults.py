"""Servers that die, that are two, that are told to go: a thread is never stuck, and what was said is kept."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.live.api import Api, events_in, new_id, said_by, text_of
from tests.live.conftest import BOTH, endpoints
from tests.server import SESSION_COOKIE, Server
from tests.site.processes import opened_socket, wait_until
from tests.standin import Say, StandIn
from tests.words import A_KEY

LONG = Say("One word after the other. " * 200, pieces=10, delay=0.02)
SERVERS = ["daphne", "uvicorn"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@contextmanager
def chatting(folder, standin: StandIn, server: str) -> Iterator[tuple[Server, Api]]:
    settings = {"DJANGO_SETTINGS_MODULE": "tests.live.no_silence", "SERVER": server}
    with Server(folder, **settings, **endpoints(standin), **BOTH) as site:
        with Api(site, site.people(1)[0]) as api:
            yield site, api
        assert "Traceback" not in site.output, site.output
        assert not A_KEY.search(site.output)


def hear(events: Iterator[dict], length: int) -> str:
    """Listen until the answer has so many characters; what was heard."""
    text = ""
    for event in events:
        text += event["delta"] if event["type"] == "TEXT_MESSAGE_CONTENT" else ""
        if len(text) >= length:
            return text
    raise AssertionError(f"the answer ended after {len(text)} characters")


def kept_texts(server: Server) -> int:
    with closing(sqlite3.connect(server.data / "db.sqlite3")) as database:
        [(count,)] = database.execute(
            "SELECT count(*) FROM chat_runevent WHERE type = 'TEXT_MESSAGE_CONTENT'"
        )
    return int(count)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_killed_in_mid_answer_leaves_a_usable_thread(kind: str, tmp_path, standin: StandIn):
    standin.play(LONG)
    thread = new_id()
    with chatting(tmp_path, standin, kind) as (server, api):
        with pytest.raises(httpx.HTTPError), api.stream("Hello", thread, model="of-openai") as events:
            early = hear(events, 300)
            # What a busy machine tells in one go it has not kept yet.
            wait_until(lambda: kept_texts(server), "the first text that is kept")
            later = hear(events, 500)
            server.kill()
            list(events)
            raise httpx.ReadError("it ended without a word")
        assert standin.exchanges[-1].closed.wait(30)
        server.start()
        read = api.settled(thread)
        [kept] = said_by(read, "assistant")
        assert kept
        assert (early + later).startswith(kept) or kept.startswith(early + later)
        assert said_by(read, "user") == ["Hello"]
        page = api.page(thread)
        assert "The server stopped while this was being answered. What was written is kept." in page
        assert "class=on" not in page
        assert text_of(api.run("And now?", thread, model="of-openai")) == "You said: And now?"
        assert len(said_by(api.read(thread), "user")) == 2


def test_a_server_killed_between_a_call_and_its_result_knows_it_knows_nothing(tmp_path, standin: StandIn):
    """The call is kept; whether its tool ran, and what it gave, is in the log or it is said to be unknown."""
    thread = new_id()
    with chatting(tmp_path, standin, "daphne") as (server, api):
        standin.play(Say("", [("c1", "get_weather", {"city": "Oslo"})]), Say("Late.", delay=60))
        with pytest.raises(httpx.HTTPError), api.stream("Weather?", thread, model="of-openai") as events:
            for event in events:
                if event["type"] == "TOOL_CALL_RESULT":
                    server.kill()
            raise httpx.ReadError("it ended without a word")
        standin.forget()  # the server may have died before it asked for the second turn
        server.start()
        read = api.settled(thread)
        text = json.dumps(read)
        assert "get_weather" in text
        assert "cloudy" in text, "a result that was told is a result that is kept"
        assert text_of(api.run("And now?", thread, model="of-openai")) == "You said: And now?"


def test_two_servers_on_one_folder_hear_and_stop_each_other(
    tmp_path, standin: StandIn, gate: threading.Event
):
    thread = new_id()
    with (
        chatting(tmp_path / "one", standin, "daphne") as (one, api),
        one.sibling(tmp_path / "two", SERVER="uvicorn") as two,
        two.client(api.person) as client,
    ):
        standin.play(Say("One word after the other. " * 40, pieces=10, gate=gate))
        with (
            api.stream("Hello", thread, model="of-openai") as here,
            client.stream("GET", f"/threads/{thread}/events") as response,
        ):
            there = events_in(response)
            assert hear(there, 50)
            assert not standin.exchanges[-1].answered.is_set()
            gate.set()
            told = text_of(list(here))
        with client.stream("GET", f"/threads/{thread}/events", params={"after": ""}) as response:
            heard = []
            for event in events_in(response):
                heard.append(event)
                if event["type"] == "RUN_FINISHED":
                    break
        assert text_of(heard) == told

        standin.play(LONG)
        with api.stream("Go on", thread, model="of-openai") as here:
            hear(here, 100)
            asyncio.run(stop_over(two, thread, api))
            end = list(here)[-1]
        assert end["outcome"] == {"type": "cancelled"}
        assert standin.exchanges[-1].closed.wait(30)
        assert "Traceback" not in two.output


async def stop_over(server: Server, thread: str, api: Api) -> None:
    url = f"{server.url.replace('http', 'ws')}/ws/threads/{thread}/"
    async with opened_socket(url, additional_headers=api.person.bearer) as sock:
        await sock.send('{"type": "stop", "id": 1}')
        while json.loads(await sock.recv()).get("id") != 1:
            pass


def test_a_server_finds_the_runs_of_another_that_died(tmp_path, standin: StandIn):
    standin.play(LONG)
    thread = new_id()
    with (
        chatting(tmp_path / "one", standin, "daphne") as (one, api),
        one.sibling(tmp_path / "two", SERVER="uvicorn") as two,
        Api(two, api.person) as other,
    ):
        with pytest.raises(httpx.HTTPError), api.stream("Hello", thread, model="of-openai") as events:
            hear(events, 200)
            one.kill()
            list(events)
            raise httpx.ReadError("it ended without a word")
        read = other.settled(thread)
        assert said_by(read, "assistant")[0].startswith("One word after the other.")
        assert text_of(other.run("And now?", thread, model="of-openai")) == "You said: And now?"


def test_two_sends_at_once_to_two_servers_make_one_run(tmp_path, standin: StandIn):
    with (
        chatting(tmp_path / "one", standin, "daphne") as (one, api),
        one.sibling(tmp_path / "two", SERVER="uvicorn") as two,
        Api(two, api.person) as other,
    ):
        for _ in range(5):
            thread, gate = new_id(), threading.Event()
            standin.play(Say("One answer.", gate=gate))
            statuses = asyncio.run(both(api, other, thread, gate))
            assert sorted(statuses) == [200, 409]
            api.settled(thread)
            other.settled(thread)
            assert len(said_by(api.read(thread), "user")) == 1
            standin.forget()


async def both(api: Api, other: Api, thread: str, gate: threading.Event) -> list[int]:
    """The answer is whole only behind the first that is over: the other one, which is refused."""

    async def post(to: Api) -> int:
        async with httpx.AsyncClient(headers=to.person.bearer, timeout=60) as client:
            body = to.body("Hello", thread, model="of-openai")
            return (await client.post(f"{to.server.url}/api/chat", json=body)).status_code

    asked = [asyncio.ensure_future(post(to)) for to in (api, other)]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    gate.set()
    return list(await asyncio.gather(*asked))


def test_a_page_that_waits_on_a_killed_server_is_told_when_it_is_back(tmp_path, standin: StandIn):
    """The page's stream breaks; the reader comes back with its cursor and hears the end it missed."""
    standin.play(LONG)
    thread = new_id()
    with chatting(tmp_path, standin, "daphne") as (server, api):
        with pytest.raises(httpx.HTTPError), api.stream("Hello", thread, model="of-openai") as events:
            hear(events, 200)
            server.kill()
            list(events)
            raise httpx.ReadError("it ended without a word")
        server.start()
        with (
            server.client(api.person) as client,
            client.stream("GET", f"/threads/{thread}/events") as response,
        ):
            end = next(
                event for event in events_in(response) if event["type"] in {"RUN_ERROR", "RUN_FINISHED"}
            )
        assert end["type"] == "RUN_ERROR"
        assert end["code"] == "lost"
        wait_until(server.healthy, "health")


def open_databases(server: Server) -> int:
    """How often the server's process has its database file open."""
    assert server.process is not None
    names = []
    for file in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has been closed since
            names.append(str(file.readlink()))
    return sum("db.sqlite3" in name for name in names)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in Linux's /proc")
@pytest.mark.parametrize("kind", SERVERS)
def test_an_open_page_holds_no_connection_to_the_database(kind: str, tmp_path, standin: StandIn):
    thread = new_id()
    with chatting(tmp_path, standin, kind) as (server, api):
        api.run("Hello", thread)
        address = httpx.URL(server.url)
        head = f"GET /threads/{thread}/events?format=html HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Cookie: {SESSION_COOKIE}={api.person.session}\r\n\r\n"

        def open_page() -> socket.socket:
            page = socket.create_connection((address.host, address.port), timeout=60)
            page.sendall(head.encode())
            assert page.recv(20).startswith(b"HTTP/1.1 200")
            return page

        with ExitStack() as pages:
            pages.enter_context(open_page())
            before = open_databases(server)
            for _ in range(30):
                pages.enter_context(open_page())
            own = 3 * 4  # of the threads that read: file, log and index of each
            wait_until(lambda: open_databases(server) <= before + own, "no connection for each page")
