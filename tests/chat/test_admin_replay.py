"""A run is replayed from its log: what the page showed behind each event, and when."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.db.models.signals import post_init
from django.test import Client
from django.urls import reverse

from agent.providers.scripted import Turn
from chatsite.chat import commands, db
from chatsite.chat.admin import playback
from chatsite.chat.care import upkeep
from chatsite.chat.commands.values import Retry, Send
from chatsite.chat.models import Message, Run, RunEvent
from tests.chat.test_admin import logged_in, page


@pytest.fixture
def admin() -> Client:
    return logged_in(User.objects.create_superuser("root", password="a long enough secret"))


@pytest.fixture
async def run(person, plays, settled) -> Run:
    plays(
        Turn(calls=[("c1", "get_weather", {"city": "Oslo"})]),
        Turn("One two three four five six.", delta_size=4, pace=0.06),
        Turn("Another answer."),
    )
    done = await commands.begin_thread(person, Send(text="Weather?"), door="page")
    await settled()
    return done.run


def moments_of(run: Run) -> list[playback.Moment]:
    """Those that are read of it anew."""
    found = playback.Playback(run)
    found.look(run)
    return found.moments


def moment(admin: Client, run: Run, number: int) -> str:
    """The page at that moment, without what stands around it."""
    address = reverse("admin:chat_run_replay", args=[run.pk])
    page(admin, address)
    answer = admin.get(f"{address}?at={number}&part=1")
    assert answer.status_code == 200
    return answer.text


async def test_each_moment_shows_what_the_page_showed_then(admin, run):
    moments = await db.read(moments_of, run)
    seen = [await db.read(moment, admin, run, each.number) for each in moments]
    assert "Weather?" in seen[0]
    assert not any(word in seen[0] for word in ("get_weather", "One two"))
    called = next(place for place, each in enumerate(moments) if each.type == "TOOL_CALL_START")
    answered = next(place for place, each in enumerate(moments) if each.type == "TOOL_CALL_RESULT")
    assert all("get_weather" in text for text in seen[called:])
    assert "temperature" not in seen[answered - 1]
    assert "temperature" in seen[answered]
    grown = [text.count("One two") and len(re.sub(r"<[^>]*>", "", text)) for text in seen[answered:]]
    assert "One two three four five six." in seen[-1]
    assert grown[-1]


async def test_moments_have_their_times_and_keep_them_when_the_log_is_folded(admin, run):
    before = await db.read(moments_of, run)
    assert [each.ms for each in before] == sorted(each.ms for each in before)
    texts = [each for each in before if each.type == "TEXT_MESSAGE_CONTENT"]
    assert len(texts) > 1
    assert texts[-1].ms - texts[0].ms > 100
    lasted = await db.read(lambda: Run.objects.get(pk=run.pk).duration_ms)
    assert abs(before[-1].ms - lasted) <= 1
    while await db.write(upkeep.step):
        pass
    assert await db.read(lambda: RunEvent.objects.filter(run=run, type="TEXT_MESSAGE_CONTENT").count()) == 1
    assert await db.read(moments_of, run) == before


async def test_a_pruned_log_says_so_and_shows_what_was_said(admin, run, settings):
    settings.EVENTS_KEEP_DAYS = 0
    while await db.write(upkeep.step):
        pass
    text = await db.read(page, admin, reverse("admin:chat_run_replay", args=[run.pk]))
    assert "was pruned" in text
    last = (await db.read(moments_of, run))[-1]
    assert "One two three four five six." in await db.read(moment, admin, run, last.number)


async def test_a_run_that_left_the_active_branch_is_replayed_as_it_was(admin, run, person, settled):
    await commands.perform(person, run.thread.public_id, Retry(), door="page")
    await settled()
    last = (await db.read(moments_of, run))[-1]
    text = await db.read(moment, admin, run, last.number)
    assert "One two three four five six." in text
    assert "Another answer." not in text


async def test_without_a_script_links_and_a_form_lead_from_moment_to_moment(admin, run):
    moments = await db.read(moments_of, run)
    address = reverse("admin:chat_run_replay", args=[run.pk])
    await db.read(page, admin, address)
    text = await db.read(page, admin, f"{address}?at={moments[3].number}")
    assert f'<a href="?at={moments[2].number}" rel="prev">' in text
    assert f'<a href="?at={moments[4].number}" rel="next">' in text
    assert f'data-next="{moments[4].number}"' in text
    assert f'max="{moments[-1].number}"' in text
    for nonsense in ("x", "-1", "99999999999999", "%00", "²"):
        assert (await db.read(admin.get, f"{address}?at={nonsense}")).status_code == 200


async def test_a_run_of_which_nothing_was_kept_has_a_page(admin, run):
    def forget() -> None:
        RunEvent.objects.all().delete()
        Message.objects.filter(run=run).update(run=None)

    await db.write(forget)
    text = await db.read(page, admin, reverse("admin:chat_run_replay", args=[run.pk]))
    assert "Nothing was kept of this run." in text


async def test_a_moment_without_a_reason_is_no_page_in_a_page(admin, run):
    answer = await db.read(admin.get, reverse("admin:chat_run_replay", args=[run.pk]) + "?at=3&part=1")
    assert answer.status_code == 403


def read_of(admin: Client, run: Run, number: int) -> int:
    """How many rows of the log a look at that moment reads."""
    read: list[int] = []

    def count(sender: type, instance: RunEvent, **_: object) -> None:
        read.append(instance.number)

    post_init.connect(count, sender=RunEvent)
    try:
        moment(admin, run, number)
    finally:
        post_init.disconnect(count, sender=RunEvent)
    return len(read)


async def test_a_step_reads_what_is_new_in_the_log_and_no_more(admin, run):
    moments = await db.read(moments_of, run)
    rows = await db.read(lambda: RunEvent.objects.filter(run=run).count())
    assert rows > 12
    assert await db.read(read_of, admin, run, moments[3].number) > rows
    steps = [await db.read(read_of, admin, run, each.number) for each in moments[4:]]
    assert steps == [1] * len(steps)
    back = [await db.read(read_of, admin, run, each.number) for each in moments[-2:-6:-1]]
    assert back == [0] * 4


async def test_a_run_at_work_is_replayed_up_to_where_it_is_now(admin, run):
    last = (await db.read(moments_of, run))[-1]
    kept = await db.read(lambda: list(RunEvent.objects.filter(run=run).order_by("number")))
    half = kept[len(kept) // 2]

    def put_back() -> None:
        RunEvent.objects.bulk_create(row for row in kept if row.number > half.number)

    await db.write(lambda: RunEvent.objects.filter(run=run, number__gt=half.number).delete())
    assert "six." not in await db.read(moment, admin, run, last.number)
    await db.write(put_back)
    assert "One two three four five six." in await db.read(moment, admin, run, last.number)


async def test_steps_of_a_folded_log_show_what_steps_of_the_whole_one_did(admin, run):
    moments = await db.read(moments_of, run)
    before = [await db.read(moment, admin, run, each.number) for each in moments]
    while await db.write(upkeep.step):
        pass
    assert [await db.read(moment, admin, run, each.number) for each in moments] == before
