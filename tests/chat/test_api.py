"""`POST /api/chat` and `GET /api/chat?threadId=`, through the ASGI application that the server serves."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from django.test import AsyncClient

from agent.errors import ProviderUnreachable
from agent.messages import Usage
from agent.providers.scripted import Turn
from chatsite.accounts.models import ApiKey
from chatsite.asgi import application
from chatsite.chat import db, eventlog
from chatsite.chat.api import exchange, stream
from chatsite.chat.models import Message, Run, Thread
from tests.agent.agui_validation import assert_valid_run
from tests.chat.conftest import row_of, until
from tests.chat.test_runs import WEATHER
from tests.communicators import HttpCommunicator

# The first request of a fresh ASGI thread may open connections that the collector closes later.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def body(text="What should I wear?", *, thread="T1", run="r1", message="u1", **more):
    messages = more.pop("messages", [{"id": message, "role": "user", "content": text}])
    return {
        "threadId": thread,
        "runId": run,
        "state": {},
        "messages": messages,
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **more,
    }


def frames(text: str) -> list[dict]:
    events = []
    for frame in text.split("\n\n"):
        lines = [line for line in frame.split("\n") if line and not line.startswith(":")]
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        if data:
            events.append(json.loads("\n".join(data)))
    return events


async def post(http, key, sent, **headers):
    return await http.post("/api/chat", json=sent, headers={"Authorization": f"Bearer {key}", **headers})


async def test_a_run_comes_as_ag_ui_events_that_the_validators_take(http, key, plays, settled):
    plays(*WEATHER[:2], Turn("It is 62 degrees.", usage=Usage(120, 9)))
    response = await post(http, key, body())
    await settled()
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert "\r" not in response.text
    events = frames(response.text)
    assert_valid_run(events)
    assert events[0]["type"] == "RUN_STARTED"
    assert (events[0]["threadId"], events[0]["runId"], events[0]["protocolVersion"]) == ("T1", "r1", "1.0")
    assert "input" not in events[0]
    assert [event["type"] for event in events].count("RUN_FINISHED") == 1
    end = events[-1]
    assert end["type"] == "RUN_FINISHED"
    assert end["outcome"] == {"type": "success"}
    assert end["metadata"]["tanstack"]["finishReason"] == "stop"
    assert [(entry["inputTokens"], entry["totalTokens"], entry["model"]) for entry in end["usage"]] == [
        (120, 129, "demo")
    ]
    result = next(event for event in events if event["type"] == "TOOL_CALL_RESULT")
    assert json.loads(result["content"]) == {
        "city": "San Francisco",
        "temperature": 62,
        "conditions": "cloudy",
    }
    assert result["role"] == "tool"


async def test_a_failing_tool_says_so_for_tanstack_too(http, key, plays, settled):
    plays(Turn(calls=[("c1", "get_weather", {"city": "Nowhere"})]), Turn("No such city."))
    events = frames((await post(http, key, body())).text)
    await settled()
    result = next(event for event in events if event["type"] == "TOOL_CALL_RESULT")
    assert result["metadata"]["tanstack"]["state"] == "output-error"
    assert "no such city" in json.loads(result["content"])["error"]


async def test_a_provider_that_fails_is_one_run_error_behind_a_good_head(http, key, plays, settled):
    plays(Turn(error=ProviderUnreachable("The model's endpoint cannot be reached.")), Turn("Now."))
    response = await post(http, key, body())
    events = frames(response.text)
    assert_valid_run(events)
    assert response.status_code == 200
    assert events[-1]["type"] == "RUN_ERROR"
    assert events[-1]["code"] == "provider_unreachable"
    await settled()
    again = frames((await post(http, key, body(run="r2", message="u2", text="Again?"))).text)
    assert again[-1]["type"] == "RUN_FINISHED"


async def test_only_the_new_message_counts_and_the_thread_is_the_record(http, key, plays, settled):
    provider = plays(Turn("First answer."), Turn("Second answer."))
    await post(http, key, body("First"))
    await settled()
    forged = [
        {"id": "u1", "role": "user", "content": "Something else entirely"},
        {"id": "a1", "role": "assistant", "content": "I never said this"},
        {"id": "u2", "role": "user", "content": "Second"},
    ]
    await post(http, key, body(run="r2", messages=forged))
    await settled()
    read = [message.text for message in provider.requests[-1].transcript]
    assert read == ["First", "First answer.", "Second"]


async def test_a_message_in_a_thread_that_is_there_begins_in_few_steps(
    http, key, plays, settled, monkeypatch
):
    """Who it is, what is there of the body, whose the thread is: each step to a reader costs as much as it reads."""
    plays(Turn("First answer."), Turn("Second answer."))
    await post(http, key, body())
    await settled()
    steps, read = [], db.read

    async def counted(job, *args, **kwargs):
        steps.append(job)
        return await read(job, *args, **kwargs)

    monkeypatch.setattr(db, "read", counted)
    await post(http, key, body("And tomorrow?", run="r2", message="u2"))
    await settled()
    of_doors = ("chatsite.chat.access", "chatsite.chat.api", "chatsite.chat.commands", "django.db")
    assert sum(getattr(job, "__module__", "").startswith(of_doors) for job in steps) == 3


async def test_a_client_with_only_the_thread_id_sees_the_old_turns(http, key, plays, settled):
    plays(Turn("First answer."))
    await post(http, key, body("First"))
    await settled()
    restored = (await http.get("/api/chat?threadId=T1", headers={"x-api-key": key})).json()
    assert [(message["role"], message["parts"][0]["content"]) for message in restored["messages"]] == [
        ("user", "First"),
        ("assistant", "First answer."),
    ]
    assert restored["activeRun"] is None
    assert restored["interrupts"] is None
    page = (await http.get("/api/chat?threadId=T1&limit=1", headers={"x-api-key": key})).json()
    assert [message["role"] for message in page["messages"]] == ["assistant"]
    assert page["page"] == {"truncated": True, "cursor": page["messages"][0]["id"]}


async def test_a_known_user_message_is_answered_anew(http, key, plays, settled):
    provider = plays(Turn("First answer."), Turn("Another answer."))
    await post(http, key, body("First"))
    await settled()
    await post(http, key, body("First", run="r2"))
    await settled()
    assert [message.text for message in provider.requests[-1].transcript] == ["First"]
    restored = (await http.get("/api/chat?threadId=T1", headers={"x-api-key": key})).json()
    assert [message["parts"][0]["content"] for message in restored["messages"]] == [
        "First",
        "Another answer.",
    ]


async def test_a_known_run_id_is_replayed_and_never_a_second_run(http, key, plays, settled):
    plays(*WEATHER)
    first = await post(http, key, body())
    await settled()
    again = await post(http, key, body())
    assert frames(again.text) == frames(first.text)
    assert await db.read(Run.objects.count) == 1


async def test_last_event_id_continues_behind_it(http, key, plays, settled):
    plays(*WEATHER)
    first = frames((await post(http, key, body())).text)
    await settled()
    rest = await post(http, key, body(), **{"Last-Event-ID": "r1:5"})
    assert frames(rest.text) == first[5:]


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"x-api-key": "wrong"}])
async def test_without_a_good_key_it_is_401(http, headers, person):
    for method in ("GET", "POST"):
        response = await http.request(method, "/api/chat?threadId=T1", headers=headers, json=body())
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "unauthorized"


async def test_a_revoked_key_and_a_deactivated_users_key_are_401(http, key, person, plays):
    await db.write(lambda: ApiKey.objects.update(revoked_at="2020-01-01T00:00:00Z"))
    assert (await post(http, key, body())).status_code == 401
    await db.write(lambda: ApiKey.objects.update(revoked_at=None))
    person.is_active = False
    await db.write(person.save)
    assert (await post(http, key, body())).status_code == 401


async def test_an_expired_key_is_401(http, key, plays):
    await db.write(lambda: ApiKey.objects.update(expires_at="2020-01-01T00:00:00Z"))
    assert (await post(http, key, body())).status_code == 401


@pytest.mark.parametrize("skin", ["before Django", "Django's handler"])
async def test_a_key_of_the_gateway_alone_is_403_with_a_reason(http, key, plays, skin):
    await db.write(lambda: ApiKey.objects.update(scopes=["gateway"]))
    if skin == "before Django":
        response = await post(http, key, body())
    else:
        response = await AsyncClient().post(
            "/api/chat", body(), content_type="application/json", headers={"x-api-key": key}
        )
    assert response.status_code == 403
    error = json.loads(response.content)["error"]
    assert error["code"] == "key_scope"
    assert "scope `chat`" in error["message"]
    assert await db.read(Run.objects.count) == 0


async def test_keys_are_kept_hashed(key):
    row = await db.read(ApiKey.objects.get)
    assert key not in json.dumps(
        {field.attname: str(getattr(row, field.attname)) for field in row._meta.fields}
    )


async def test_another_users_thread_is_404_by_every_method(http, key, stranger, plays, settled):
    await db.write(lambda: Thread.objects.create(owner=stranger, public_id="T1"))
    assert (await post(http, key, body())).status_code == 404
    assert (await http.get("/api/chat?threadId=T1", headers={"x-api-key": key})).status_code == 404
    assert (await http.get("/api/chat?threadId=none", headers={"x-api-key": key})).status_code == 404
    assert await db.read(Message.objects.count) == 0


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"messages": "hello"}, "messages"),
        ({"threadId": 7}, "threadId"),
        ({"runId": None}, "runId"),
        ({"threadId": "a/b"}, "threadId"),
        ({"threadId": ".."}, "threadId"),
        ({"threadId": "x" * 201}, "threadId"),
        ({"threadId": "a\nb"}, "threadId"),
        ({"messages": [{"id": "u1", "role": "wizard", "content": "x"}]}, "messages.0"),
        ({"messages": [{"id": "u1", "role": "user", "content": 7}]}, "messages.0.content"),
        ({"messages": [{"id": "u1", "role": "user", "content": ""}]}, "messages.0.content"),
        ({"forwardedProps": {"model": 7}}, "forwardedProps.model"),
    ],
)
async def test_a_malformed_body_is_refused_with_the_path_of_what_is_wrong(http, key, plays, change, path):
    response = await post(http, key, body() | change)
    assert response.status_code == 422
    assert path in response.json()["error"]["message"]
    assert await db.read(Thread.objects.count) == 0


async def test_no_json_and_no_json_type_are_refused_in_words(http, key):
    headers = {"x-api-key": key, "content-type": "application/json"}
    response = await http.post("/api/chat", content=b"{nope", headers=headers)
    assert response.status_code == 400
    assert "no JSON" in response.json()["error"]["message"]
    deep = await http.post("/api/chat", content=b"[" * 100_000, headers=headers)
    assert deep.status_code == 400
    plain = await http.post("/api/chat", content=b"{}", headers=headers | {"content-type": "text/plain"})
    assert plain.status_code == 415


@pytest.mark.parametrize("text", ["x" * 200_001, "a\x00b"])
async def test_a_text_that_cannot_be_kept_is_refused(http, key, plays, text):
    assert (await post(http, key, body(text))).status_code in {413, 422}
    assert await db.read(Message.objects.count) == 0


async def test_a_body_over_the_limit_is_413(http, key, monkeypatch):
    monkeypatch.setattr(exchange, "MAX_BODY", 1000)
    assert (await post(http, key, body("x" * 2000))).status_code == 413


async def test_an_unknown_model_is_refused_with_the_ones_there_are(http, key, plays):
    response = await post(http, key, body(forwardedProps={"model": "gpt-17"}))
    assert response.status_code == 422
    assert "demo" in response.json()["error"]["message"]


async def test_another_method_is_405(http, key):
    response = await http.delete("/api/chat", headers={"x-api-key": key})
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, POST"


async def test_a_second_run_while_one_is_active_is_409(http, key, plays, settled):
    gate = asyncio.Event()
    plays(Turn("Hello there.", gate=gate))
    first = asyncio.ensure_future(post(http, key, body()))
    await until(lambda: any(channel.active for channel in eventlog.open_channels()))
    refused = await post(http, key, body(run="r2", message="u2"))
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "run_active"
    gate.set()
    await first
    await settled()


def _scope(key):
    return {
        "type": "http",
        "method": "POST",
        "path": "/api/chat",
        "headers": [
            (b"host", b"localhost"),
            (b"x-api-key", key.encode()),
            (b"content-type", b"application/json"),
        ],
        "query_string": b"",
    }


async def _open_and_leave(key, sent, seen=3):
    """Post, read a few chunks, close the connection: what a client's Stop is."""
    communicator = HttpCommunicator(application, "POST", "/api/chat", body=json.dumps(sent).encode())
    communicator.scope["headers"] = _scope(key)["headers"]
    await communicator.send_input({"type": "http.request", "body": json.dumps(sent).encode()})
    assert (await communicator.receive_output())["status"] == 200
    for _ in range(seen):
        await communicator.receive_output()
    await communicator.send_input({"type": "http.disconnect"})
    await communicator.wait()


async def test_what_came_is_held_no_longer_than_until_the_reply_begins(key, plays, settled):
    """A client posts all of its conversation, and a stream may take minutes."""
    gate = asyncio.Event()
    plays(Turn("Hello there.", gate=gate))
    sent = json.dumps(body()).encode()
    alone = sys.getrefcount(sent)
    coming: asyncio.Queue[dict] = asyncio.Queue()
    told: asyncio.Queue[dict] = asyncio.Queue()
    coming.put_nowait({"type": "http.request", "body": sent})
    answering = asyncio.ensure_future(application(_scope(key), coming.get, told.put))
    assert (await told.get())["status"] == 200
    held = sys.getrefcount(sent) - alone
    gate.set()
    while (await told.get()).get("more_body", False):
        pass
    await answering
    await settled()
    assert held == 0


async def test_closing_the_connection_stops_the_run_after_the_grace(key, plays, settled, monkeypatch):
    monkeypatch.setattr(stream, "GRACE", 0.01)
    gate = asyncio.Event()
    provider = plays(Turn("Hello there.", delta_size=2, gate=gate))
    await _open_and_leave(key, body(), seen=1)
    await settled()
    run = await db.read(Run.objects.get)
    assert run.state == "cancelled"
    assert provider.closed == 1


async def test_closing_the_connection_leaves_a_run_that_was_told_to_go_on(key, plays, settled, monkeypatch):
    monkeypatch.setattr(stream, "GRACE", 0.01)
    gate = asyncio.Event()
    plays(Turn("Hello there.", delta_size=2, gate=gate))
    await _open_and_leave(key, body(forwardedProps={"onDisconnect": "continue"}), seen=1)
    await asyncio.sleep(0.05)  # longer than the grace: nothing tells that something will not happen
    gate.set()
    await settled()
    assert (await row_of(await db.read(Run.objects.get))).state == "finished"


async def test_a_session_needs_the_csrf_token_and_then_works(person, plays, settled):
    from django.test import AsyncClient

    plays(Turn("Hi."))
    client = AsyncClient(enforce_csrf_checks=True)
    await db.read(client.force_login, person)
    sent = json.dumps(body())
    refused = await client.post("/api/chat", sent, content_type="application/json")
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "csrf"
    token = "a" * 32
    client.cookies["csrftoken"] = token
    response = await client.post(
        "/api/chat", sent, content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert response.status_code == 200
    text = b"".join([chunk async for chunk in response.streaming_content]).decode()
    assert frames(text)[-1]["type"] == "RUN_FINISHED"
    await settled()


async def test_tanstacks_body_runs_too(http, key, plays, settled):
    plays(Turn("Hi."))
    sent = body() | {
        "data": {},
        "messages": [
            {
                "id": "msg-1",
                "role": "user",
                "content": "Hello",
                "metadata": {"tanstack": {"createdAt": "2026-01-01"}},
            }
        ],
    }
    response = await post(http, key, sent, **{"X-Run-Id": "r1"})
    await settled()
    assert frames(response.text)[-1]["type"] == "RUN_FINISHED"


async def test_one_message_under_many_run_ids_at_once_is_one_run_and_the_others_are_told(
    http, key, plays, settled
):
    gate = asyncio.Event()
    plays(Turn("Once.", gate=gate))
    asking = [asyncio.ensure_future(post(http, key, body(run=f"r{number}"))) for number in range(6)]
    await until(lambda: [task.done() for task in asking].count(True) == 5)
    gate.set()
    answers = await asyncio.gather(*asking)
    await settled()
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 5]
    winner = next(answer for answer in answers if answer.status_code == 200)
    assert frames(winner.text)[0]["runId"] in {f"r{number}" for number in range(6)}
    assert await db.read(Run.objects.count) == 1


async def test_a_cursor_that_no_log_had_replays_from_the_start(http, key, plays, settled):
    plays(Turn("Hi."))
    first = await post(http, key, body())
    await settled()
    for cursor in ("r1:999999", f"r1:{'9' * 5000}", "r1:x", "other:3"):
        assert frames((await post(http, key, body(), **{"Last-Event-ID": cursor})).text) == frames(first.text)


async def test_a_limit_of_thousands_of_digits_is_refused(http, key, plays, settled):
    plays(Turn("Hi."))
    await post(http, key, body())
    await settled()
    response = await http.get(f"/api/chat?threadId=T1&limit={'9' * 5000}", headers={"x-api-key": key})
    assert response.status_code == 422


async def test_a_message_that_is_only_an_image_is_sent(http, key, plays, settled):
    provider = plays(Turn("A picture."))
    image = {"type": "image", "source": {"type": "data", "value": "iVBORw0KGgo=", "mimeType": "image/png"}}
    response = await post(http, key, body(messages=[{"id": "u1", "role": "user", "content": [image]}]))
    await settled()
    assert frames(response.text)[-1]["type"] == "RUN_FINISHED"
    assert provider.requests[0].transcript[0].parts[0].mime_type == "image/png"


async def test_a_foreign_host_is_refused(http, key):
    assert (await post(http, key, body(), Host="evil.example")).status_code == 400


async def test_a_database_that_cannot_be_used_is_503_in_words(http, key, plays, monkeypatch):
    from django.db import OperationalError

    from chatsite.chat import access

    def locked(*_):
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(access, "user_of_key", locked)
    response = await http.get("/api/chat?threadId=T1", headers={"x-api-key": key})
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "database_unavailable"
