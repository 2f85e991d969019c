"""The tour: a thread that shows each state, is one like any other, and whose question can be answered."""

from __future__ import annotations

import asyncio
import io
import re

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import AsyncClient

from agent.providers import demo_texts
from chatsite.chat import db, demothread, store
from chatsite.chat.models import Run, Thread
from chatsite.chat.tools import examples

STATES = [
    "done",
    "failed",
    "unknown tool",
    "timed out",
    "cut off",
    "skipped",
    "denied",
    "cancelled",
    "outcome unknown",
    "waiting for you",
]
ENDS = [
    "Cut off",
    "Stopped by you",
    "Done before: send_email.",
    "Not run: get_weather.",
    "could not be reached",
]


@pytest.fixture
def client(person, client_of) -> AsyncClient:
    return client_of(person)


async def test_the_page_shows_each_state_and_end(client):
    reply = await client.post("/tour")
    assert reply.status_code == 303
    page = (await client.get(reply.headers["Location"])).content.decode()
    words = set(re.findall(r'class="st \w+">([^<]+)<', page))
    assert words >= set(STATES)
    for end in ENDS:
        assert end in page
    assert "<math" in page
    assert "<table" in page


async def test_a_subagents_work_is_folded_in_its_card(client, person):
    thread = await db.write(demothread.make, person)
    page = (await client.get(f"/threads/{thread.public_id}/")).content.decode()
    card = page[page.index("<b hx-ignore>ask_colleague") :]
    answer, behind = card.index("<li>a warm coat"), card.index("What the subagent did")
    assert answer < behind < card.index("<b hx-ignore>get_weather") < card.rindex("<li>a warm coat")


async def test_its_question_is_answered_like_any_other(client, person, settled, monkeypatch):
    monkeypatch.setattr(examples, "PER_HOUR", 0.01)
    thread = await db.write(demothread.make, person)
    page = (await client.get(f"/threads/{thread.public_id}/")).content.decode()
    question = re.search(r'name=q value="([^"]+)"', page)[1]
    reply = await client.post(
        f"/threads/{thread.public_id}/answer",
        {"q": question, f"{question}.do": "approved", f"{question}.all": ""},
    )
    assert reply.status_code == 303, reply.content.decode()
    await settled()

    async def over() -> bool:
        runs = await db.read(lambda: list(thread.runs.order_by("-pk").values_list("state", flat=True)))
        return len(runs) == 9 and runs[0] == Run.State.FINISHED

    async with asyncio.timeout(60):
        while not await over():
            await settled()
            await asyncio.sleep(0.01)
    state = await db.read(store.load_state, await db.read(Thread.objects.get, pk=thread.pk))
    assert state.interrupts[0].status == "approved"
    told = [message.text for message in state.segments[-1].messages]
    assert demo_texts.AFTER_SKY in told, "a call that tells how far it is"


def test_a_command_makes_it_for_whoever_is_named(person):
    said = io.StringIO()
    call_command("demothread", user=person.username, stdout=said)
    assert said.getvalue() == f"/threads/{Thread.objects.get().public_id}/\n"
    with pytest.raises(CommandError, match="There is no user 'nobody'"):
        call_command("demothread", user="nobody")
