"""How much somebody may use is held at every door of the chat, and inside of a run."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal

import pytest
from django.db.models import Sum

from agent.events import RunFinished
from agent.messages import Usage
from agent.providers.scripted import Turn
from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.asgi import application
from chatsite.chat import commands, db
from chatsite.chat.commands.values import Send, Stop
from chatsite.chat.models import Run
from chatsite.chat.problems import OverQuota
from chatsite.chat.render import words
from chatsite.chat.runs import unfinished
from chatsite.policies import rules
from chatsite.policies.models import GroupBudget, GroupPolicy, Reservation, Used
from tests.chat.conftest import row_of, until
from tests.chat.test_api import body, post
from tests.chat.test_approvals import ASKS, answer, asked, yes
from tests.chat.test_runs import begin, told
from tests.communicators import WebsocketCommunicator

A_CALL = {"city": "San Francisco"}


async def everybody_may(**fields: object) -> None:
    await db.write(GroupPolicy.objects.update_or_create, group=None, defaults=fields)
    rules.forget()


async def used(span: str = "day", subject: str = "user:") -> tuple[int, int]:
    """Requests and tokens."""
    rows = Used.objects.filter(span=span, subject__startswith=subject)
    sums = await db.read(rows.aggregate, requests=Sum("requests"), tokens=Sum("tokens"))
    return sums["requests"] or 0, sums["tokens"] or 0


async def holds() -> int:
    return await db.read(Reservation.objects.count)


def calls(number: int, tokens: int) -> Turn:
    return Turn(calls=[(f"c{number}", "get_weather", A_CALL)], usage=Usage(tokens - 10, 10))


# -- at the doors --------------------------------------------------------------------------------------------


async def test_a_run_of_whom_nothing_limits_is_not_metered(person, plays, settled):
    plays(Turn("Hi.", usage=Usage(5, 5)))
    done = await begin(person)
    await settled()
    assert "metered" not in (await row_of(done.run)).given
    assert await used() == (0, 0)


async def test_over_a_limit_every_door_says_when_to_come_back(person, key, plays, settled, http, client_of):
    plays(Turn("Hi.", usage=Usage(5, 5)))
    await everybody_may(requests_per_day=1)
    done = await begin(person)
    await settled()
    thread = done.thread.public_id

    refused = await post(http, key, body())
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_exceeded")
    assert (
        refused.json()["error"]["message"]
        == "Your 1 requests of today are used up; they come back at 00:00 UTC."
    )
    assert 0 < int(refused.headers["Retry-After"]) <= 24 * 3600

    page = await db.read(client_of, person)
    sent = await page.post(f"/threads/{thread}/send", {"text": "And?", "client_id": "m2"})
    assert sent.status_code == 429
    assert "are used up; they come back at 00:00 UTC" in sent.content.decode()
    assert "And?" in sent.content.decode()

    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key}".encode())]
    socket = WebsocketCommunicator(application, f"/ws/threads/{thread}/", headers=headers)
    assert (await socket.connect())[0]
    await socket.send_json_to({"type": "send", "text": "And?", "id": 7})
    while (said := json.loads(await socket.receive_from())).get("id") != 7:
        pass
    assert (said["code"], said["retryAfter"] > 0) == ("quota_exceeded", True)
    await socket.disconnect()
    assert await used() == (1, 10)


async def test_a_refused_first_message_makes_no_thread_and_counts_nothing(person, plays, settled):
    plays(Turn("Hi."))
    await everybody_may(runs_at_once=1, tokens_per_day=1000)
    gate = asyncio.Event()
    plays(Turn("Hi.", gate=gate), Turn("Again."))
    await begin(person)
    with pytest.raises(OverQuota, match="1 answers under way"):
        await begin(person, "Another")
    assert await db.read(Run.objects.count) == 1
    gate.set()
    await settled()
    await told(await begin(person, "Another"))
    await settled()
    assert await holds() == 0


async def test_the_same_message_twice_is_one_request(person, plays, settled):
    plays(Turn("Hi."))
    await everybody_may(requests_per_day=1)
    first = await begin(person, client_id="m1")
    again = await begin(person, client_id="m1")
    assert (again.run.pk, again.fresh) == (first.run.pk, False)
    await settled()


# -- in a run ------------------------------------------------------------------------------------------------


async def test_a_run_is_stopped_between_two_turns_and_says_by_which_limit(person, plays, settled):
    provider = plays(calls(1, 400), calls(2, 700), Turn("Never said."))
    await everybody_may(tokens_per_day=1000)
    done = await begin(person)
    events = await told(done)
    await settled()
    assert isinstance(events[-1], RunFinished)
    assert events[-1].stop_reason == "tokens_per_day"
    assert len(provider.requests) == 2  # no last words: what is used up pays for none
    row = await row_of(done.run)
    assert row.stop_reason == "tokens_per_day"
    end = words.END_WORDS[row.stop_reason]
    assert end.text == "Your daily tokens are used up; they come back at 00:00 UTC."
    assert await used() == (1, 1100)
    assert await holds() == 0
    with pytest.raises(OverQuota, match="Your daily tokens are used up; they come back at 00:00 UTC"):
        await commands.perform(person, done.thread.public_id, Send(text="Go on"), door="page")


async def test_money_stops_a_run_too(person, plays, settled, settings):
    settings.MODEL_PRICES = {"demo": (1_000_000, 1_000_000)}  # a unit of money a token
    plays(calls(1, 30), calls(2, 30), Turn("Never said."))
    await everybody_may(cost_per_month=Decimal(50))
    await told(done := await begin(person))
    await settled()
    assert (await row_of(done.run)).stop_reason == "cost_per_month"


async def test_a_group_as_a_whole_stops_its_members(person, stranger, plays, settled):
    plays(calls(1, 600), Turn("Never said."), Turn("Nor this."))
    policy = await db.write(GroupPolicy.objects.create)
    await db.write(GroupBudget.objects.create, policy=policy, tokens_per_day=500)
    rules.forget()
    await told(done := await begin(person))
    await settled()
    assert (await row_of(done.run)).stop_reason == "group_tokens_per_day"
    with pytest.raises(OverQuota, match="“Everybody else”"):
        await begin(stranger)


async def test_runs_side_by_side_do_not_pass_a_limit_as_often_as_there_are_runs(person, plays, settled):
    """Each holds what a turn may take before it begins, so the others know of it."""
    gate = asyncio.Event()
    plays(*(Turn("So.", usage=Usage(10, 990), gate=gate) for _ in range(5)))
    await everybody_may(tokens_per_day=1500)
    outcomes = await asyncio.gather(*(begin(person, f"Ask {n}") for n in range(5)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, OverQuota)]
    assert len(refused) == 3
    assert "needed by answers that are under way" in str(refused[0])
    gate.set()
    await settled()
    assert await used() == (2, 2000)


async def test_a_limit_that_is_lowered_while_a_run_is_at_work_holds_for_its_next_turn(person, plays, settled):
    gate = asyncio.Event()
    first = Turn(calls=[("c1", "get_weather", A_CALL)], usage=Usage(90, 10), gate=gate)
    plays(first, Turn("Never said."))
    await everybody_may(tokens_per_day=1_000_000)
    done = await begin(person)
    await everybody_may(tokens_per_day=50)
    gate.set()
    await told(done)
    await settled()
    assert (await row_of(done.run)).stop_reason == "tokens_per_day"


# -- however it ends -----------------------------------------------------------------------------------------


async def test_a_stopped_run_has_its_turns_booked_and_holds_nothing(person, plays, settled):
    gate = asyncio.Event()
    provider = plays(calls(1, 100), Turn("Never said.", gate=gate))
    await everybody_may(tokens_per_day=100_000)
    done = await begin(person)
    await until(lambda: len(provider.requests) == 2)
    await commands.perform(person, done.thread.public_id, Stop(), door="page")
    await settled()
    assert await used() == (1, 100)
    assert await holds() == 0


async def test_a_run_whose_process_died_is_settled_by_who_recovers_it(person, plays, settled):
    gate = asyncio.Event()
    provider = plays(calls(1, 100), Turn("Never said.", gate=gate))
    await everybody_may(tokens_per_day=100_000)
    done = await begin(person)
    await until(lambda: len(provider.requests) == 2)
    assert await holds() == 1
    await db.write(unfinished.close_run, done.run.pk, code="lost", message="gone")
    assert await used() == (1, 100)
    assert await holds() == 0
    gate.set()
    await settled()


async def test_a_question_holds_nothing_while_it_waits_and_its_answer_is_counted(person, plays, settled):
    plays(ASKS, Turn("Sent.", usage=Usage(50, 50)))
    await everybody_may(runs_at_once=1)
    done, rows = await asked(person, settled)
    assert await holds() == 0
    await told(await answer(person, done.thread, yes(rows[0])))
    await settled()
    assert (await used())[0] == 2


async def test_what_a_silent_model_said_is_estimated_between_turns(person, plays, settled):
    plays(Turn("word " * 400, calls=[("c1", "get_weather", A_CALL)]), Turn("Never said."))
    await everybody_may(tokens_per_day=400)
    await told(done := await begin(person))
    await settled()
    assert (await row_of(done.run)).stop_reason == "tokens_per_day"
    assert await used() == (1, 500)


async def test_the_limits_of_a_key_hold_in_the_chat_and_its_books_have_the_money(
    person, plays, settled, http, settings
):
    settings.MODEL_PRICES = {"demo": (1_000_000, 1_000_000)}
    plays(Turn("Hi.", usage=Usage(4, 6)), Turn("Hi."))
    narrow = await db.write(keys.new_api_key, person, budget=Decimal(10))
    assert (await post(http, narrow, body())).status_code == 200
    await settled()
    row = await db.read(ApiKey.objects.get)
    assert (row.spent, row.requests, row.output_tokens) == (Decimal(10), 1, 6)
    refused = await post(http, narrow, body(thread="T2", run="r2", message="u2"))
    assert refused.status_code == 429
    assert "budget of this API key is used up" in refused.json()["error"]["message"]
