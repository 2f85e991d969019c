"""What a model was sent can be shown exactly: put together again, it is what its endpoint received."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agent.middleware import Middleware
from agent.providers.scripted import Turn as Plays
from agent.wire import anthropic, openai_chat
from chatsite.care import lines
from chatsite.catalog import entries
from chatsite.catalog.entries import EndpointEntry, Entries
from chatsite.chat import commands, db
from chatsite.chat.admin.requests import Requests, difference
from chatsite.chat.agents import use_agents
from chatsite.chat.commands.values import Edit, Retry, Send
from chatsite.chat.models import Message, RequestConfig, Run, Thread, Turn
from chatsite.chat.runs import requests
from tests.chat.test_admin import logged_in, page
from tests.chat.test_attachments import PNG, given
from tests.chat.test_stopping import speak_to
from tests.standin import Broken, Raw, Say, StandIn, error_body

CODECS = pytest.mark.parametrize("codec", [openai_chat, anthropic], ids=["openai", "anthropic"])


@pytest.fixture(autouse=True)
def _known_to_nobody() -> None:
    requests._kept.clear()


@pytest.fixture
async def upstream():
    async with StandIn() as server:
        yield server
    use_agents(None)


@pytest.fixture
def admin() -> Client:
    return logged_in(User.objects.create_superuser("root", password="a long enough secret"))


def rebuilt(thread: Thread) -> list:
    found = Requests(thread)
    turns = Turn.objects.filter(run__thread=thread).order_by("run", "number")
    return [found.rebuilt(turn) for turn in turns]


async def talk(person, settled, *texts: str) -> Thread:
    done = await commands.begin_thread(person, Send(text=texts[0]), door="page")
    await settled()
    for text in texts[1:]:
        await commands.perform(person, done.thread.public_id, Send(text=text), door="page")
        await settled()
    return done.thread


@CODECS
async def test_each_request_put_together_again_is_what_the_endpoint_received(
    codec, person, settled, upstream, settings
):
    settings.CHAT_AUTO_TITLE = False
    settings.CHAT_SYSTEM_PROMPT = "Be brief, and think of the wéather."
    speak_to(upstream, codec)
    thread = await talk(person, settled, "What is the weather? think", "And what should I wear?", "cut")
    again = await db.read(rebuilt, thread)
    received = [exchange.json for exchange in upstream.exchanges]
    assert len(again) == len(received) >= 5
    for one, body in zip(again, received, strict=True):
        assert one.exact
        assert one.body == body
        assert list(one.body) == list(body)
        sent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        assert (one.turn.size, one.turn.sent) == (len(sent), 1)
        assert "key" not in dict(one.headers).values()
    assert again[0].turn.url.endswith(codec.PATH)


@CODECS
async def test_also_behind_an_edit_a_retry_and_a_last_word(codec, person, settled, upstream, settings):
    settings.CHAT_AUTO_TITLE = False
    settings.RUN_MAX_TURNS = 1
    speak_to(upstream, codec)
    thread = await talk(person, settled, "What is the weather?", "Hello")
    first = await db.read(Message.objects.get, thread=thread, text="What is the weather?")
    await commands.perform(
        person, thread.public_id, Edit(message_id=first.public_id, text="Hello"), door="page"
    )
    await settled()
    await commands.perform(person, thread.public_id, Retry(), door="page")
    await settled()
    again = await db.read(rebuilt, thread)
    assert [one.body for one in again] == [exchange.json for exchange in upstream.exchanges]
    assert all(one.exact for one in again)


@CODECS
async def test_also_with_files(codec, person, key, http, settled, upstream, settings, tmp_path):
    settings.ATTACHMENTS_DIR = tmp_path
    settings.CHAT_AUTO_TITLE = False
    speak_to(upstream, codec)
    ids = [await given(http, key, PNG, "a.png"), await given(http, key, b"x = 1", "b.py")]
    await commands.begin_thread(person, Send(text="Look", attachments=ids), door="page")
    await settled()
    (one,) = await db.read(rebuilt, await db.read(Thread.objects.get))
    assert one.exact
    assert one.body == upstream.exchanges[0].json
    assert len(await db.read(lambda: Turn.objects.get().pieces)) < 100


class Shortens(Middleware):
    """Asks in another way than the thread does."""

    def on_config(self, ctx, config):
        return replace(config, system=f"{config.system}Answer in one word.", parameters={"temperature": 0.2})


async def test_also_what_a_middleware_changed(person, settled, upstream, settings):
    settings.CHAT_AUTO_TITLE = False
    settings.CHAT_MIDDLEWARE = ("tests.chat.test_requests.Shortens",)
    speak_to(upstream, openai_chat)
    thread = await talk(person, settled, "Hello")
    (one,) = await db.read(rebuilt, thread)
    assert one.exact
    assert one.body["temperature"] == 0.2
    assert "one word" in one.body["messages"][0]["content"]


async def test_the_body_is_the_one_that_the_endpoint_asked_for_in_the_end(
    person, settled, upstream, settings
):
    settings.CHAT_AUTO_TITLE = False
    speak_to(upstream, openai_chat)
    refusal = error_body("openai", 400, "Unknown parameter: 'stream_options'.")
    upstream.play(Raw([refusal], 400, "application/json"), Say("Hello."))
    thread = await talk(person, settled, "Hello")
    (one,) = await db.read(rebuilt, thread)
    assert one.exact
    assert one.turn.sent == 2
    assert one.body == upstream.exchanges[1].json
    assert "stream_options" not in one.body


async def test_the_request_of_a_turn_that_failed_is_kept_too(person, settled, upstream, settings):
    speak_to(upstream, openai_chat)
    upstream.play(Broken("400"))
    thread = await talk(person, settled, "Hello")
    assert (await db.read(thread.runs.get)).state == Run.State.FAILED
    (one,) = await db.read(rebuilt, thread)
    assert one.exact
    assert one.body == upstream.exchanges[0].json


async def test_a_turn_costs_the_same_however_long_its_thread_is(person, settled, plays):
    plays(*(Plays(f"Answer {n}.") for n in range(12)))
    thread = await talk(person, settled, *(f"Question {n}, of some length. " * 40 for n in range(12)))
    sizes = await db.read(lambda: [len(turn.pieces) for turn in Turn.objects.order_by("pk")])
    assert len(sizes) == 12
    assert max(sizes) - min(sizes) <= 2
    assert await db.read(RequestConfig.objects.count) == 1
    assert thread


async def test_nothing_is_kept_where_that_is_switched_off(person, settled, plays, settings, admin):
    settings.KEEP_REQUESTS = False
    plays(Plays("Hello."))
    thread = await talk(person, settled, "Hello")
    assert not await db.read(Turn.objects.exists)
    run = await db.read(thread.runs.get)
    assert "KEEP_REQUESTS is off" in await db.read(
        page, admin, reverse("admin:chat_run_requests", args=[run.pk])
    )


async def test_a_request_says_when_it_is_not_what_was_sent_any_more(
    person, settled, upstream, settings, admin
):
    settings.CHAT_AUTO_TITLE = False
    speak_to(upstream, openai_chat)
    thread = await talk(person, settled, "Hello", "How are you?")
    runs = await db.read(lambda: list(thread.runs.order_by("pk")))

    async def shown() -> str:
        return await db.read(page, admin, reverse("admin:chat_run_requests", args=[runs[1].pk]))

    assert "exactly as it was sent" in await shown()
    await db.write(
        lambda: Message.objects.filter(text="Hello").update(parts=[{"type": "text", "text": "Bye"}])
    )
    assert "something of it was changed since" in await shown()
    await db.write(lambda: Message.objects.filter(text="Hello").delete())
    assert "of its messages are deleted" in await shown()


async def test_the_page_shows_what_is_new_since_the_request_before(
    person, settled, upstream, settings, admin
):
    settings.CHAT_AUTO_TITLE = False
    speak_to(upstream, openai_chat)
    thread = await talk(person, settled, "What is the weather?")
    settings.CHAT_SYSTEM_PROMPT = "Be brief."
    await commands.perform(
        person,
        thread.public_id,
        Send(text="Hello, my key is sk-abcdefgh12345678ijkl, yours is plain-as-day"),
        door="page",
    )
    await settled()
    added = EndpointEntry("added", "openai", "https://added.example/v1", api_key="plain-as-day", lists=False)
    entries.use_entries(Entries(endpoints=(added,)))
    first, *_, last = await db.read(rebuilt, thread)
    assert difference(None, first).same == 0
    runs = await db.read(lambda: list(thread.runs.order_by("pk")))
    address = reverse("admin:chat_run_requests", args=[runs[0].pk])
    text = await db.read(page, admin, address)
    assert text.count('class="loom-run"') == len(upstream.exchanges) - 1
    second = text.split('id="turn-2"')[1].split('class="loom-kept"')[0]
    assert "tool_calls" in second
    assert "What is the weather?" not in second
    assert "New behind" in second
    text = await db.read(page, admin, reverse("admin:chat_run_requests", args=[runs[1].pk]))
    assert "Be brief." in text
    assert "sk-abcdefgh" not in text
    assert "plain-as-day" not in text
    assert "[hidden]" in text
    plain = await db.read(page, admin, f"{address}1/")
    assert json.loads(plain) == first.body
    assert (await db.read(admin.get, f"{address}99/")).status_code == 404
    assert last.exact


async def test_the_demo_model_has_no_wire_and_its_requests_are_shown_all_the_same(
    person, settled, plays, admin
):
    plays(Plays("Hello."))
    thread = await talk(person, settled, "Hello you")
    run = await db.read(thread.runs.get)
    text = await db.read(page, admin, reverse("admin:chat_run_requests", args=[run.pk]))
    assert "asked in this process" in text
    assert "Hello you" in text
    assert "get_weather" in text


async def test_what_requests_have_in_common_goes_with_the_last_of_them(person, stranger, settled, plays):
    plays(Plays("One."), Plays("Two."))
    await talk(person, settled, "Hello")
    await talk(stranger, settled, "Hello")
    (line,) = [line for line in lines.lines() if line.model == "chat.Turn"]
    await db.write(line.erase_some, person.pk)
    assert await db.read(RequestConfig.objects.count) == 1
    await db.write(line.erase_some, stranger.pk)
    assert await db.read(RequestConfig.objects.count) == 0


async def test_upkeep_removes_what_no_request_has_any_more(person, settled, plays):
    plays(Plays("One."))
    await talk(person, settled, "Hello")

    def age() -> None:
        RequestConfig.objects.update(touched_at=timezone.now() - 2 * requests.UNUSED_FOR)

    await db.write(age)
    assert not await db.write(requests.remove_unused)
    await db.write(lambda: Thread.objects.all().delete())
    assert await db.write(requests.remove_unused)
    assert not await db.read(RequestConfig.objects.exists)
