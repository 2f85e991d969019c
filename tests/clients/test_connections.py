"""The same clients, when a connection ends before its answer does: by Stop, by accident, by a page that is reloaded."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.clients.clients import Client, Json, story
from tests.clients.conftest import Open
from tests.clients.reading import problem, said, same_as_the_server
from tests.live.api import Api
from tests.site.processes import wait_until
from tests.standin import Say, StandIn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

LONG = "One word after the other. "


@pytest.fixture
def endless() -> Iterator[Say]:
    """An answer that has no end before its reader has left."""
    gate = threading.Event()
    yield Say(LONG * 400, pieces=10, gate=gate)
    gate.set()


@pytest.fixture(scope="module", params=["daphne", "uvicorn"])
def software(request: pytest.FixtureRequest) -> str:
    """Each server notices in a way of its own that somebody has left."""
    return request.param


def test_stop_in_mid_stream(kind: str, opened: Open, api: Api, standin: StandIn, endless: Say):
    standin.play(endless)
    client = opened(kind)
    client.send("Tell me a long story", stopAt=5)
    assert standin.exchanges[-1].closed.wait(30), "the model was left to talk to nobody"
    kept = story(api.settled(client.thread)["messages"])
    assert said(kept)[0].startswith(said(client.story())[0])
    assert len(said(kept)[0]) < len(LONG * 400)
    client.send("Hello")
    assert problem(client) is None
    told = story(api.settled(client.thread)["messages"])
    assert said(told)[-1] == said(client.story())[-1] == "You said: Hello"


def test_a_message_at_once_behind_a_stop(kind: str, opened: Open, api: Api, standin: StandIn, endless: Say):
    standin.play(endless)
    client = opened(kind)
    client.send("Tell me a long story", stopAt=5)
    client.send("Hello")
    assert problem(client) is None
    told = story(api.settled(client.thread)["messages"])
    assert said(told)[-1] == said(client.story())[-1] == "You said: Hello"


def test_tanstack_goes_on_where_the_connection_broke(opened: Open, api: Api, standin: StandIn):
    standin.play(Say(LONG * 8, pieces=10, delay=0.02))
    asked = len(standin.exchanges)
    client = opened("tanstack")
    client.send("Tell me a story", cutAt=9)
    assert client.held["requests"] == 2
    assert said(same_as_the_server(client, api)) == [LONG * 8]
    assert len(standin.exchanges) == asked + 1, "the model was asked twice"


def test_ag_ui_reads_a_broken_run_again(opened: Open, api: Api, standin: StandIn):
    standin.play(Say(LONG * 8, pieces=10, delay=0.02))
    asked = len(standin.exchanges)
    client = opened("agui")
    client.send("Tell me a story", cutAt=9)
    assert problem(client) is not None
    client.tell("again")
    assert problem(client) is None
    assert said(same_as_the_server(client, api)) == [LONG * 8]
    assert len(standin.exchanges) == asked + 1, "the model was asked twice"


def test_tanstack_joins_a_run_that_is_under_way(opened: Open, api: Api, standin: StandIn):
    standin.play(Say(LONG * 20, pieces=10, delay=0.02))
    first = opened("agui")
    first.begin("send", text="Tell me a story")
    wait_until(lambda: said(story(_read(api, first.thread))), "the first words")
    fresh = opened("tanstack", first.thread, persistence=True)
    first.told()
    assert said(same_as_the_server(fresh, api)) == [LONG * 20]
    assert said(same_as_the_server(first, api)) == [LONG * 20]


def has_joined(client: Client) -> bool:
    """It has asked for the thread and then for what is under way in it, and hears that."""
    held = client.tell("peek")
    return held["requests"] > 1 and held["busy"] and not held["waiting"]


def _read(api: Api, thread: str) -> list[Json]:
    answer = api.http.get("/api/chat", params={"threadId": thread})
    return answer.json()["messages"] if answer.is_success else []


def test_tanstack_stops_a_run_that_it_has_joined(opened: Open, api: Api, standin: StandIn, endless: Say):
    standin.play(endless)
    first = opened("agui")
    first.begin("send", text="Tell me a long story")
    wait_until(lambda: said(story(_read(api, first.thread))), "the first words")
    fresh = opened("tanstack", first.thread, persistence=True, stays=True)
    wait_until(lambda: has_joined(fresh), "the other one at the stream")
    first.close()  # the page was reloaded: the old one is gone, the new one reads
    assert not standin.exchanges[-1].closed.wait(3)
    fresh.tell("stop")
    assert standin.exchanges[-1].closed.wait(30), "the model was left to talk to nobody"
    fresh.send("Hello")
    assert problem(fresh) is None
