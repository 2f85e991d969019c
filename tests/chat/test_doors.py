"""The page's doors and the WebSocket: the same commands, the same events, the same refusals."""

from __future__ import annotations

import asyncio
import json

import pytest
from django.db import OperationalError
from django.test import AsyncClient

from agent.providers.scripted import Turn
from chatsite.asgi import application
from chatsite.chat import db, eventlog
from chatsite.chat.models import Message, Run, Thread
from chatsite.chat.readers import cursors, following
from chatsite.chat.rows import kept_log
from tests.agent.agui_validation import assert_valid_run
from tests.chat.conftest import until
from tests.chat.test_api import frames
from tests.chat.test_runs import WEATHER, begin, told
from tests.communicators import WebsocketCommunicator

HTMX = {"HX-Request": "true"}


@pytest.fixture
async def page(person) -> AsyncClient:
    client = AsyncClient()
    await db.read(client.force_login, person)
    return client


@pytest.fixture
async def stranger_page(stranger) -> AsyncClient:
    client = AsyncClient()
    await db.read(client.force_login, stranger)
    return client


async def chunks_until(response, found) -> str:
    """Read a stream until `found(text)`; then close it, as a browser does."""
    text = ""
    stream = aiter(response.streaming_content)
    async with asyncio.timeout(60):
        while not found(text):
            text += (await anext(stream)).decode()
    await stream.aclose()
    return text


async def test_home_needs_a_login(person):
    response = await AsyncClient().get("/")
    assert response.status_code == 302
    assert response.headers["location"].startswith("/accounts/login/")


async def test_the_forms_work_without_javascript(page, plays, settled):
    plays(Turn("Hello *there*."))
    assert (await page.get("/")).status_code == 200
    created = await page.post("/threads/", {"text": "Hi\r\nyou", "client_id": "m1"})
    assert created.status_code == 303
    await settled()
    shown = (await page.get(created.headers["location"])).content.decode()
    assert "<em>there</em>" in shown
    assert (await db.read(Message.objects.get, role="user")).text == "Hi\nyou"


async def test_with_htmx_a_send_answers_204_and_a_new_thread_leads_to_its_page(page, plays, settled):
    plays(Turn("One."), Turn("Two."))
    created = await page.post("/threads/", {"text": "Hi", "client_id": "m1"}, headers=HTMX)
    await settled()
    assert created.status_code == 204
    where = created.headers["hx-redirect"]
    sent = await page.post(f"{where}send", {"text": "And?", "client_id": "m2"}, headers=HTMX)
    await settled()
    assert sent.status_code == 204
    assert sent.headers["hx-trigger"] == "threadloom:sent"


async def test_what_cannot_be_sent_comes_back_with_the_words_and_the_typed_text(page, plays, settled):
    gate = asyncio.Event()
    plays(Turn("Hello there.", gate=gate))
    created = await page.post("/threads/", {"text": "Hi", "client_id": "m1"})
    where = created.headers["location"]
    refused = await page.post(f"{where}send", {"text": "Hurry <up>", "client_id": "m2"})
    assert refused.status_code == 409
    assert "still being written" in refused.content.decode()
    assert "Hurry &lt;up&gt;" in refused.content.decode()
    by_htmx = await page.post(f"{where}send", {"text": "Hurry", "client_id": "m2"}, headers=HTMX)
    assert by_htmx.status_code == 409
    assert by_htmx.content.decode().startswith('<p class="notice error" role="alert">')
    gate.set()
    await settled()


@pytest.mark.parametrize("text", ["", "a\x00b", "x" * 2_000_000])
async def test_a_bad_first_message_is_refused_and_makes_no_thread(page, plays, text):
    refused = await page.post("/threads/", {"text": text, "client_id": "m1"})
    assert refused.status_code in {413, 422}
    assert 'role="alert"' in refused.content.decode()
    assert await db.read(Thread.objects.count) == 0


@pytest.mark.parametrize("what", ["", "send", "stop", "retry", "events"])
@pytest.mark.parametrize("headers", [{}, HTMX])
async def test_another_users_thread_and_an_unknown_one_are_404_at_every_door(
    person, stranger_page, plays, settled, what, headers
):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    for thread_id in (done.thread.public_id, "no-such-thread"):
        url = f"/threads/{thread_id}/{what}"
        ask = stranger_page.get if what in {"", "events"} else stranger_page.post
        response = await ask(url, headers=headers)
        assert response.status_code == 404


async def test_the_stream_brings_the_events_with_cursors_and_goes_on_with_the_next_run(
    person, page, plays, settled
):
    plays(*WEATHER, Turn("Second."))
    done = await begin(person)
    await settled()
    url = f"/threads/{done.thread.public_id}/"
    response = await page.get(f"{url}events?after={done.run.public_id}:0")
    assert response.headers["content-type"].startswith("text/event-stream")
    reading = asyncio.ensure_future(chunks_until(response, lambda text: text.count('"RUN_FINISHED"') == 2))
    await page.post(f"{url}send", {"text": "And?", "client_id": "m2"}, headers=HTMX)
    text = await reading
    events = frames(text)
    border = [event["type"] for event in events].index("RUN_FINISHED") + 1
    assert_valid_run(events[:border])
    assert_valid_run(events[border:])
    assert f"id: {done.run.public_id}:1\n" in text
    await settled()


async def test_the_stream_continues_behind_a_cursor_by_query_and_by_header(person, page, plays, settled):
    plays(*WEATHER)
    done = await begin(person)
    all_of_it = await told(done)
    await settled()
    cursor = f"{done.run.public_id}:{len(all_of_it) - 2}"
    url = f"/threads/{done.thread.public_id}/events"
    for response in (
        await page.get(f"{url}?after={cursor}"),
        await page.get(url, headers={"Last-Event-ID": cursor}),
    ):
        text = await chunks_until(response, lambda text: '"RUN_FINISHED"' in text)
        assert len(frames(text)) == 2


async def test_the_pages_stream_brings_fragments_and_then_only_what_is_new(person, page, plays, settled):
    gate = asyncio.Event()
    plays(Turn("First paragraph here.\n\nSecond paragraph there.", delta_size=6, gate=gate))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.shown > 4)
    state = await following.state_now(channel, done.thread)
    response = await page.get(f"/threads/{done.thread.public_id}/events?format=html&after={state.cursor}")
    reading = asyncio.ensure_future(chunks_until(response, lambda text: "Answer finished" in text))
    gate.set()
    text = await reading
    await settled()
    assert f"id: {done.run.public_id}:" in text
    assert "First" not in text  # the page has it, also what was told and not yet kept
    assert ".</hx-add>" in text


async def test_a_page_whose_cursor_nobody_knows_gets_the_whole_transcript(person, page, plays, settled):
    plays(Turn("The answer."))
    done = await begin(person)
    await settled()
    response = await page.get(f"/threads/{done.thread.public_id}/events?format=html&after=gone:7")
    assert "The answer." in await chunks_until(response, lambda text: "The answer." in text)


# -- WebSocket -----------------------------------------------------------------------------------------------


def socket(thread_id, *headers, after=""):
    return WebsocketCommunicator(
        application, f"/ws/threads/{thread_id}/?after={after}", headers=[(b"host", b"localhost"), *headers]
    )


def by_key(key):
    return (b"authorization", f"Bearer {key}".encode())


async def end_of(done) -> str:
    """The cursor behind everything the run said."""
    return str(cursors.Cursor(done.run.public_id, await db.read(kept_log.last_number, done.run.pk)))


async def received(communicator, kind) -> list[dict]:
    """Everything up to the event of this type."""
    seen = []
    while not seen or seen[-1].get("event", {}).get("type") != kind:
        seen.append(json.loads(await communicator.receive_from()))
    return seen


async def test_a_socket_takes_commands_and_brings_the_same_events(person, key, plays, settled):
    plays(Turn("Hi."), *WEATHER)
    done = await begin(person)
    first = await told(done)
    await settled()
    communicator = socket(done.thread.public_id, by_key(key), after=f"{done.run.public_id}:{len(first)}")
    assert (await communicator.connect())[0]
    await communicator.send_to(
        text_data=json.dumps({"type": "send", "text": "Weather?", "clientId": "m9", "id": 1})
    )
    seen = await received(communicator, "RUN_FINISHED")
    answers = [frame for frame in seen if frame.get("type") == "done"]
    assert answers[0]["id"] == 1
    events = [frame["event"] for frame in seen if "event" in frame]
    assert_valid_run(events)
    kept = await db.read(lambda: kept_log.events_after(Run.objects.get(public_id=answers[0]["runId"]).pk, 0))
    assert [frame["cursor"] for frame in seen if "event" in frame] == [
        f"{answers[0]['runId']}:{number}" for number, _ in kept
    ]
    await communicator.disconnect()


async def test_a_stop_by_socket_is_heard_while_the_answer_streams(person, key, plays, settled):
    gate = asyncio.Event()
    plays(Turn("Never finished.", delta_size=2, gate=gate))
    done = await begin(person)
    communicator = socket(done.thread.public_id, by_key(key))
    assert (await communicator.connect())[0]
    await received(communicator, "TEXT_MESSAGE_CONTENT")
    await communicator.send_to(text_data='{"type": "stop"}')
    end = (await received(communicator, "RUN_FINISHED"))[-1]["event"]
    assert end["outcome"] == {"type": "cancelled"}
    await communicator.disconnect()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("{nope", "one JSON object"),
        ("[1]", "one JSON object"),
        ('{"type": "fly"}', "type"),
        ('{"type": "send"}', "text"),
        ('{"type": "send", "text": ""}', "empty"),
        ('{"type": "send", "text": "x", "extra": 1}', "extra"),
        ('{"type": "send", "text": "x", "clientId": "' + "y" * 300 + '"}', "200"),
    ],
)
async def test_a_bad_frame_gets_words_and_the_socket_stays(person, key, plays, settled, sent, words):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    communicator = socket(done.thread.public_id, by_key(key), after=await end_of(done))
    assert (await communicator.connect())[0]
    await communicator.send_to(text_data=sent)
    answer = json.loads(await communicator.receive_from())
    assert answer["type"] == "problem"
    assert words in answer["message"]
    await communicator.send_to(text_data='{"type": "stop", "id": "x"}')
    assert json.loads(await communicator.receive_from()) == {"type": "done", "runId": None, "id": "x"}
    await communicator.disconnect()


async def test_a_socket_to_anothers_thread_or_without_a_key_is_closed_with_the_reason(
    person, stranger, plays, settled
):
    from chatsite.accounts.keys import new_api_key

    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    foreign = await db.write(new_api_key, stranger)
    for headers, code in (([by_key(foreign)], 4404), ([], 4401), ([by_key("wrong")], 4401)):
        communicator = socket(done.thread.public_id, *headers)
        assert (await communicator.connect())[0]
        assert (await communicator.receive_output()) == {"type": "websocket.close", "code": code}


async def test_a_socket_that_comes_while_the_database_is_away_is_told_to_come_again(person, key, monkeypatch):
    def away(*args):
        raise OperationalError("no connection")

    monkeypatch.setattr("chatsite.chat.access.entering", away)
    communicator = socket("t", by_key(key))
    assert (await communicator.connect())[0]
    assert (await communicator.receive_output()) == {"type": "websocket.close", "code": 1013}


async def test_an_address_that_brings_one_wrong_key_after_another_waits_at_every_door(
    person, key, monkeypatch
):
    import httpx

    from chatsite.accounts import failed_keys

    monkeypatch.setattr(failed_keys, "MOST", 3)

    async def ask(path: str, key: str, address: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=application, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            method = "POST" if path == "/api/attachments" else "GET"
            return await client.request(method, path, headers={"x-api-key": key})

    paths = ["/api/chat?threadId=t", "/api/attachments", "/threads/t/events", "/v1/models"]
    for number, path in enumerate(paths):
        address = f"192.0.2.{number}"
        while (refused := await ask(path, "tl-wrong", address)).status_code != 429:
            assert refused.status_code in {302, 401, 404}, path
        assert 0 < int(refused.headers["retry-after"]) <= 60
        assert "Too many API keys" in refused.text
        assert (await ask(path, "tl-wrong", "198.51.100.1")).status_code != 429
        failed_keys.forget()
    for _ in range(3):
        failed_keys.failed("192.0.2.9")
    communicator = socket("t", by_key("tl-wrong"))
    communicator.scope["client"] = ("192.0.2.9", 1)
    assert (await communicator.connect())[0]
    assert (await communicator.receive_output()) == {"type": "websocket.close", "code": 4429}
    assert (await ask("/api/chat?threadId=t", key, "198.51.100.1")).status_code == 404


async def test_a_socket_with_a_key_of_the_gateway_alone_is_closed_with_the_reason(
    person, key, plays, settled
):
    from chatsite.accounts.models import ApiKey

    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    await db.write(lambda: ApiKey.objects.update(scopes=["gateway"]))
    communicator = socket(done.thread.public_id, by_key(key))
    assert (await communicator.connect())[0]
    assert (await communicator.receive_output()) == {"type": "websocket.close", "code": 4403}
    await db.write(lambda: ApiKey.objects.update(scopes=["chat"]))
    communicator = socket(done.thread.public_id, by_key(key), after=await end_of(done))
    assert (await communicator.connect())[0]
    await db.write(lambda: ApiKey.objects.update(scopes=["gateway"]))
    await communicator.send_to(text_data='{"type": "send", "text": "Still here"}')
    assert (await communicator.receive_output()) == {"type": "websocket.close", "code": 4403}
    assert await db.read(Run.objects.count) == 1


# -- who may, asked again ------------------------------------------------------------------------------------


@pytest.fixture
def looks_up(monkeypatch):
    """So that what is asked again every few seconds is asked at once.

    A sign of life is no look-up: whoever is cut only by that one is cut too late.
    """
    monkeypatch.setattr(eventlog, "LOOK_UP", 0.01)
    monkeypatch.setattr("chatsite.chat.readers.stream.HEARTBEAT", 3600.0)


async def deactivate(user):
    await db.write(lambda: type(user).objects.filter(pk=user.pk).update(is_active=False))


async def ends(response, said: bytes, loses) -> None:
    """Whoever has heard all that there is, and then `loses()` the right to it, hears the end in the silence."""
    stream = aiter(response.streaming_content)
    async with asyncio.timeout(60):
        while said not in await anext(stream):
            pass
        await loses()
        async for _ in stream:
            pass


@pytest.mark.parametrize(("form", "said"), [("json", b'"RUN_FINISHED"'), ("html", b"Hi.")])
async def test_an_open_stream_ends_when_its_user_is_deactivated(
    person, page, plays, settled, looks_up, form, said
):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    response = await page.get(f"/threads/{done.thread.public_id}/events?format={form}")
    await ends(response, said, lambda: deactivate(person))


async def test_an_open_stream_ends_when_its_session_ends(person, page, plays, settled, looks_up):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    response = await page.get(f"/threads/{done.thread.public_id}/events")
    await ends(response, b'"RUN_FINISHED"', page.alogout)


async def test_an_open_socket_ends_when_its_key_is_revoked_and_takes_no_command(
    person, key, plays, settled, looks_up
):
    from chatsite.accounts.models import ApiKey

    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    for command in (None, '{"type": "send", "text": "Still here"}'):
        await db.write(lambda: ApiKey.objects.update(revoked_at=None))
        communicator = socket(done.thread.public_id, by_key(key), after=await end_of(done))
        assert (await communicator.connect())[0]
        await db.write(lambda: ApiKey.objects.update(revoked_at="2020-01-01T00:00:00Z"))
        if command is not None:
            await communicator.send_to(text_data=command)
        async with asyncio.timeout(60):
            while (said := await communicator.receive_output())["type"] != "websocket.close":
                pass
        assert said["code"] == 4401
    assert await db.read(Run.objects.count) == 1


# -- numbers and names that only a program would send --------------------------------------------------------


async def test_a_number_of_thousands_of_digits_is_no_cursor(person, page, key, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    response = await page.get(f"/threads/{done.thread.public_id}/events?after=x:{'9' * 5000}")
    assert '"RUN_FINISHED"' in await chunks_until(response, lambda text: '"RUN_FINISHED"' in text)
    communicator = socket(done.thread.public_id, by_key(key), after=f"x:{'9' * 5000}")
    assert (await communicator.connect())[0]
    await received(communicator, "RUN_FINISHED")
    await communicator.disconnect()


async def test_half_a_surrogate_pair_in_a_commands_id_leaves_the_socket_open(person, key, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    communicator = socket(done.thread.public_id, by_key(key), after=await end_of(done))
    assert (await communicator.connect())[0]
    await communicator.send_to(text_data='{"type": "stop", "id": "\\ud800"}')
    assert json.loads(await communicator.receive_from())["id"] == "\ud800"
    await communicator.disconnect()


@pytest.mark.parametrize("character", ["\ud800", "\x00"])
async def test_a_name_that_no_database_holds_is_one_that_nothing_has(person, key, plays, settled, character):
    plays(Turn("Hi."), Turn("Hi."))
    done = await begin(person)
    await settled()
    communicator = socket(done.thread.public_id, by_key(key), after=await end_of(done))
    assert (await communicator.connect())[0]
    for asked in (
        {"type": "stop", "runId": character},
        {"type": "continue", "runId": character},
        {"type": "configure", "preset": character},
        {"type": "configure", "model": character},
        {"type": "retry", "model": character},
        {"type": "send", "text": "Hi", "attachments": [character]},
    ):
        await communicator.send_to(text_data=json.dumps({**asked, "id": 1}))
        said = json.loads(await communicator.receive_from())
        assert said["id"] == 1, said
        assert (said["type"], said.get("runId")) == ("done", None) or said["type"] == "problem", said
    await communicator.disconnect()


def test_a_cursor_is_ascii_whatever_a_program_calls_its_run():
    cursor = cursors.Cursor("run-日本:7 %", 12)
    assert str(cursor).isascii()
    assert cursors.parse_cursor(str(cursor)) == cursor
