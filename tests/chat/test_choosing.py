"""How a thread answers is its owner's choice, kept with each run: model, system prompt, tools, parameters; presets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import AsyncClient, override_settings
from django.urls import reverse
from pydantic import ValidationError

from agent.messages import Usage
from agent.providers.scripted import ScriptedProvider, Turn
from chatsite.chat import choices, commands, db, eventlog, store
from chatsite.chat.actions import choosing
from chatsite.chat.agents import Catalog, ModelChoice, catalog_for, use_agents
from chatsite.chat.choices import Choices
from chatsite.chat.commands.values import CommandAdapter, Fork, Retry, Send
from chatsite.chat.models import Preset, Run, Thread
from chatsite.chat.problems import Invalid, Missing, NoPreset, UnknownModel
from chatsite.chat.readers import following
from chatsite.chat.render.fragments import render_transcript
from chatsite.chat.render.picker import models_in
from chatsite.chat.tools import demo_tools, server_tools
from chatsite.chat.transfer import moving, shape
from tests.chat.conftest import recover, row_of
from tests.chat.dying import killed_in_mid_answer
from tests.chat.test_api import body, post
from tests.chat.test_approvals import ASKS, answer, asked, yes
from tests.chat.test_runs import begin

HOSTILE = "</textarea><script>alert(1)</script>"
ALL = {
    "system": "Answer as a pirate.",
    "toolsOff": ["send_email"],
    "parameters": {"temperature": 0.5, "max_tokens": 300, "stop": ["END"]},
}


@pytest.fixture
def client(person, client_of) -> AsyncClient:
    return client_of(person)


@pytest.fixture
def other(stranger, client_of) -> AsyncClient:
    return client_of(stranger)


async def configure(person: Any, thread: Thread, **changes: Any) -> None:
    command = CommandAdapter.validate_python({"type": "configure", **changes})
    await commands.perform(person, thread.public_id, command, door="page")


async def say(person: Any, thread: Thread, settled: Any, text: str = "And now?") -> Run:
    done = await commands.perform(person, thread.public_id, Send(text=text), door="page")
    await settled()
    assert done.run is not None
    return await row_of(done.run)


async def now(thread: Thread) -> Thread:
    return await db.read(Thread.objects.get, pk=thread.pk)


def told(provider: ScriptedProvider) -> dict[str, Any]:
    """What the model was told in its last turn."""
    request = provider.requests[-1]
    return {
        "system": request.system,
        "tools": {tool.name for tool in request.tools},
        "parameters": dict(request.parameters),
    }


# -- a thread's choices --------------------------------------------------------------------------------------


@override_settings(CHAT_SYSTEM_PROMPT="You are helpful.")
async def test_a_run_is_given_its_threads_choices_and_keeps_them(person, plays, settled):
    provider = plays(Turn("Ahoy."), Turn("Ahoy again."), Turn("Hello."))
    thread = (await begin(person)).thread
    await settled()
    plain = told(provider)
    assert plain["parameters"] == {}
    assert plain["tools"] == set(TOOLS)

    await configure(person, thread, **ALL)
    run = await say(person, thread, settled)
    assert told(provider) == {
        "system": "You are helpful.\n\nAnswer as a pirate.",
        "tools": plain["tools"] - {"send_email"},
        "parameters": {"temperature": 0.5, "max_tokens": 300, "stop": ["END"]},
    }
    assert run.given["choices"] == ALL

    await configure(person, thread, system="", toolsOff=[], parameters={})
    assert (await say(person, thread, settled)).given == {}
    assert told(provider) == plain
    assert (await row_of(run)).given["choices"] == ALL


async def test_what_is_not_named_stays(person, plays, settled):
    plays(Turn("Hello."))
    thread = (await begin(person)).thread
    await settled()
    await configure(person, thread, **ALL)
    await configure(person, thread, system="Be brief.")
    assert (await now(thread)).choices == ALL | {"system": "Be brief."}
    await configure(person, thread, parameters={"seed": 7})
    assert (await now(thread)).choices == ALL | {"system": "Be brief.", "parameters": {"seed": 7}}


async def test_a_tool_that_is_off_does_not_run_whatever_the_model_says(person, plays, settled):
    plays(Turn("Hello."), ASKS, Turn("I cannot."))
    thread = (await begin(person)).thread
    await settled()
    await configure(person, thread, toolsOff=["send_email"])
    run = await say(person, thread, settled)
    assert run.state == "finished"
    calls = await db.read(lambda: list(run.tool_calls.values_list("state", "error_code")))
    assert calls == [("skipped", "unknown_tool")]


async def test_a_run_that_takes_another_one_up_has_that_ones_choices(person, plays, settled):
    provider = plays(Turn("Hello."), ASKS, Turn("Sent."))
    thread = (await begin(person)).thread
    await settled()
    await configure(person, thread, system="Answer as a pirate.")
    await say(person, thread, settled, "Send an email")
    await configure(person, thread, system="Another.", toolsOff=["send_email"])
    rows = await db.read(lambda: list(thread.interrupts.filter(status="open")))
    done = await answer(person, thread, *map(yes, rows))
    await settled()
    assert told(provider)["system"] == "Answer as a pirate."
    assert (await row_of(done.run)).given["choices"] == {"system": "Answer as a pirate."}
    assert await db.read(lambda: thread.runs.get(tool_calls__isnull=False).tool_calls.get().state) == "done"


async def test_a_run_without_choices_is_taken_up_without_those_that_came_later(person, plays, settled):
    provider = plays(ASKS, Turn("Sent."))
    done, rows = await asked(person, settled)
    await configure(person, done.thread, system="Later.")
    await answer(person, done.thread, *map(yes, rows))
    await settled()
    assert told(provider)["system"] == ""


async def test_a_lost_run_goes_on_with_what_it_was_given(person, plays, settled):
    done, provider = await killed_in_mid_answer(
        person, plays, Turn("The first half, the second half."), then=[Turn("the second half.")]
    )
    await configure(person, done.thread, system="Later.")
    await recover()
    await settled()
    assert told(provider)["system"] == ""


async def test_a_fork_answers_as_its_thread_does(person, thread):
    await configure(person, thread, **ALL)
    forked = await commands.perform(
        person,
        thread.public_id,
        Fork(message_id=await db.read(lambda: thread.head.public_id)),
        door="page",
    )
    assert (await now(forked.thread)).choices == ALL


async def test_a_thread_that_is_taken_out_and_in_answers_as_before(person, thread):
    await configure(person, thread, **ALL)
    written = await db.read(lambda: moving.file_of(Thread.objects.get(pk=thread.pk)).as_json())
    again = await db.write(moving.take_in, person, shape.read_file(written.encode()))
    assert (await now(again)).choices == ALL
    assert (await db.read(lambda: moving.file_of(again).as_json())) == written


async def test_a_file_with_choices_that_cannot_be_is_refused(thread):
    written = await db.read(lambda: moving.file_of(thread).as_json())
    wrong = written.replace('"parameters": {}', '"parameters": {"temperature": 9}')
    assert wrong != written
    with pytest.raises(Invalid, match="temperature"):
        shape.read_file(wrong.encode())


async def test_an_answer_is_given_anew_by_todays_choices(person, plays, settled):
    provider = plays(Turn("Hello."), Turn("Ahoy."))
    thread = (await begin(person)).thread
    await settled()
    await configure(person, thread, system="Answer as a pirate.")
    await commands.perform(person, thread.public_id, Retry(), door="page")
    await settled()
    assert told(provider)["system"] == "Answer as a pirate."


@pytest.mark.parametrize(
    "wrong",
    [
        {"system": "x" * 20_001},
        {"parameters": {"temperature": 3}},
        {"parameters": {"temperature": "NaN"}},
        {"parameters": {"top_p": -0.1}},
        {"parameters": {"max_tokens": 0}},
        {"parameters": {"seed": 1.5}},
        {"parameters": {"stop": ["a"] * 5}},
        {"parameters": {"stop": [""]}},
        {"parameters": {"tools": []}},
        {"toolsOff": "all"},
        {"other": 1},
    ],
)
def test_a_choice_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValidationError):
        CommandAdapter.validate_python({"type": "configure", **wrong})


def test_a_text_that_no_database_takes_is_mended():
    assert choices.read({"system": "a\x00b\ud800"}).system == "a\ufffdb\ufffd"


def test_what_a_later_version_does_not_take_fails_no_run():
    assert choices.kept({"system": "Be brief.", "parameters": {"gone": 1}, "more": 2}) == Choices(
        system="Be brief."
    )


async def test_another_users_thread_is_not_there_to_be_chosen_for(person, stranger, plays, settled, other):
    plays(Turn("Hello."))
    thread = (await begin(person)).thread
    await settled()
    with pytest.raises(Missing):
        await configure(stranger, thread, system="Mine now.")
    address = reverse("chat:settings", args=[thread.public_id])
    for answered in (
        await other.get(address),
        await other.post(address, {"system": "x"}),
    ):
        assert answered.status_code == 404
    assert (await now(thread)).choices == {}


async def test_a_model_that_is_not_there_is_not_chosen(person, plays, settled):
    plays(Turn("Hello."))
    thread = (await begin(person)).thread
    await settled()
    with pytest.raises(UnknownModel):
        await configure(person, thread, model="nobody")
    with pytest.raises(NoPreset):
        await configure(person, thread, preset="nothing")


# -- the API -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_program_says_how_its_run_is_to_answer(http, key, plays, settled, person):
    provider = plays(Turn("Ahoy."), Turn("Hello."), Turn("Ahoy."))
    await post(http, key, body(forwardedProps={"choices": ALL}))
    await settled()
    assert told(provider)["system"] == "Answer as a pirate."
    assert (await db.read(Thread.objects.get)).choices == ALL

    mine = {"choices": {"parameters": {"seed": 1}}}
    await post(http, key, body("Hi", run="r2", message="u2", forwardedProps=mine))
    await settled()
    assert told(provider)["parameters"] == {"seed": 1}
    assert told(provider)["system"] == ""
    assert (await db.read(Thread.objects.get)).choices == ALL

    await post(http, key, body("Hi", run="r3", message="u3"))
    await settled()
    assert told(provider)["system"] == "Answer as a pirate."


async def test_a_programs_nonsense_is_refused_with_its_path(http, key, plays):
    wrong = {"choices": {"parameters": {"temperature": 9}}}
    response = await post(http, key, body(forwardedProps=wrong))
    assert response.status_code == 422
    assert response.json()["error"]["message"] == (
        "forwardedProps.choices: Temperature: write a number from 0 to 2."
    )
    assert await db.read(Thread.objects.count) == 0


# -- the settings page ---------------------------------------------------------------------------------------


@pytest.fixture
async def thread(person, plays, settled) -> Thread:
    plays(Turn("Hello.", usage=Usage(1200, 300)), Turn("Ahoy."))
    done = await begin(person)
    await settled()
    return await now(done.thread)


TOOLS = [tool.name for tool in (*server_tools(), *demo_tools())]


async def save(client: AsyncClient, thread: Thread, **form: Any) -> Any:
    form = {"do": "save", "model": "demo", "tool": TOOLS, "on": TOOLS, **form}
    return await client.post(reverse("chat:settings", args=[thread.public_id]), form)


async def test_the_form_saves_what_it_shows(client, thread):
    done = await save(
        client,
        thread,
        system=f" {HOSTILE}\r\nTwo lines. ",
        on=[name for name in TOOLS if name != "send_email"],
        temperature="0,7",
        stop="END\r\n\r\nSTOP\r\n",
    )
    assert done.status_code == 303
    assert (await now(thread)).choices == {
        "system": f"{HOSTILE}\nTwo lines.",
        "toolsOff": ["send_email"],
        "parameters": {"temperature": 0.7, "stop": ["END", "STOP"]},
    }
    html = (await client.get(done.headers["Location"])).content.decode()
    assert "Saved." in html
    assert "<script>alert" not in html
    assert "&lt;/textarea&gt;&lt;script&gt;alert(1)" in html
    assert 'value="0.7"' in html
    assert 'value="send_email">' in html
    assert 'value="get_weather" checked>' in html


async def test_a_field_that_cannot_be_is_said_and_the_form_keeps_what_was_typed(client, thread):
    response = await save(client, thread, system="Keep this.", temperature="9", on=[], seed="x")
    assert response.status_code == 422
    html = response.content.decode()
    assert "Temperature: write a number from 0 to 2." in html
    assert "Keep this.</textarea>" in html
    assert 'value="9"' in html
    assert "checked" not in html
    assert (await now(thread)).choices == {}


async def test_a_tool_that_is_away_for_a_while_stays_off(client, person, thread):
    await configure(person, thread, toolsOff=["elsewhere"])
    await save(client, thread, on=TOOLS[1:])
    assert (await now(thread)).choices["toolsOff"] == ["elsewhere", "get_weather"]


async def test_the_thread_links_to_its_settings(client, thread, person):
    html = (await client.get(f"/threads/{thread.public_id}/")).content.decode()
    assert f'href="/threads/{thread.public_id}/settings">Settings</a>' in html
    assert "of this thread</span>" not in html
    await configure(person, thread, system="Be brief.")
    assert "of this thread</span>" in (await client.get(f"/threads/{thread.public_id}/")).content.decode()


@override_settings(MODEL_PRICES={"demo": (1.0, 10.0)})
async def test_what_answers_took_is_said_beside_them_and_of_the_whole_thread(client, thread):
    state = await db.read(store.load_state, thread)
    assert "1,500 tokens · $0.0042" in render_transcript(state)
    html = (await client.get(reverse("chat:settings", args=[thread.public_id]))).content.decode()
    assert "<td>$0.0042</td>" in html
    assert "1200" in html


async def test_without_prices_nothing_is_said_of_money(client, thread):
    state = await db.read(store.load_state, thread)
    assert "1,500 tokens</small>" in render_transcript(state)
    assert (
        "Cost" not in (await client.get(reverse("chat:settings", args=[thread.public_id]))).content.decode()
    )


@override_settings(MODEL_PRICES={"demo": (1.0, 10.0)})
async def test_the_price_is_told_alike_by_the_log_and_the_rows(person, plays, settled):
    plays(
        Turn(calls=[("c1", "get_weather", {"city": "Oslo"})], usage=Usage(7, 3)),
        Turn("Mild.", usage=Usage(11, 13)),
    )
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    live = await asyncio.wait_for(_ended(channel, done), 20)
    await settled()
    kept = (await db.read(store.load_state, done.thread)).segments[-1].run
    assert live.cost == kept.cost == pytest.approx((18 + 160) / 1e6)


async def _ended(channel: Any, done: Any) -> Any:
    async for _ in following.follow_run(channel, done.run.pk, done.run.public_id):
        pass
    return (await following.state_now(channel, done.thread)).segments[-1].run


# -- presets -------------------------------------------------------------------------------------------------


async def preset(person: Any, name: str = "Pirate", model: str = "demo", **chosen: Any) -> Preset:
    chosen = chosen or {"system": "Answer as a pirate."}
    return await db.write(
        choosing.save_preset, owner=person, name=name, model=model, chosen=Choices(**chosen)
    )


async def presets_page(client: AsyncClient, **form: str) -> Any:
    return await client.post(reverse("chat:presets"), form)


async def test_a_threads_settings_are_saved_as_a_preset_and_applied_to_another(
    client, person, thread, plays, settled
):
    await save(client, thread, do="preset", name=f"  My {HOSTILE} ", system="Be brief.", seed="7")
    kept = await db.read(Preset.objects.get)
    assert (kept.name, kept.model) == (f"My {HOSTILE}", "demo")
    assert kept.choices == (await now(thread)).choices == {"system": "Be brief.", "parameters": {"seed": 7}}
    html = (await client.get(reverse("chat:presets"))).content.decode()
    assert "<script>alert" not in html
    assert "Seed 7" in html

    plays(Turn("Hello."))
    second = (await begin(person, "Another")).thread
    await settled()
    await configure(person, second, toolsOff=["send_email"])
    done = await save(client, second, do="apply", preset=kept.name)
    assert done.status_code == 303
    assert (await now(second)).choices == kept.choices


async def test_a_new_thread_begins_with_the_preset_that_its_page_shows(client, person, plays, settled):
    provider = plays(Turn("Ahoy."), Turn("Hello."))
    await preset(person)
    await preset(person, "Brief", system="Be brief.")
    assert 'name="preset" value=""' in (await client.get("/")).content.decode()
    await presets_page(client, do="default", preset="Pirate")
    html = (await client.get("/")).content.decode()
    assert 'name="preset" value="Pirate"' in html
    assert 'name="preset" value="Brief"' in (await client.get("/?preset=Brief")).content.decode()
    assert 'name="preset" value=""' in (await client.get("/?preset=")).content.decode()

    await client.post("/threads/", {"text": "Hi", "client_id": "a", "model": "demo", "preset": "Pirate"})
    await settled()
    assert told(provider)["system"] == "Answer as a pirate."
    await client.post("/threads/", {"text": "Hi", "client_id": "b", "model": "demo", "preset": ""})
    await settled()
    assert told(provider)["system"] == ""


async def test_a_message_that_is_refused_keeps_the_preset_it_came_with(client, person, plays):
    await preset(person)
    response = await client.post("/threads/", {"text": " ", "preset": "Pirate"})
    assert response.status_code == 422
    assert 'name="preset" value="Pirate"' in response.content.decode()


async def test_a_preset_that_is_gone_is_said_and_begins_nothing(client, person, plays):
    response = await client.post("/threads/", {"text": "Hi", "preset": "Gone"})
    assert response.status_code == 404
    html = response.content.decode()
    assert "You have no preset of that name" in html
    assert ">Hi</textarea>" in html
    assert await db.read(Thread.objects.count) == 0


async def test_a_threads_copy_outlives_its_preset(client, person, thread):
    await preset(person)
    await configure(person, thread, preset="Pirate")
    await presets_page(client, do="delete", preset="Pirate")
    assert await db.read(Preset.objects.count) == 0
    assert (await now(thread)).choices == {"system": "Answer as a pirate."}


async def test_a_preset_is_renamed_saved_over_and_one_alone_is_the_default(client, person):
    await preset(person)
    await preset(person, "Brief", system="Be brief.")
    await presets_page(client, do="default", preset="Pirate")
    await presets_page(client, do="default", preset="Brief")
    assert await db.read(
        lambda: list(Preset.objects.filter(is_default=True).values_list("name", flat=True))
    ) == ["Brief"]
    await presets_page(client, do="no_default")
    assert not await db.read(Preset.objects.filter(is_default=True).exists)
    assert (await presets_page(client, do="rename", preset="Pirate", name=" Sea  dog ")).status_code == 303
    taken = await presets_page(client, do="rename", preset="Sea dog", name="Brief")
    assert taken.status_code == 409
    assert "another preset of that name" in taken.content.decode()
    await preset(person, "Brief", system="Be briefer.")
    assert await db.read(lambda: sorted(Preset.objects.values_list("name", "choices__system"))) == [
        ("Brief", "Be briefer."),
        ("Sea dog", "Answer as a pirate."),
    ]


async def test_a_preset_is_its_owners_alone(other, person, stranger):
    await preset(person)
    for do in ("rename", "delete", "default"):
        assert (await presets_page(other, do=do, preset="Pirate", name="Mine")).status_code == 404
    assert "Pirate" not in (await other.get(reverse("chat:presets"))).content.decode()
    assert "Pirate" not in (await other.get("/?preset=Pirate")).content.decode()
    with pytest.raises(NoPreset):
        await commands.begin_thread(stranger, Send(text="Hi", preset="Pirate"), door="page")
    assert (await db.read(Preset.objects.get)).name == "Pirate"


@pytest.mark.parametrize(("name", "words"), [(" ", "needs a name"), ("x" * 101, "at most 100")])
async def test_a_name_that_cannot_be_is_refused(client, thread, name, words):
    response = await save(client, thread, do="preset", name=name)
    assert response.status_code == 422
    assert words in response.content.decode()


async def test_there_is_an_end_to_presets(person, monkeypatch):
    monkeypatch.setattr(choosing, "MOST_PRESETS", 1)
    await preset(person)
    await preset(person, system="Again.")
    with pytest.raises(Invalid, match="Delete one first"):
        await preset(person, "One more")


async def test_a_preset_whose_model_is_gone_takes_the_default(person, thread):
    await preset(person, model="gone")
    await configure(person, thread, preset="Pirate")
    assert (await now(thread)).model == "demo"


# -- the picker ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "note"),
    [
        ({}, "OpenAI"),
        ({"context": 128_000, "images": True}, "OpenAI · 128K · images"),
        ({"context": 1_048_576, "tools": False}, "OpenAI · 1.05M · no tools"),
        ({"context": 900, "images": False, "tools": True}, "OpenAI · 900"),
    ],
)
def test_the_picker_says_what_is_known_of_a_model(known, note):
    catalog = Catalog((ModelChoice("m", "m", "OpenAI", **known),), "m")
    assert models_in(catalog) == [{"id": "m", "label": "m", "note": note}]


@override_settings(OPENAI_API_KEY="k", OPENAI_MODELS=["gpt-x"], MODEL_FACTS={"gpt-x": {"context": 400_000}})
async def test_the_facts_of_the_settings_are_in_the_catalog(person):
    use_agents(None)
    catalog = await catalog_for(person)
    use_agents(None)
    assert catalog.choices[0] == ModelChoice("gpt-x", "gpt-x", "OpenAI", 400_000)
