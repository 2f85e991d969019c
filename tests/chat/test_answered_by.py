"""Of several endpoints that serve a model, the one that answered is named: by turn, by run, and in the figures."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agent.providers.http import close_shared_clients
from chatsite.catalog.models import Endpoint, Model, Route
from chatsite.chat import db
from chatsite.chat.agents import Agents, use_agents
from chatsite.chat.counting import booking
from chatsite.chat.models import Message, Run
from chatsite.usage.models import Day
from tests.chat.conftest import row_of
from tests.chat.test_runs import begin
from tests.standin import Broken, Say, StandIn

pytestmark = pytest.mark.usefixtures("catalog_rows")
WEATHER = [("c1", "clothing_advice", {"temperature": 20})]


@pytest.fixture
async def routed(settings):
    """The model `house`, at the endpoints `one` and then `two`."""
    settings.PRIVATE_ENDPOINTS, settings.CHAT_AUTO_TITLE = True, False
    use_agents(Agents([], default="house"))
    async with StandIn() as one, StandIn() as two:

        def rows() -> None:
            model = Model.objects.create(name="house")
            for place, (name, server) in enumerate((("one", one), ("two", two))):
                endpoint = Endpoint.objects.create(name=name, base_url=server.openai_url, lists_models=False)
                Route.objects.create(model=model, endpoint=endpoint, position=place)

        await db.write(rows)
        yield one, two
        await close_shared_clients()
    use_agents(None)


def seen_by(who: User, path: str) -> str:
    client = Client()
    client.force_login(who)
    return client.get(path).content.decode()


async def test_a_run_names_who_answered_and_not_who_was_asked_first(person, routed, settled):
    one, two = routed
    one.play(Broken("401"))
    two.play(Say("It is mild.", usage=(20, 10)))
    done = await begin(person)
    await settled()
    run = await row_of(done.run)
    assert (run.state, run.provider) == ("finished", "two"), run.error
    assert [entry["provider"] for entry in run.usage] == ["two"]
    said = await db.read(Message.objects.get, run=run, role="assistant")
    assert said.metadata["provider"] == "two"
    page = await db.read(seen_by, person, f"/threads/{done.thread.public_id}/")
    assert "house · two · " in page
    await db.write(User.objects.filter(pk=person.pk).update, is_staff=True, is_superuser=True)
    assert ">two<" in await db.read(seen_by, person, reverse("admin:chat_run_change", args=[run.pk]))
    requests = await db.read(seen_by, person, reverse("admin:chat_run_requests", args=[run.pk]))
    assert re.search(r"Answered by</dt>\s*<dd>two<", requests)
    transcript = await db.read(seen_by, person, reverse("admin:chat_thread_transcript", args=[run.thread_id]))
    assert "by two</small>" in transcript


async def test_what_each_endpoint_had_of_a_run_is_in_the_figures(person, routed, settled):
    one, two = routed
    one.play(Say("", calls=WEATHER, usage=(20, 10)), Broken("401"))
    two.play(Say("Take a coat.", usage=(40, 5)))
    done = await begin(person)
    await settled()
    run = await row_of(done.run)
    assert (run.state, run.provider, run.turns) == ("finished", "two", 2), run.error
    assert await db.read(booking.step)
    rows = await db.read(lambda: {row.value: row for row in Day.objects.filter(about="endpoint")})
    assert {name: (row.count, row.input_tokens, row.output_tokens) for name, row in rows.items()} == {
        "one": (1, 20, 10), "two": (1, 40, 5)
    }  # fmt: skip


async def test_a_run_that_nobody_answered_names_nobody(person, routed, settled):
    for server in routed:
        server.play(Broken("401"))
    done = await begin(person)
    await settled()
    run = await row_of(done.run)
    assert (run.state, run.provider) == (Run.State.FAILED, "")
