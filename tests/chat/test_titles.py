"""A thread gets a name in the model's words, once, when nobody waits; a person's words stay."""

from __future__ import annotations

import pytest

from agent.errors import ProviderUnavailable
from agent.messages import Usage
from agent.providers.scripted import ScriptedProvider, Turn
from chatsite.accounts.models import ApiKey
from chatsite.chat import agents, commands, db
from chatsite.chat.agents import Agents, use_agents
from chatsite.chat.commands.values import Organize, Send
from chatsite.chat.models import Thread
from chatsite.chat.runs import titles
from chatsite.usage.models import Day
from tests.chat.conftest import until
from tests.chat.test_api import body, post
from tests.chat.test_quotas import everybody_may, used
from tests.chat.test_runs import begin


@pytest.fixture
def model(monkeypatch):
    """The scripted model, under a name that is not the demo's: so it is asked for titles."""
    monkeypatch.setattr(titles, "DEMO", "another")

    def play(*turns: object) -> ScriptedProvider:
        provider = ScriptedProvider(*turns)
        use_agents(Agents([], demo=provider))
        return provider

    yield play
    use_agents(None)


async def asked_for(provider: ScriptedProvider, calls: int) -> None:
    await until(lambda: len(provider.requests) >= calls and not titles._asking)


async def title_of(thread: Thread) -> tuple[str, str]:
    row = await db.read(Thread.objects.get, pk=thread.pk)
    return row.title, row.titled


async def test_the_first_answer_names_the_thread(person, settled, model):
    provider = model(Turn("It is mild."), Turn('**"Weather in Oslo."**\n'), Turn("You are welcome."))
    done = await begin(person, "How is it in Oslo today, and what about tomorrow?")
    await settled()
    await asked_for(provider, 2)
    assert await title_of(done.thread) == ("Weather in Oslo", "model")
    asked = provider.requests[1]
    assert "It is mild." in asked.transcript[0].text
    assert asked.tools == ()
    await commands.perform(person, done.thread.public_id, Send(text="Thanks"), door="page")
    await settled()
    await asked_for(provider, 3)
    assert len(provider.requests) == 3, "a thread that has its name was named again"


async def test_a_name_that_a_person_gave_stays(person, settled, model):
    provider = model(Turn("It is mild."), Turn("A model's name"))
    done = await begin(person, "How is Oslo?")
    await commands.perform(person, done.thread.public_id, Organize(title="Mine"), door="page")
    await settled()
    await asked_for(provider, 1)
    assert await title_of(done.thread) == ("Mine", "person")


@pytest.mark.parametrize("turn", [ProviderUnavailable("busy"), Turn(""), Turn("   ")])
async def test_a_call_that_brings_no_name_leaves_the_first_line(person, settled, model, turn):
    provider = model(Turn("It is mild."), turn)
    done = await begin(person, "How is Oslo?")
    await settled()
    await asked_for(provider, 2)
    assert await title_of(done.thread) == ("How is Oslo?", "text")


async def test_the_demo_model_is_not_asked_and_a_setting_turns_it_off(
    person, settled, plays, model, settings
):
    settings.CHAT_AUTO_TITLE = False
    provider = model(Turn("It is mild."))
    await begin(person, "How is Oslo?")
    await settled()
    await asked_for(provider, 1)
    assert len(provider.requests) == 1
    assert agents.DEMO == "demo"


async def test_a_name_is_short_and_one_line_whatever_the_model_says(person, settled, model):
    provider = model(Turn("It is mild."), Turn("A very\nlong\x00 name " * 100))
    done = await begin(person, "How is Oslo?")
    await settled()
    await asked_for(provider, 2)
    title, _ = await title_of(done.thread)
    assert len(title) <= 60
    assert "\n" not in title
    assert "\x00" not in title


async def test_what_a_name_takes_is_the_persons_and_stands_in_the_figures(person, settled, model):
    await everybody_may(tokens_per_day=1000, requests_per_day=10, runs_at_once=1)
    provider = model(Turn("It is mild.", usage=Usage(20, 10)), Turn("Mild Oslo", usage=Usage(300, 7)))
    await begin(person, "How is Oslo?")
    await settled()
    await asked_for(provider, 2)
    assert await used() == (1, 337), "the name is no request of theirs, and what it took is"
    rows = await db.read(lambda: list(Day.objects.filter(source="title").order_by("about")))
    assert [(row.about, row.value, row.count, row.input_tokens, row.output_tokens) for row in rows] == [
        ("all", "", 1, 300, 7), ("endpoint", "scripted", 1, 300, 7), ("model", "demo", 1, 300, 7),
        ("user", str(person.pk), 1, 300, 7),
    ]  # fmt: skip


async def test_what_an_endpoint_does_not_say_is_estimated(person, settled, model):
    await everybody_may(tokens_per_day=1000)
    provider = model(Turn("It is mild.", usage=Usage(20, 10)), Turn("x" * 2000))
    await begin(person, "How is Oslo?")
    await settled()
    await asked_for(provider, 2)
    asked = provider.requests[1].transcript[0].text
    assert len(asked) // 4 + titles.LONGEST // 4 <= (await used())[1] - 30 < len(asked) // 4 + 200


async def test_whoever_has_used_up_their_limit_gets_no_name(person, settled, model):
    await everybody_may(tokens_per_day=25)
    provider = model(Turn("It is mild.", usage=Usage(20, 10)), Turn("A name"))
    done = await begin(person, "How is Oslo?")
    await settled()
    await asked_for(provider, 1)
    assert len(provider.requests) == 1
    assert await title_of(done.thread) == ("How is Oslo?", "text")


async def test_what_a_name_takes_is_on_the_books_of_the_key_that_asked(person, key, http, settled, model):
    await db.write(ApiKey.objects.update, budget=5)
    provider = model(Turn("It is mild.", usage=Usage(20, 10)), Turn("Mild Oslo", usage=Usage(300, 7)))
    assert (await post(http, key, body())).status_code == 200
    await settled()
    await asked_for(provider, 2)
    row = await db.read(ApiKey.objects.get)
    assert (row.requests, row.input_tokens, row.output_tokens) == (1, 320, 17)
