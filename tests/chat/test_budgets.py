"""A run stops at each of its budgets, says which in its stop reason, and leaves the person words."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from agent.messages import Usage
from agent.middleware import Middleware
from agent.providers.scripted import Turn
from chatsite.chat import db, eventlog, store
from chatsite.chat.readers import following
from chatsite.chat.render.fragments import render_transcript
from tests.chat.conftest import row_of
from tests.chat.test_runs import begin, transcript_of

CALL = Turn(calls=[("", "get_weather", {"city": "Oslo"})], usage=Usage(600, 400))
WORDS = Turn("That is all for now.")


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"RUN_MAX_TURNS": 2}, "max_iterations"),
        ({"RUN_MAX_TOOL_CALLS": 2}, "max_tool_calls"),
        ({"RUN_MAX_TOKENS": 2000}, "max_tokens"),
        ({"RUN_MAX_COST": 2.0, "MODEL_PRICES": {"demo": (1000.0, 1000.0)}}, "max_cost"),
    ],
)
async def test_a_budget_stops_the_run_by_its_name_and_the_person_gets_words(
    person, plays, settled, limit, reason
):
    provider = plays(CALL, CALL, WORDS)
    with override_settings(**limit):
        done = await begin(person)
        await settled()
    run = await row_of(done.run)
    assert (run.state, run.stop_reason) == ("finished", reason)
    assert (await transcript_of(done.thread))[-1].text == "That is all for now."
    assert [request.tool_choice for request in provider.requests] == ["auto", "auto", "none"]


async def test_a_budget_in_seconds_stops_it_too(person, plays, settled):
    plays(CALL, WORDS)
    with override_settings(RUN_MAX_SECONDS=1e-9):
        done = await begin(person)
        await settled()
    assert (await row_of(done.run)).stop_reason == "max_seconds"


class Refuses(Middleware):
    """Lets no call run."""

    def on_before_tool_call(self, ctx, call):
        from agent import Skip

        return Skip("Not today.")


class ClosesAtNight(Middleware):
    def on_iteration(self, ctx):
        ctx.abort("The office is closed.")


async def test_the_reason_of_a_middleware_that_ends_a_run_is_in_its_row_and_on_the_page(
    person, plays, settled
):
    plays(WORDS)
    with override_settings(CHAT_MIDDLEWARE=["tests.chat.test_budgets.ClosesAtNight"]):
        done = await begin(person)
        channel = eventlog.channel_of(done.thread.pk)
        await settled()
    assert (await row_of(done.run)).error == "The office is closed."
    kept = await db.read(store.load_state, done.thread)
    for state in (kept, await following.state_now(channel, done.thread)):
        assert "Stopped by a rule of this server: The office is closed. " in render_transcript(state)


async def test_a_middleware_of_the_settings_is_around_every_run(person, plays, settled):
    plays(CALL, WORDS)
    with override_settings(CHAT_MIDDLEWARE=["tests.chat.test_budgets.Refuses"]):
        done = await begin(person)
        await settled()
    kept = await transcript_of(done.thread)
    assert "Not today." in kept[2].tool_results[0].content


@pytest.mark.parametrize(
    ("given", "id"),
    [
        ({"CHAT_MIDDLEWARE": ["no.such.Thing"]}, "chat.E002"),
        ({"RUN_MAX_COST": 1.0}, "chat.E003"),
        ({"DEFAULT_MODEL": "nobody", "OPENAI_API_KEY": "k", "OPENAI_MODELS": ["a"]}, "chat.E001"),
    ],
)
def test_a_setting_that_cannot_hold_fails_the_start(given, id):
    with override_settings(**given):
        assert id in {message.id for message in run_checks()}
