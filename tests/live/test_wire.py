"""The loop over real HTTP, on both servers and over both protocols: whole, streamed, and closed when left."""

from __future__ import annotations

import json
import threading

import httpx
import pytest

from tests.agent.agui_validation import assert_valid_run
from tests.live.api import Api, events_in, new_id, said_by, text_of
from tests.server import Server
from tests.standin import Say, StandIn

WEATHER = "What should I wear in San Francisco today?"
TEXT = "One word after the other. " * 60


def test_the_weather_loop_from_end_to_end(api: Api, standin: StandIn, model: str):
    before = len(standin.exchanges)
    thread = new_id()
    events = api.run(WEATHER, thread, model=model)
    assert_valid_run(events)
    results = [json.loads(event["content"]) for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert results == [
        {"city": "San Francisco", "temperature": 62, "conditions": "cloudy"},
        {"recommendation": "Wear a light jacket"},
    ]
    assert text_of(events) == "Let me look.Wear a light jacket: that is my advice for San Francisco."
    assert events[-1]["metadata"]["tanstack"] == {"finishReason": "stop", "model": "stand-in"}
    asked = standin.exchanges[before:]
    assert [exchange.dialect for exchange in asked] == [model.removeprefix("of-")] * 3
    assert said_by(api.read(thread), "user") == [WEATHER]


@pytest.mark.slow
def test_an_event_comes_before_the_answer_is_whole(
    api: Api, standin: StandIn, model: str, gate: threading.Event
):
    standin.play(Say(TEXT, pieces=10, gate=gate))
    with api.stream("Hello", model=model) as events:
        for event in events:
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                break
        # Not by the clock: the model is still talking while its first words have reached the client.
        assert not standin.exchanges[-1].answered.is_set()
        gate.set()
        rest = list(events)
    assert rest[-1]["type"] == "RUN_FINISHED"


def test_leaving_stops_the_run_and_the_model(api: Api, standin: StandIn, model: str, gate: threading.Event):
    standin.play(Say(TEXT, pieces=10, gate=gate))
    thread = new_id()
    with api.stream("Hello", thread, model=model) as events:
        seen = next(event for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert standin.exchanges[-1].closed.wait(30), "the model was left to talk to nobody"
    gate.set()
    read = api.settled(thread)
    kept = said_by(read, "assistant")[-1]
    assert kept.startswith(seen["delta"])
    assert len(kept) < len(TEXT)
    assert "Stopped" in api.page(thread)
    assert text_of(api.run("And again", thread, model=model)) == "You said: And again"


@pytest.mark.slow
def test_leaving_can_let_the_run_go_on(api: Api, standin: StandIn):
    text = "One word after the other. " * 8
    standin.play(Say(text, pieces=4, delay=0.06))  # longer than the grace of two seconds
    thread = new_id()
    with api.stream("Hello", thread, model="of-openai", onDisconnect="continue") as events:
        next(event for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    assert said_by(api.settled(thread), "assistant") == [text]


@pytest.mark.slow
def test_the_same_run_again_is_a_replay(api: Api, standin: StandIn):
    body = api.body("Hello", new_id(), model="of-openai")
    asked = len(standin.exchanges)
    answers = []
    for _ in range(2):
        with api.http.stream("POST", "/api/chat", json=body) as response:
            answers.append(list(events_in(response)))
    assert answers[0] == answers[1]
    assert len(standin.exchanges) == asked + 1


@pytest.mark.slow
def test_a_second_run_beside_an_active_one_is_refused_in_words(
    api: Api, standin: StandIn, gate: threading.Event
):
    standin.play(Say(TEXT, pieces=10, gate=gate))
    thread = new_id()
    with api.stream("Hello", thread, model="of-openai") as events:
        next(events)
        refused = api.http.post("/api/chat", json=api.body("Me too", thread))
        assert refused.status_code == 409
        assert "still being written" in refused.json()["error"]["message"]
        gate.set()
        assert list(events)[-1]["type"] == "RUN_FINISHED"


@pytest.mark.slow
def test_whoever_has_no_key_gets_none_of_it(server: Server, api: Api):
    stranger = server.people(1)[0]
    thread = new_id()
    api.run("Hello", thread, model="of-openai")
    body = api.body("Let me in", thread)
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer nonsense"}, 401),
        ({"x-api-key": "nonsense"}, 401),
        (stranger.bearer, 404),
    ):
        answer = httpx.post(f"{server.url}/api/chat", json=body, headers=headers, timeout=60)
        assert answer.status_code == status, headers
        read = httpx.get(f"{server.url}/api/chat", params={"threadId": thread}, headers=headers, timeout=60)
        assert read.status_code == status, headers
    assert httpx.get(
        f"{server.url}/api/chat?threadId={thread}", headers={"x-api-key": api.person.key}, timeout=60
    ).is_success


@pytest.mark.slow
def test_bad_bodies_are_refused_before_the_head(api: Api):
    for content, kind, status in (
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"[]", "application/json", 422),
        (b"{}", "application/json", 422),
        (b"{}", "text/plain", 415),
        (b"\xff\xfe", "application/json", 400),
        (json.dumps(api.body("nul \0 here", new_id())).encode(), "application/json", 422),
        (json.dumps(api.body("x" * 2_000_000, new_id())).encode(), "application/json", 413),
        (json.dumps(api.body("", new_id())).encode(), "application/json", 422),
        (json.dumps(api.body("hello", new_id(), model="no such model")).encode(), "application/json", 422),
    ):
        answer = api.http.post("/api/chat", content=content, headers={"Content-Type": kind})
        assert answer.status_code == status, (content[:60], answer.status_code, answer.text[:200])
        assert answer.json()["error"]["message"]


@pytest.mark.slow
def test_the_events_of_a_thread_by_session_cookie(server: Server, api: Api):
    thread = new_id()
    told = api.run("Hello", thread, model="of-openai")
    with (
        server.client(api.person) as client,
        client.stream("GET", f"/threads/{thread}/events", params={"after": ""}) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache, no-transform"
        heard = []
        for event in events_in(response):
            heard.append(event)
            if event["type"] == "RUN_FINISHED":
                break
    assert [event["type"] for event in heard] == [event["type"] for event in told]
    assert text_of(heard) == text_of(told)
    with server.client(server.people(1)[0]) as stranger:
        assert stranger.get(f"/threads/{thread}/events").status_code == 404
    with server.client() as nobody:
        assert nobody.get(f"/threads/{thread}/events").status_code == 302
