"""One log, four ways to hear it: SSE as JSON and as HTML, WebSocket, long-poll. The same events, none twice."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import replace
from functools import reduce

import httpx
import pytest
from django.conf import settings
from django.test import AsyncClient

from agent.messages import Transcript
from agent.providers.scripted import Turn
from agent.reducer import apply
from agent.wire.agui import decode_event, encode_event
from chatsite.accounts.keys import new_api_key, revoke
from chatsite.accounts.models import ApiKey
from chatsite.asgi import application
from chatsite.chat import commands, db, eventlog, runner, store
from chatsite.chat.commands.values import Organize, Send
from chatsite.chat.files.upload_doors import UploadDoor
from chatsite.chat.models import Run, RunEvent, Thread
from chatsite.chat.process import draining
from chatsite.chat.readers import following, stream, thread_events
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.readers.thread_events import EventsDoor
from chatsite.chat.render.fragments import FragmentWriter, render_transcript
from chatsite.chat.rows import kept_log
from chatsite.chat.runs import keeping, liverun
from tests.chat.conftest import until
from tests.chat.render.page import Page
from tests.chat.test_doors import by_key, deactivate, socket
from tests.chat.test_runs import WEATHER, begin, told

ANSWER = "Some *words* that\n\ncome in pieces:\n\n- one\n- two\n\n```py\nprint(1)\n```\n\nand an end."


def events_at(thread_id: str) -> str:
    return f"/threads/{thread_id}/events"


async def poll(http, key, thread_id, after="", wait=0, **more) -> httpx.Response:
    return await http.get(
        events_at(thread_id),
        params={"after": after, "wait": wait, **more},
        headers={"Authorization": f"Bearer {key}"},
    )


async def polled(http, key, done) -> list[tuple[str, dict]]:
    """The whole thread by asking again and again, until an answer is empty."""
    heard, cursor = [], ""
    while True:
        answer = await poll(http, key, done.thread.public_id, cursor)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        if not body["events"]:
            assert body["cursor"] == cursor
            return heard
        heard += [(each["cursor"], each["event"]) for each in body["events"]]
        cursor = body["cursor"]


async def by_socket(key, done, count, after="") -> list[tuple[str, dict]]:
    communicator = socket(done.thread.public_id, by_key(key), after=after)
    assert (await communicator.connect())[0]
    frames = [json.loads(await communicator.receive_from()) for _ in range(count)]
    await communicator.disconnect()
    return [(frame["cursor"], frame["event"]) for frame in frames]


class Stream:
    """An open SSE connection to the ASGI application, read frame by frame and cut at will."""

    def __init__(self, key: str, thread_id: str, query: str = "", last: str = "") -> None:
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())]
        if last:
            headers.append((b"last-event-id", last.encode()))
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": events_at(thread_id),
            "query_string": query.encode(),
            "headers": headers,
        }
        self._sent: asyncio.Queue[dict] = asyncio.Queue()
        self._to_app: asyncio.Queue[dict] = asyncio.Queue()
        self._text = self.raw = ""

    async def __aenter__(self) -> Stream:
        self._to_app.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        self._task = asyncio.ensure_future(application(self.scope, self._to_app.get, self._sent.put))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._to_app.put_nowait({"type": "http.disconnect"})
        async with asyncio.timeout(60):
            await self._task

    async def more(self) -> str:
        """What comes next, whatever it is."""
        async with asyncio.timeout(60):
            message = await self._sent.get()
        assert message.get("status", 200) == 200
        text = message.get("body", b"").decode()
        self.raw += text
        return text

    async def frame(self) -> tuple[str, str]:
        """The next one that has an id: the id and its data."""
        async with asyncio.timeout(60):
            while True:
                whole, mark, rest = self._text.partition("\n\n")
                if not mark:
                    self._text += await self.more()
                    continue
                self._text = rest
                lines = whole.split("\n")
                ids = [line[4:] for line in lines if line.startswith("id: ")]
                if ids:
                    data = [line[6:] for line in lines if line.startswith("data: ")]
                    return ids[-1], "\n".join(data)


async def test_all_ways_bring_the_same_events_under_the_same_cursors(person, key, http, plays, settled):
    plays(*WEATHER)
    done = await begin(person)
    await settled()
    kept = await db.read(kept_log.events_after, done.run.pk, 0)
    heard = await polled(http, key, done)
    assert [cursor for cursor, _ in heard] == [f"{done.run.public_id}:{number}" for number, _ in kept]
    async with Stream(key, done.thread.public_id) as stream:
        by_sse = [await stream.frame() for _ in kept]
    assert [(cursor, json.loads(data)) for cursor, data in by_sse] == heard
    assert await by_socket(key, done, len(kept)) == heard


async def test_a_poll_waits_for_what_is_not_there_yet(person, key, http, plays, settled):
    gate = asyncio.Event()
    plays(Turn("First, and second.", delta_size=7, gate=gate))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.shown > 3)
    body = (await poll(http, key, done.thread.public_id)).json()
    waiting = asyncio.ensure_future(poll(http, key, done.thread.public_id, body["cursor"], wait=25))
    await until(lambda: channel.readers > 0)
    assert not waiting.done()
    gate.set()
    async with asyncio.timeout(60):
        more = (await waiting).json()
    assert more["events"]
    assert int(more["events"][0]["cursor"].rpartition(":")[2]) == int(body["cursor"].rpartition(":")[2]) + 1


async def test_a_poll_for_a_page_brings_fragments_and_where_to_go_on(person, key, http, plays, settled):
    plays(Turn("Hi *there*."))
    done = await begin(person)
    await settled()
    answer = await poll(http, key, done.thread.public_id, format="html")
    assert "<em>there</em>" in answer.text
    cursor = answer.headers[thread_events.CURSOR_HEADER]
    nothing = await poll(http, key, done.thread.public_id, cursor, format="html")
    assert (nothing.status_code, nothing.text) == (204, "")


@pytest.mark.parametrize("wait", ["-1", "soon", "1e3", "9" * 50])
async def test_a_wait_that_is_no_number_is_refused_in_words(wait, person, key, http, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    answer = await poll(http, key, done.thread.public_id, wait=wait)
    assert answer.status_code == 422
    assert "wait" in answer.json()["error"]["message"]


async def test_nobody_polls_or_follows_anothers_thread(person, stranger, http, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    foreign = await db.write(new_api_key, stranger)
    for params in ({}, {"wait": "1"}, {"format": "html"}):
        answer = await http.get(
            events_at(done.thread.public_id), params=params, headers={"Authorization": f"Bearer {foreign}"}
        )
        assert answer.status_code == 404
        anonymous = await http.get(events_at(done.thread.public_id), params=params)
        assert anonymous.status_code == 302
        assert anonymous.headers["location"].startswith("/accounts/login/")
        wrong = await http.get(
            events_at(done.thread.public_id), params=params, headers={"Authorization": "Bearer tl-wrong"}
        )
        assert wrong.status_code in (302, 401)


async def test_a_session_is_enough_and_another_host_is_not(person, http, plays, settled, client_of):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    client = await db.read(client_of, person)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    path = events_at(done.thread.public_id)
    answer = await http.get(path, params={"wait": "0"}, headers={"Cookie": cookie})
    assert answer.status_code == 200
    assert answer.json()["events"]
    evil = await http.get(path, params={"wait": "0"}, headers={"Cookie": cookie, "Host": "evil.example"})
    assert evil.status_code == 400


@pytest.mark.parametrize(("door", "path"), [(EventsDoor, "events"), (UploadDoor, "attachments/none")])
async def test_where_people_come_over_https_nothing_is_told_without_it(
    door, path, person, key, plays, settled, settings
):
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()

    async def django(scope, receive, send):
        await send({"type": "http.response.start", "status": 301, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    transport = httpx.ASGITransport(app=door(otherwise=django))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        for scheme, is_django_s in (("", True), ("http", True), ("https", False)):
            headers = {"x-api-key": key, "X-Forwarded-Proto": scheme}
            answer = await http.get(f"/threads/{done.thread.public_id}/{path}?wait=0", headers=headers)
            assert (answer.status_code == 301) is is_django_s


@pytest.mark.parametrize("form", ["json", "html"])
async def test_a_poll_ends_when_its_user_is_deactivated(form, person, key, http, plays, settled, monkeypatch):
    monkeypatch.setattr(eventlog, "LOOK_UP", 0.01)
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    kept = await db.read(kept_log.last_number, done.run.pk)
    cursor = f"{done.run.public_id}:{kept}"
    waiting = asyncio.ensure_future(poll(http, key, done.thread.public_id, cursor, wait=25, format=form))
    await until(lambda: eventlog.channel_of(done.thread.pk).readers > 0)
    await deactivate(person)
    async with asyncio.timeout(20):  # sooner than the end of the wait
        assert (await waiting).status_code == 404


async def delete(person, thread):
    await commands.perform(person, thread.public_id, Organize(deleted=True), door="page")


LOSSES = {
    "deactivated": lambda person, thread: deactivate(person),
    "key revoked": lambda person, thread: db.write(revoke_all, person),
    "thread deleted": delete,
}


def revoke_all(person) -> None:
    for key in ApiKey.objects.filter(user=person):
        revoke(key)


async def stream_until_cut(key, done, way: str, opened: asyncio.Event) -> None:
    """Open it, and return when the server has ended it."""
    thread_id = done.thread.public_id
    if way == "socket":
        communicator = socket(thread_id, by_key(key), after=f"{done.run.public_id}:0")
        assert (await communicator.connect())[0]
        opened.set()
        while (await communicator.receive_output())["type"] != "websocket.close":
            pass
        return
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application), base_url="http://localhost", timeout=60
    ) as http:
        opened.set()
        if way == "post":
            # The run's own request: known by its id, it is never a second run.
            asked = {"id": "u", "role": "user", "content": "Hi"}
            body = {"threadId": thread_id, "runId": done.run.public_id, "messages": [asked]}
            await http.post("/api/chat", json=body, headers={"Authorization": f"Bearer {key}"})
        elif way == "api":
            run = {"runId": done.run.public_id}
            await http.get("/api/chat", params=run, headers={"Authorization": f"Bearer {key}"})
        else:
            wait = {"wait": 25, "after": await newest(done)} if way == "poll" else {"format": way}
            await http.get(events_at(thread_id), params=wait, headers={"Authorization": f"Bearer {key}"})


async def newest(done) -> str:
    live = eventlog.channel_of(done.thread.pk).live
    assert live is not None
    return f"{done.run.public_id}:{live.shown}"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("way", ["json", "html", "poll", "socket", "api", "post"])
async def test_an_open_stream_is_cut_when_its_reader_may_not_read_any_more(
    way, loss, person, key, plays, settled, monkeypatch
):
    """In the middle of an answer that nothing comes of meanwhile."""
    monkeypatch.setattr(eventlog, "LOOK_UP", 0.02)
    monkeypatch.setattr(stream, "HEARTBEAT", 3600.0)  # who is cut by a sign of life is cut too late
    gate = asyncio.Event()
    plays(Turn("First, and second.", delta_size=7, gate=gate))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.shown > 2)
    opened = asyncio.Event()
    reading = asyncio.ensure_future(stream_until_cut(key, done, way, opened))
    await opened.wait()
    await until(lambda: channel.readers > 0)
    assert not reading.done()
    await LOSSES[loss](person, done.thread)
    async with asyncio.timeout(20):
        await reading
    assert channel.readers == 0
    gate.set()
    await settled()


def test_an_answer_to_who_may_read_is_good_for_less_than_five_seconds():
    """At the worst a reader looks up just before it would be asked for again, and then only after a whole silence."""
    assert eventlog.LOOK_UP * (1.1 + 1) < 5
    assert all(stream._soon() - time.monotonic() <= eventlog.LOOK_UP * 1.1 for _ in range(100))


async def test_a_silent_stream_shows_signs_of_life(person, key, plays, settled, monkeypatch):
    monkeypatch.setattr(eventlog, "LOOK_UP", 0.02)
    monkeypatch.setattr(stream, "HEARTBEAT", 0.1)
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    for form in ("json", "html"):
        async with Stream(key, done.thread.public_id, f"format={form}") as open_stream:
            while open_stream.raw.count(stream.ALIVE.decode()) < 4:
                await open_stream.more()


async def test_a_poll_of_a_server_that_leaves_says_when_to_ask_again(person, key, http, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    kept = await db.read(kept_log.last_number, done.run.pk)
    draining.leave()
    try:
        answer = await poll(http, key, done.thread.public_id, f"{done.run.public_id}:{kept}", wait=25)
    finally:
        draining.serve()
    assert answer.json()["events"] == []
    assert int(answer.headers["retry-after"]) >= 1


# -- cut and back at every event -----------------------------------------------------------------------------


async def gated(person, plays) -> tuple[object, asyncio.Event]:
    gate = asyncio.Event()
    plays(Turn(ANSWER, delta_size=3, gate=gate))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.shown > 3)
    return done, gate


async def kept_text(done) -> str:
    def read() -> str:
        return store.transcript_of(store.load_state(Thread.objects.get(pk=done.thread.pk)))[-1].text

    return await db.read(read)


def text_in(events: list[dict]) -> str:
    folded = reduce(apply, map(decode_event, events), Transcript())
    return folded[-1].text


@pytest.mark.parametrize("way", ["sse", "last-event-id", "socket", "poll"])
async def test_a_reader_that_is_cut_off_at_every_event_hears_each_once(
    way, person, key, http, plays, settled
):
    done, gate = await gated(person, plays)
    thread, heard, cursor = done.thread.public_id, [], ""
    while not heard or not heard[-1]["type"].startswith("RUN_FIN"):
        if len(heard) == 5:
            gate.set()
        if way in ("sse", "last-event-id"):
            query, last = (f"after={cursor}", "") if way == "sse" else ("after=nonsense", cursor)
            async with Stream(key, thread, query, last) as stream:
                cursor, data = await stream.frame()
            heard.append(json.loads(data))
        elif way == "socket":
            [(cursor, event)] = await by_socket(key, done, 1, cursor)
            heard.append(event)
        else:
            body = (await poll(http, key, thread, cursor, wait=25)).json()
            first = body["events"][0]  # the rest got lost on its way
            cursor = first["cursor"]
            heard.append(first["event"])
    assert len(heard) > 20
    assert text_in(heard) == await kept_text(done) == ANSWER
    numbers = [number for number, _ in await db.read(kept_log.events_after, done.run.pk, 0)]
    assert len(heard) == len(numbers)


async def test_a_page_that_is_cut_off_at_every_event_shows_the_stored_answer(person, key, plays, settled):
    """Each step of the run is shown by itself, and the page hears of each over a connection of its own."""
    plays(Turn(ANSWER, delta_size=3))
    done = await commands.begin_thread(person, Send(text="Hello?"), door="page", public_id="thread")
    channel = eventlog.channel_of(done.thread.pk)
    events = await told(done)
    await settled()
    live, over = channel.live, channel.live.state()
    running = replace(over.segments[-1].run, state="running", duration_ms=None)
    page, cursor, cuts = Page(), "", 0
    for number in range(1, len(events) + 1):
        ended = number == len(events)
        folded = reduce(apply, events[:number], live._seen.before(0)[1])
        live.show(number, folded, over.segments[-1].run if ended else running)
        before = live.state_at(int(cursor.rpartition(":")[2])) if cursor else None
        if before is not None and not FragmentWriter(before).update(live.state()):
            continue
        async with Stream(key, "thread", f"format=html&after={cursor}") as stream:
            cursor, html = await stream.frame()
        page.apply(html)
        page.apply(html)  # as if it had come before the line broke, too
        cuts += 1
    assert cuts >= 20
    stored = await db.read(lambda: store.load_state(Thread.objects.get(pk=done.thread.pk)))
    assert page.log == Page(render_transcript(stored)).log


# -- what a reader costs -------------------------------------------------------------------------------------


async def test_one_batch_is_bounded_however_far_behind_a_reader_is(person, key, http, plays, settled):
    plays(Turn("x" * 2000, delta_size=1))
    done = await begin(person)
    await settled()
    for live in (True, False):
        channel = eventlog.channel_of(done.thread.pk)
        if not live:
            channel.live = None
        sizes, heard = [], 0
        async for batch in following.follow_run(channel, done.run.pk, done.run.public_id):
            sizes.append(len(batch.events))
            assert [number for number, _ in batch.events] == list(range(heard + 1, heard + sizes[-1] + 1))
            heard += sizes[-1]
        assert max(sizes) <= liverun.AT_ONCE
        assert heard == await db.read(kept_log.last_number, done.run.pk) > 2000


async def test_a_state_in_the_middle_of_a_long_run_is_found_from_a_checkpoint(
    person, plays, settled, monkeypatch
):
    plays(Turn("word " * 1200, delta_size=1))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await told(done)
    live = channel.live
    assert live is not None
    folded = []
    monkeypatch.setattr(liverun, "apply", lambda *args: folded.append(1) or apply(*args))
    for number in (1, 255, 256, 257, 3000, live.shown - 1):
        folded.clear()
        state = live.state_at(number)
        assert len(folded) <= liverun.FOLD_AT_MOST
        expected = reduce(apply, live.events[:number], Transcript(state.segments[-1].messages[:1]))
        assert state.segments[-1].messages == expected.messages
    assert len(live._seen._kept) <= live._seen.MOST


async def test_a_cursor_far_back_in_a_very_long_run_gets_the_newest_state(person, plays, settled):
    plays(Turn("x" * 4000, delta_size=1))
    done = await begin(person)
    await settled()
    channel = eventlog.channel_of(done.thread.pk)
    channel.live = None
    number = await db.read(kept_log.last_number, done.run.pk)
    assert await following.state_at(channel, done.thread, Cursor(done.run.public_id, number)) is not None
    assert await following.state_at(channel, done.thread, Cursor(done.run.public_id, 3000)) is None
    early = await following.state_at(channel, done.thread, Cursor(done.run.public_id, 100))
    assert early is not None
    assert re.fullmatch("x+", early.segments[-1].messages[-1].text)
    assert await db.read(Run.objects.count) == 1


async def test_a_flood_of_deltas_costs_few_writes_and_few_frames(person, key, plays, settled, monkeypatch):
    kept, keep = [], keeping.keep
    monkeypatch.setattr(keeping, "keep", lambda batches: kept.extend(batches) or keep(batches))
    plays(Turn("x" * 5000, delta_size=1))
    began = time.monotonic()
    done = await begin(person)
    frames = 0
    async with Stream(key, done.thread.public_id, "format=html") as stream:
        while frames == 0 or runner.running_here():
            await stream.frame()
            frames += 1
    await settled()
    seconds = time.monotonic() - began
    assert await kept_text(done) == "x" * 5000
    assert len(kept) <= 5 * seconds + 3, "its start, its end, and five a second"
    assert frames <= 5 * seconds + 3


async def test_a_signed_out_form_leads_back_to_the_page_it_was_on(plays):
    anonymous = AsyncClient()
    forms = {"/threads/": "/", "/threads/t1/send": "/threads/t1/", "/threads/t1/stop": "/threads/t1/"}
    for path, back in forms.items():
        answer = await anonymous.post(path, {"text": "Hello"})
        assert answer.status_code == 302
        assert answer.headers["location"] == f"/accounts/login/?next={back}"


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["form", "htmx"])
@pytest.mark.parametrize("what", ["large", "many"])
async def test_a_form_that_is_too_large_is_refused_in_words(what, headers, person, client_of):
    page = await db.read(client_of, person)
    data = {"text": "x" * 12_000_000} if what == "large" else {f"field{n}": "x" for n in range(5000)}
    answer = await page.post("/threads/", data, headers=headers)
    assert answer.status_code == 413
    assert "more than the server takes at once" in answer.content.decode()
    assert answer.content.decode().startswith("<p class" if headers else "<!")


@pytest.fixture
def rows_read(monkeypatch):
    """Counts rows of logs as they are read."""
    read = []
    unpack = kept_log.unpack
    monkeypatch.setattr(
        kept_log, "unpack", lambda row, after=0: read.append(row.number) or unpack(row, after)
    )
    return read


async def test_a_run_of_another_process_is_followed_by_what_is_new_in_its_log(
    person, plays, settled, rows_read
):
    """Look by look the same state as one who reads it all, and no row of the log is read twice."""
    plays(
        Turn("Let me look.", calls=[("w", "get_weather", {"city": "Oslo"})], delta_size=3),
        Turn("It is **62** degrees there.", delta_size=2),
    )
    done = await begin(person)
    await settled()
    events = await db.read(kept_log.events_after, done.run.pk, 0)
    channel = eventlog.channel_of(done.thread.pk)
    channel.live = None
    await db.write(_as_if_elsewhere, done.run.pk)
    for number in range(1, len(events)):
        await db.write(_log_until, done.run.pk, events, number)
        rows_read.clear()
        state = await following.state_now(channel, done.thread)
        assert len(rows_read) == 1
        assert state == await db.read(lambda: store.load_state(Thread.objects.get(pk=done.thread.pk)))
    assert state.segments[-1].messages[-1].text == "It is **62** degrees there."
    await db.write(_log_until, done.run.pk, events, len(events))
    await db.write(lambda: Run.objects.filter(pk=done.run.pk).update(state="finished", stop_reason="stop"))
    ended = await following.state_now(channel, done.thread)
    assert ended == await db.read(lambda: store.load_state(Thread.objects.get(pk=done.thread.pk)))
    assert ended.active_run is None


def _as_if_elsewhere(run_pk):
    RunEvent.objects.filter(run_id=run_pk).delete()
    Run.objects.filter(pk=run_pk).update(state="running", owner="another-machine/1:7:x", stop_reason="")


def _log_until(run_pk, events, number):
    """The log's next event, in a row of its own."""
    at, event = events[number - 1]
    data = encode_event(event)
    RunEvent.objects.create(run_id=run_pk, first=at, number=at, type=data["type"], data=data)
