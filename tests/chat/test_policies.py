"""What an administrator lets somebody use holds at every door of the chat, and inside of a run."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth.models import Permission

from agent import ToolRegistry, tool
from agent.events import RunError, ToolCallResult
from agent.providers.scripted import ScriptedProvider, Turn
from chatsite.accounts import keys
from chatsite.chat import actions, agents, commands, db, runner
from chatsite.chat.actions import starting
from chatsite.chat.agents import Agents, catalog_for, use_agents
from chatsite.chat.commands import checks
from chatsite.chat.commands.values import Continue, Send
from chatsite.chat.models import ApprovalRule, Run
from chatsite.chat.problems import Unanswerable, UnknownModel
from chatsite.policies.models import GroupPolicy
from chatsite.policies.rules import forget
from tests.chat.conftest import row_of
from tests.chat.test_api import body, post
from tests.chat.test_approvals import ASKS, MAIL, answer, asked, no, yes
from tests.chat.test_runs import WEATHER, begin, told


async def everybody_may(**fields: object) -> None:
    await db.write(GroupPolicy.objects.update_or_create, group=None, defaults=fields)
    forget()


@tool(permission="chat.view_thread", needs_approval=lambda args: args["amount"] > 10)
def pay(amount: int) -> str:
    """Pay."""
    return f"Paid {amount}."


# -- models --------------------------------------------------------------------------------------------------


async def test_what_is_not_theirs_is_not_offered_and_as_unknown_as_what_is_not_there(person, plays):
    plays()
    await everybody_may(allowed_models=["large-*"])
    catalog = await catalog_for(person)
    assert (catalog.choices, catalog.default, catalog.closed) == ((), "", {"demo"})
    for model in ("demo", ""):
        with pytest.raises(UnknownModel, match="No model is open to you here"):
            await begin(person, model=model)


async def test_the_page_of_somebody_without_any_model_opens(person, plays, client_of):
    plays()
    await everybody_may(allowed_models=["large-*"])
    client = await db.read(client_of, person)
    assert (await client.get("/")).status_code == 200
    refused = await client.post("/threads/", {"text": "Hi", "client_id": "m1"})
    assert refused.status_code == 422
    assert "No model is open to you here" in refused.content.decode()


async def test_a_program_is_refused_with_a_code(person, key, plays, http):
    plays()
    await everybody_may(allowed_models=["large-*"])
    refused = await post(http, key, body(forwardedProps={"model": "demo"}))
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "model_not_found")


async def test_the_models_of_a_key_hold_in_the_chat_too(person, plays, http):
    plays(Turn("Hello."))
    narrow = await db.write(keys.new_api_key, person, allowed_models=["large"])
    refused = await post(http, narrow, body())
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "model_not_found")
    wide = await db.write(keys.new_api_key, person, allowed_models=["demo"])
    assert (await post(http, wide, body())).status_code == 200


async def test_a_lost_run_is_not_continued_by_a_model_that_was_taken_away(person, plays, settled):
    plays(Turn("Hello."))
    done = await begin(person)
    await settled()
    await db.write(Run.objects.filter(pk=done.run.pk).update, state=Run.State.LOST)
    await everybody_may(allowed_models=["large"])
    with pytest.raises(UnknownModel, match="is not open to you any more"):
        await commands.perform(person, done.thread.public_id, Continue(), door="page")


async def test_answers_are_refused_in_words_when_the_model_was_taken_away_and_stay_open(
    person, plays, settled
):
    plays(ASKS, Turn("Sent."))
    done, rows = await asked(person, settled)
    await everybody_may(allowed_models=["large"])
    with pytest.raises(UnknownModel, match="is not open to you any more"):
        await answer(person, done.thread, yes(rows[0]))
    await everybody_may(allowed_models=[])
    await told(await answer(person, done.thread, yes(rows[0])))
    await settled()


async def test_a_run_that_a_restart_goes_on_with_ends_in_words(person, plays, settled):
    """Nobody asks a command for it, so the run itself looks."""
    plays(*WEATHER)
    await everybody_may(allowed_models=["large"])
    start = starting.Start("demo", "process", "page")
    message = (await checks.sent_of(person, Send(text="Hi"), None))["message"]
    begun = await db.write(
        actions.open_thread, owner=person, public_id=None, message=message, client_id="m1", start=start
    )
    runner.start(begun, person)
    events = await told(begun)
    await settled()
    assert isinstance(events[-1], RunError)
    assert (events[-1].code, "not open to you" in events[-1].message) == ("model_not_found", True)


# -- tools ---------------------------------------------------------------------------------------------------


async def test_a_denied_tool_is_not_told_to_the_model_and_never_runs(person, plays, settled):
    provider = plays(*WEATHER)
    await everybody_may(tools={"get_weather": "deny"})
    done = await begin(person)
    events = await told(done)
    await settled()
    assert "get_weather" not in [spec.name for spec in provider.requests[0].tools]
    assert "get_clothing_advice" in [spec.name for spec in provider.requests[0].tools]
    result = next(event for event in events if isinstance(event, ToolCallResult))
    assert result.error == "unknown_tool"


async def test_a_tool_that_is_denied_while_the_run_is_at_work_does_not_run(person, plays, settled):
    gate = asyncio.Event()
    provider = plays(Turn(calls=[("c1", "get_weather", {"city": "San Francisco"})], gate=gate), Turn("So."))
    done = await begin(person)
    await everybody_may(tools={"*": "deny"})
    gate.set()
    events = await told(done)
    await settled()
    assert "get_weather" in [spec.name for spec in provider.requests[0].tools]
    result = next(event for event in events if isinstance(event, ToolCallResult))
    assert result.error == "denied"


async def test_a_tool_of_which_the_group_says_ask_asks_until_the_person_allows_it_for_good(
    person, plays, settled
):
    plays(*WEATHER, *WEATHER)
    await everybody_may(tools={"get_weather": "ask"})
    done, rows = await asked(person, settled)
    assert [row.tool_name for row in rows] == ["get_weather"]
    await told(await answer(person, done.thread, yes(rows[0], always=True)))
    await settled()
    assert await db.read(ApprovalRule.objects.count) == 1


@pytest.mark.parametrize(
    ("tools", "state"),
    [
        ({}, "interrupted"),
        ({"*": "allow"}, "interrupted"),  # the tool's own wish is stronger than a rule for all
        ({"send_email": "allow"}, "finished"),
        ({"*": "ask", "send_email": "allow"}, "finished"),
    ],
)
async def test_only_a_rule_by_name_spares_a_tool_its_question(person, plays, settled, tools, state):
    plays(ASKS, Turn("Sent."))
    await everybody_may(tools=tools)
    done = await begin(person)
    await settled()
    assert (await row_of(done.run)).state == state


async def test_always_in_this_thread_never_passes_a_deny(person, plays, settled):
    gate = asyncio.Event()
    plays(Turn(calls=[("c1", "send_email", MAIL)], gate=gate), Turn("So."))
    done = await begin(person)
    await db.write(ApprovalRule.objects.create, thread=done.thread, tool_name="send_email", created_by=person)
    await everybody_may(tools={"send_email": "deny"})
    gate.set()
    events = await told(done)
    await settled()
    assert next(event for event in events if isinstance(event, ToolCallResult)).error == "denied"


async def test_an_approval_of_a_tool_that_is_denied_by_now_is_refused_and_a_cancel_is_not(
    person, plays, settled
):
    plays(ASKS, Turn("Well."))
    done, rows = await asked(person, settled)
    await everybody_may(tools={"send_email": "deny"})
    with pytest.raises(Unanswerable):
        await answer(person, done.thread, yes(rows[0]))
    await told(await answer(person, done.thread, no(rows[0])))
    await settled()


@pytest.mark.parametrize(
    ("permitted", "rule", "amount", "error"),
    [
        (False, "allow", 1, "denied"),
        (True, None, 1, None),
        (True, "deny", 1, "denied"),
        (True, "allow", 99, None),
    ],
)
async def test_the_permission_of_a_tool_stands_before_every_rule(
    person, settled, monkeypatch, permitted, rule, amount, error
):
    if permitted:
        held = await db.read(Permission.objects.get, codename="view_thread")
        await db.write(person.user_permissions.add, held)
    gate = asyncio.Event()
    provider = ScriptedProvider(Turn(calls=[("c1", "pay", {"amount": amount})], gate=gate), Turn("So."))
    monkeypatch.setattr(agents, "server_tools", lambda: ToolRegistry([pay]))
    use_agents(Agents([], demo=provider))
    try:
        done = await begin(person)
        await everybody_may(tools={"pay": rule} if rule else {})
        gate.set()
        events = await told(done)
        await settled()
    finally:
        use_agents(None)
    assert next(event for event in events if isinstance(event, ToolCallResult)).error == error


async def test_the_settings_of_a_thread_list_no_denied_tool(person, plays, settled, client_of):
    plays(Turn("Hello."))
    done = await begin(person)
    await settled()
    await everybody_may(tools={"send_email": "deny"})
    client = await db.read(client_of, person)
    shown = (await client.get(f"/threads/{done.thread.public_id}/settings")).content.decode()
    assert "get_weather" in shown
    assert "send_email" not in shown
