"""SIGTERM, on both servers: nothing begins any more, answers are written to their end or left whole for the next."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import websockets

from tests.live.api import Api, events_in, new_id, said_by, text_of
from tests.live.conftest import BOTH, endpoints
from tests.live.test_faults import hear
from tests.server import Server
from tests.site.processes import opened_socket, wait_until
from tests.standin import Broken, Say, StandIn

TEXT = "One word after the other. " * 40
LONG_DRAIN = "250"
ENDS_WITHIN = 100.0
"""Seconds; of a machine that has much else to do. What is told apart here takes four minutes."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(params=["daphne", "uvicorn"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@contextmanager
def chatting(folder: Path, standin: StandIn, kind: str, seconds: str) -> Iterator[tuple[Server, Api]]:
    with Server(folder, SERVER=kind, DRAIN_SECONDS=seconds, **endpoints(standin), **BOTH) as server:
        with Api(server, server.people(1)[0]) as api:
            yield server, api
        assert "Traceback" not in server.output, server.output
        assert " ERROR " not in server.output, server.output


def tell_to_go(server: Server, number: int = signal.SIGTERM) -> None:
    assert server.process is not None
    server.process.send_signal(number)
    wait_until(lambda: httpx.get(f"{server.url}/healthz", timeout=60).text == "draining\n", "the drain")


def exit_code(server: Server) -> int:
    assert server.process is not None
    return server.process.wait(ENDS_WITHIN)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_answer_is_written_to_its_end_and_no_door_begins_another(
    number: int, kind: str, tmp_path, standin: StandIn
):
    gate = threading.Event()
    standin.play(Say(TEXT, gate=gate))
    thread = new_id()
    with chatting(tmp_path, standin, kind, LONG_DRAIN) as (server, api), ExitStack() as stack:
        page = stack.enter_context(server.client(api.person))
        before = page.get("/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', before.text)
        assert token is not None
        events = stack.enter_context(api.stream("Hello", thread, model="of-openai"))
        told = hear(events, 100)
        follower = events_in(stack.enter_context(page.stream("GET", f"/threads/{thread}/events")))
        assert hear(follower, 100)
        tell_to_go(server, number)

        refused = api.http.post("/api/chat", json=api.body("And now?", new_id()))
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert refused.json()["error"]["code"] == "restarting"
        typed = {"text": "What I typed", "client_id": "m1", "csrfmiddlewaretoken": token[1]}
        for path in ("/threads/", f"/threads/{thread}/send"):
            plain = page.post(path, data=typed)
            assert plain.status_code == 503
            assert int(plain.headers["retry-after"]) > 0
            assert "The server is restarting." in plain.text
            assert "What I typed</textarea>" in plain.text
            htmx = page.post(path, data=typed, headers={"HX-Request": "true"})
            assert htmx.status_code == 503
            assert "The server is restarting." in htmx.text
        assert asyncio.run(send_over(server, thread, api))["code"] == "restarting"

        gate.set()
        rest = list(events)
        assert rest[-1]["type"] == "RUN_FINISHED"
        assert told + text_of(rest) == TEXT
        assert list(follower)[-1]["type"] == "RUN_FINISHED"
        assert exit_code(server) == 0
        server.start()
        read = api.read(thread)
        assert said_by(read, "user") == ["Hello"]
        assert said_by(read, "assistant") == [TEXT]


async def send_over(server: Server, thread: str, api: Api) -> dict:
    url = f"{server.url.replace('http', 'ws')}/ws/threads/{thread}/"
    async with opened_socket(url, additional_headers=api.person.bearer) as sock:
        await sock.send('{"type": "send", "text": "Me too", "id": 1}')
        while (heard := json.loads(await sock.recv())).get("id") != 1:
            pass
        return heard


def test_an_answer_that_takes_too_long_is_left_whole_for_the_next_server(
    kind: str, tmp_path, standin: StandIn
):
    standin.play(Broken("hang_stream"))
    thread = new_id()
    with chatting(tmp_path, standin, kind, "0.3") as (server, api):
        with pytest.raises(httpx.HTTPError), ExitStack() as stack:
            events = stack.enter_context(api.stream("Hello", thread, model="of-openai"))
            told = hear(events, 20)
            assert server.process is not None
            server.process.terminate()
            # Its client must not take this for a run that went well: the connection breaks.
            ends = [event["type"] for event in events if event["type"].startswith("RUN_")]
            raise AssertionError(f"the stream ended as if all was said: {ends}")
        assert exit_code(server) == 0
        assert standin.exchanges[-1].closed.wait(30)
        assert "left 1 run(s) for the next process" in server.output
        assert kept(server, "SELECT state FROM chat_run") == [("running",)]
        assert kept(server, "SELECT heartbeat_at FROM chat_run") == [(None,)]
        standin.forget()
        server.start()
        api.settled(thread)
        read = api.read(thread)
        assert "".join(said_by(read, "assistant")).startswith(told)


def kept(server: Server, query: str) -> list[tuple]:
    import sqlite3

    with sqlite3.connect(server.data / "db.sqlite3") as database:
        return database.execute(query).fetchall()


def test_readers_are_told_to_come_back_and_when(kind: str, tmp_path, standin: StandIn):
    thread = new_id()
    with chatting(tmp_path, standin, kind, "0") as (server, api):
        api.run("Hello", thread)
        with ExitStack() as stack:
            page = stack.enter_context(server.client(api.person))
            streams = [
                stack.enter_context(
                    page.stream("GET", f"/threads/{thread}/events", params={"format": form})
                ).iter_text()
                for form in ("json", "html")
            ]
            for stream in streams:
                assert next(stream)
            closed = asyncio.run(closed_when_told_to_go(server, thread, api))
            for stream in streams:
                found = re.search(r"retry: (\d+)\n", "".join(stream))  # a clean end: else this raises
                assert found is not None
                assert 500 <= int(found[1]) <= 3000
        assert closed == 1012
        assert exit_code(server) == 0


async def closed_when_told_to_go(server: Server, thread: str, api: Api) -> int:
    url = f"{server.url.replace('http', 'ws')}/ws/threads/{thread}/"
    async with opened_socket(url, additional_headers=api.person.bearer) as sock:
        await sock.recv()
        assert server.process is not None
        server.process.terminate()
        last = {}
        try:
            while True:
                last = json.loads(await sock.recv())
        except websockets.ConnectionClosed:
            pass
        assert last["type"] == "restart"
        assert 500 <= last["retryAfterMs"] <= 3000
        return sock.close_code or 0


def test_a_second_signal_ends_it_at_once(kind: str, tmp_path, standin: StandIn):
    standin.play(Broken("hang_stream"))
    thread = new_id()
    with chatting(tmp_path, standin, kind, LONG_DRAIN) as (server, api), ExitStack() as stack:
        hear(stack.enter_context(api.stream("Hello", thread, model="of-openai")), 20)
        tell_to_go(server)
        began = time.monotonic()
        assert server.process is not None
        server.process.terminate()
        assert exit_code(server) == 0
        assert time.monotonic() - began < ENDS_WITHIN
