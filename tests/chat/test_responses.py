"""What an endpoint answered can be shown as it came, without keys, bounded, and goes with the log and the thread."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agent.wire import anthropic, openai_chat
from chatsite.care import exporting
from chatsite.chat import commands, db, eventlog
from chatsite.chat.agents import use_agents
from chatsite.chat.care import upkeep
from chatsite.chat.commands.values import Send
from chatsite.chat.models import Run, Thread, Turn
from chatsite.chat.runs import requests, responses
from chatsite.chat.runs.responses import MOST_HELD, MOST_KEPT, Received, unpacked
from tests.chat.conftest import until
from tests.chat.test_admin import logged_in, page
from tests.chat.test_stopping import speak_to, stopped
from tests.standin import Broken, Raw, Say, StandIn, chunk, error_body, render

KEY = "a key of ours 123"
FRAMES = [chunk({"role": "assistant", "content": "Grüß"}), chunk({"content": " Gott."}), chunk({}, "stop")]
RAW = Raw([FRAMES[0][:60], FRAMES[0][60:] + FRAMES[1], FRAMES[2], b": a comment\n\ndata: [DONE]\n\n"])


@pytest.fixture
async def upstream(settings):
    requests._kept.clear()  # the rows of earlier tests are gone
    settings.CHAT_AUTO_TITLE = False
    async with StandIn() as server:
        yield server
    use_agents(None)


@pytest.fixture
def admin() -> Client:
    return logged_in(User.objects.create_superuser("root", password="a long enough secret"))


async def asked(person, settled, upstream, *answers, codec=openai_chat) -> Run:
    speak_to(upstream, codec)
    upstream.play(*answers)
    done = await commands.begin_thread(person, Send(text="Hello"), door="page")
    await settled()
    return done.run


async def turn_of(run: Run) -> Turn:
    return await db.read(lambda: Turn.objects.get(run=run))


def shown(admin: Client, run: Run) -> str:
    return page(admin, reverse("admin:chat_run_requests", args=[run.pk]))


async def test_an_answer_is_kept_byte_for_byte_as_it_came(person, settled, upstream, admin):
    run = await asked(person, settled, upstream, RAW)
    turn = await turn_of(run)
    whole = b"".join(RAW.writes)
    assert unpacked(turn.response).encode() == whole
    assert (turn.status, turn.received, turn.response_cut) == (200, len(whole), False)
    assert len(turn.response) < len(whole)
    text = await db.read(shown, admin, run)
    assert f"Status 200, {len(whole):,} bytes." in text
    assert "data: [DONE]" in text
    plain = await db.read(page, admin, reverse("admin:chat_run_request", args=[run.pk, 1]) + "?response=1")
    assert plain.encode() == whole


async def test_the_other_protocol_too(person, settled, upstream):
    run = await asked(person, settled, upstream, Say("Hello.", pieces=2), codec=anthropic)
    turn = await turn_of(run)
    whole = b"".join(render(Say("Hello.", pieces=2), upstream.exchanges[0], 0).writes)
    assert unpacked(turn.response).encode() == whole
    assert b"message_stop" in whole


async def test_of_several_tries_the_last_answer_is_kept_and_a_refusal_is_one(person, settled, upstream):
    refusal = error_body("openai", 400, "Unknown parameter: 'stream_options'.")
    run = await asked(person, settled, upstream, Raw([refusal], 400, "application/json"), RAW)
    turn = await turn_of(run)
    assert (turn.sent, turn.status) == (2, 200)
    assert b"stream_options" not in unpacked(turn.response).encode()
    run = await asked(person, settled, upstream, Broken("401"))
    turn = await turn_of(run)
    assert turn.status == 401
    assert json.loads(unpacked(turn.response)) == json.loads(error_body("openai", 401))


async def test_of_an_answer_that_broke_off_or_was_stopped_it_is_what_came(person, settled, upstream):
    run = await asked(person, settled, upstream, Raw(FRAMES[:2], then="cut"))
    assert unpacked((await turn_of(run)).response).encode() == b"".join(FRAMES[:2])
    upstream.play(Raw(FRAMES[:1], then="hang"))
    done = await commands.begin_thread(person, Send(text="Hello"), door="page")
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.transcript[-1].role == "assistant")
    stopped_run = await stopped(person, done)
    assert unpacked((await turn_of(stopped_run)).response).encode() == FRAMES[0]


async def test_no_key_that_the_endpoint_says_back_is_kept_or_shown(
    person, settled, upstream, settings, admin
):
    settings.OPENAI_API_KEY = KEY
    echoed = Raw([FRAMES[0], chunk({"content": f"{KEY} sk-abcdefgh12345678ijkl"}), *FRAMES[2:]])
    run = await asked(person, settled, upstream, echoed)
    turn = await turn_of(run)
    assert KEY not in unpacked(turn.response)
    text = await db.read(shown, admin, run)
    came = text.split("as it came")[1].split("The answer")[0]
    assert "[hidden]" in came
    assert "sk-abcdefgh" not in came


async def test_a_long_answer_is_cut_and_the_page_says_so(person, settled, upstream, admin):
    run = await asked(person, settled, upstream, Say("word " * 20_000, pieces=2000))
    turn = await turn_of(run)
    assert turn.response_cut
    assert turn.received > 100_000 > MOST_KEPT >= len(unpacked(turn.response)) > MOST_KEPT * 0.9
    assert "too long to be kept whole" in await db.read(shown, admin, run)


def test_what_answers_under_way_take_together_is_bounded():
    tracemalloc.start()
    try:
        many = [Received(200) for _ in range(400)]
        for _ in range(300):
            for each in many:
                each.add(bytes(200))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * MOST_HELD
    assert {each.size for each in many} == {300 * 200}
    assert all(each.is_cut for each in many[100:])
    del many, each
    last = Received(200)
    last.add(bytes(MOST_KEPT - 100))
    assert not last.is_cut


async def test_it_goes_with_the_log_and_the_request_stays(person, settled, upstream, admin, settings):
    run = await asked(person, settled, upstream, RAW)
    settings.EVENTS_KEEP_DAYS = 0
    while await db.write(upkeep.step):
        pass
    assert (await turn_of(run)).response is None
    text = await db.read(shown, admin, run)
    assert "It went with the log of the run" in text
    assert "exactly as it was sent" in text


async def test_it_is_switched_off_by_a_setting_and_the_page_says_so(
    person, settled, upstream, settings, admin
):
    settings.KEEP_RESPONSES = False
    run = await asked(person, settled, upstream, RAW)
    assert (await turn_of(run)).response is None
    assert "KEEP_RESPONSES was off" in await db.read(shown, admin, run)
    address = reverse("admin:chat_run_request", args=[run.pk, 1]) + "?response=1"
    assert (await db.read(admin.get, address)).status_code == 404


async def test_it_is_in_what_a_person_takes_out_and_goes_when_they_are_erased(person, settled, upstream):
    run = await asked(person, settled, upstream, RAW)

    def taken_out() -> list[dict]:
        archive = zipfile.ZipFile(io.BytesIO(b"".join(exporting.export(person))))
        (name,) = [name for name in archive.namelist() if name.endswith("-responses.jsonl")]
        return [json.loads(line) for line in archive.read(name).splitlines()]

    (line,) = await db.read(taken_out)
    assert line["received"].encode() == b"".join(RAW.writes)
    assert (line["run"], line["turn"], line["status"]) == (run.public_id, 1, 200)
    await db.write(lambda: Thread.objects.get(pk=run.thread_id).delete())
    assert not await db.read(Turn.objects.exists)


async def test_a_model_in_this_process_sent_nothing_over_a_wire(person, settled, plays, admin):
    from agent.providers.scripted import Turn as Plays

    plays(Plays("Hello."))
    done = await commands.begin_thread(person, Send(text="Hello"), door="page")
    await settled()
    assert (await turn_of(done.run)).response is None
    assert "nothing came over a wire" in await db.read(shown, admin, done.run)


def test_what_is_no_text_is_shown_all_the_same():
    odd = Received(200)
    odd.add("Grüß".encode()[:-1])
    assert unpacked(odd.packed(())) == "Grü\ufffd"
    assert Received(200).packed(()) is None
    assert responses.NONE.packed(()) is None
