"""A run whose process died is gone on with: once by itself, then when a person asks; and nothing is done twice."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from functools import reduce

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from agent import ToolContext, ToolRegistry, tool
from agent.errors import ProviderUnreachable
from agent.events import MessagesSnapshot, RunError, RunFinished, RunStarted, Terminal, ToolCallStart
from agent.messages import NOTICE, Transcript, open_calls
from agent.providers.scripted import ScriptedProvider, Turn
from agent.reducer import apply
from agent.wire import anthropic, openai_chat
from chatsite.chat import agents, commands, db, eventlog, recovery, runner
from chatsite.chat.actions import continuing
from chatsite.chat.agents import Agents, use_agents
from chatsite.chat.commands import acting, values
from chatsite.chat.commands.values import Continue, Retry, Send, Stop
from chatsite.chat.limits import policy
from chatsite.chat.models import Message, Run, Thread, ToolCall
from chatsite.chat.problems import Busy, Conflict, Missing, NothingToContinue
from chatsite.chat.process import rounds
from chatsite.chat.process.heartbeat import PROCESS, Beat
from chatsite.chat.readers import cursors, following
from chatsite.chat.rows import kept_log
from tests.chat.conftest import recover, row_of, until
from tests.chat.dying import all_kept, dead_owner, kill, killed_in_mid_answer
from tests.chat.test_approvals import MAIL, answer, asked, yes
from tests.chat.test_runs import begin, transcript_of

HALF = Turn("The first half, the second half.")
REST = Turn("the second half.")


async def runs_of(done) -> list[Run]:
    return await db.read(lambda: list(Run.objects.filter(thread=done.thread).order_by("pk")))


async def log_of(run: Run) -> list:
    return [event for _, event in await db.read(kept_log.events_after, run.pk, 0)]


# -- once, by itself -----------------------------------------------------------------------------------------


async def test_a_lost_run_is_gone_on_with_where_it_stopped(person, plays, settled):
    done, provider = await killed_in_mid_answer(person, plays, HALF, then=[REST])
    assert [each.fate for each in await recover()] == ["continued"]
    await settled()
    lost, rest = await runs_of(done)
    assert (lost.state, lost.error_code) == ("lost", "lost")
    assert (rest.state, rest.parent_id, rest.continuation, rest.door) == (
        "finished", lost.pk, "automatic", "recovery",
    )  # fmt: skip
    kept = await transcript_of(done.thread)
    assert [message.role for message in kept] == ["user", "assistant", "system", "assistant"]
    assert HALF.text.startswith(kept[1].text)
    assert kept[1].text
    assert kept[3].text == REST.text
    assert provider.requests[-1].transcript.messages == kept.messages[:-1]  # what the model read
    assert (await log_of(rest))[0].input == kept.messages[2:3]  # what was told


async def test_its_log_folds_to_what_is_kept_and_the_wire_says_whose_rest_it_is(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST])
    await recover()
    await settled()
    lost, rest = await runs_of(done)
    first, second = await log_of(lost), await log_of(rest)
    assert first[-1].metadata == {"continuedBy": rest.public_id}
    assert isinstance(second[0], RunStarted)
    assert second[0].parent_run_id == lost.public_id
    assert second[0].metadata == {"continuation": "automatic"}
    assert [sum(isinstance(event, Terminal) for event in log) for log in (first, second)] == [1, 1]
    kept = await transcript_of(done.thread)
    assert reduce(apply, [*first, *second], Transcript(kept.messages[:1])) == kept


@pytest.mark.parametrize("codec", [openai_chat, anthropic])
async def test_what_is_sent_ends_with_a_users_turn_and_holds_no_system_message_within(
    person, plays, settled, codec
):
    """Many servers refuse a system message there, and others a conversation that ends with the model's words."""
    done, provider = await killed_in_mid_answer(person, plays, HALF, then=[REST, Turn("Well.")])
    await recover()
    await settled()
    await commands.perform(person, done.thread.public_id, Send(text="And?"), door="page")
    await settled()
    for request, roles in (
        (provider.requests[1], ["user", "assistant", "user"]),
        (provider.requests[2], ["user", "assistant", "user", "assistant", "user"]),
    ):
        body = codec.encode_request(request)
        told = [message["role"] for message in body["messages"]]
        assert [role for role in told if role != "system" or told.index(role)] == roles
        assert continuing.GO_ON in str(body["messages"])
        assert continuing.GO_ON not in str(body.get("system"))


async def test_a_run_that_had_said_nothing_begins_anew_without_a_notice(person, plays, settled):
    plays(Turn("Hi there.", gate=asyncio.Event()), Turn("Hi there."))
    done = await begin(person)
    await until(lambda: runner.running_here()[0].channel.active)
    await kill(done.run)
    await recover()
    await settled()
    assert [message.role for message in await transcript_of(done.thread)][:1] == ["user"]
    assert not any(NOTICE in message.metadata for message in await transcript_of(done.thread))
    assert (await runs_of(done))[-1].state == "finished"


async def test_one_that_dies_again_stays_lost_until_a_person_asks(person, plays, settled):
    held = asyncio.Event()
    again = Turn("the second half.", delta_size=4, gate=asyncio.Event(), held=held)
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[again, Turn("half.")])
    await recover()
    await held.wait()
    second = (await runs_of(done))[-1]
    await all_kept(second)
    await kill(second)
    assert [each.fate for each in await recover()] == ["lost"]
    assert [run.state for run in await runs_of(done)] == ["lost", "lost"]
    asked = await commands.perform(person, done.thread.public_id, Continue(), door="websocket")
    await settled()
    third = await row_of(asked.run)
    assert (third.state, third.continuation, third.parent_id, third.door) == (
        "finished", "asked", second.pk, "websocket",
    )  # fmt: skip
    assert (await transcript_of(done.thread))[-1].text == "half."


async def test_what_a_person_had_continued_is_gone_on_with_by_itself_again(person, plays, settled):
    held = asyncio.Event()
    again = Turn("the second half.", delta_size=4, gate=asyncio.Event(), held=held)
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[again, Turn("half.")], door="api")
    await recover()
    asked = await commands.perform(person, done.thread.public_id, Continue(), door="page")
    await held.wait()
    await all_kept(asked.run)
    await kill(asked.run)
    assert [each.fate for each in await recover()] == ["continued"]
    await settled()
    assert [run.state for run in await runs_of(done)] == ["lost", "lost", "finished"]


# -- its calls -----------------------------------------------------------------------------------------------


class Doings:
    """What tools did, counted outside the database; `keys` are the idempotency keys they got."""

    def __init__(self) -> None:
        self.keys: dict[str, list[str]] = {"safe": [], "once": [], "later": []}
        self.hold = asyncio.Event()

    def registry(self) -> ToolRegistry:
        async def done(name: str, ctx: ToolContext) -> str:
            self.keys[name].append(ctx.idempotency_key)
            await self.hold.wait()
            return f"{name} is done"

        @tool(idempotent=True)
        async def safe(ctx: ToolContext) -> str:
            """May be done again."""
            return await done("safe", ctx)

        @tool
        async def once(ctx: ToolContext) -> str:
            """Must not be done twice."""
            return await done("once", ctx)

        @tool(parallel_safe=False)
        async def later(ctx: ToolContext) -> str:
            """Alone, so behind the others."""
            return await done("later", ctx)

        return ToolRegistry([safe, once, later])


@pytest.fixture
def doings(monkeypatch):
    made = Doings()
    monkeypatch.setattr("chatsite.chat.agents.server_tools", made.registry)
    return made


CALLS = Turn(calls=[("a", "safe", {}), ("b", "once", {}), ("c", "later", {})])


async def killed_within_tools(person, doings):
    done = await begin(person)
    await until(lambda: doings.keys["safe"] and doings.keys["once"])
    await kill(done.run)
    return done


async def test_an_idempotent_call_runs_again_under_its_key_and_no_other_one_does(
    person, plays, settled, doings
):
    provider = plays(CALLS, Turn("All of it."))
    done = await killed_within_tools(person, doings)
    doings.hold.set()
    await recover()
    await settled()
    key = f"{done.thread.public_id}:a"
    assert doings.keys["safe"] == [key, key]
    assert len(doings.keys["once"]) == 1
    assert len(doings.keys["later"]) == 1  # asked for and never claimed: it runs now
    calls = {call.call_id: call for call in await db.read(lambda: list(ToolCall.objects.all()))}
    assert {id: call.state for id, call in calls.items()} == {"a": "done", "b": "unknown", "c": "done"}
    assert {call.run_id for call in calls.values()} == {done.run.pk}
    kept = await transcript_of(done.thread)
    results = {part.tool_call_id: part for message in kept for part in message.tool_results}
    assert {id: part.error for id, part in results.items()} == {
        "a": None, "b": "outcome_unknown", "c": None,
    }  # fmt: skip
    assert "may have happened" in results["b"].content
    assert kept[-1].text == "All of it."
    assert provider.requests[-1].transcript.messages == kept.messages[:-1]
    starts = [event for run in await runs_of(done) for event in await log_of(run)]
    assert sum(isinstance(event, ToolCallStart) for event in starts) == 3  # never told again


async def test_a_tool_that_is_not_idempotent_any_more_does_not_run_again(person, plays, settled, monkeypatch):
    made = Doings()
    monkeypatch.setattr("chatsite.chat.agents.server_tools", made.registry)
    plays(CALLS)
    done = await killed_within_tools(person, made)
    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry())
    plays(Turn("Well."))
    await recover()
    await settled()
    results = [part for message in await transcript_of(done.thread) for part in message.tool_results]
    assert {part.tool_call_id: part.error for part in results} == {
        "a": "outcome_unknown", "b": "outcome_unknown", "c": "unknown_tool",
    }  # fmt: skip
    assert [len(keys) for keys in made.keys.values()] == [1, 1, 0]


async def test_one_that_is_denied_before_it_ran_again_may_have_happened_all_the_same(
    person, plays, settled, doings, monkeypatch
):
    plays(CALLS, Turn("Well."))
    done = await killed_within_tools(person, doings)
    doings.hold.set()
    monkeypatch.setattr(policy, "of_thread", lambda *_: lambda *_: "deny")
    await recover()
    await settled()
    results = [part for message in await transcript_of(done.thread) for part in message.tool_results]
    assert {part.tool_call_id: part.error for part in results} == {
        "a": "outcome_unknown", "b": "outcome_unknown", "c": "denied",
    }  # fmt: skip
    states = {call.call_id: call.state for call in await db.read(lambda: list(ToolCall.objects.all()))}
    assert states == {"a": "unknown", "b": "unknown", "c": "denied"}
    assert [len(keys) for keys in doings.keys.values()] == [1, 1, 0]


async def test_a_stop_before_it_ran_again_says_that_it_may_have_happened(person, plays, settled, doings):
    plays(CALLS)
    done = await killed_within_tools(person, doings)
    await recover()
    await until(lambda: len(doings.keys["safe"]) == 2)
    await commands.perform(person, done.thread.public_id, Stop(), door="page")
    await settled()
    states = {call.call_id: call.state for call in await db.read(lambda: list(ToolCall.objects.all()))}
    assert states == {"a": "unknown", "b": "unknown", "c": "cancelled"}
    assert open_calls(await transcript_of(done.thread)) == ()


async def test_a_call_whose_arguments_are_not_whole_never_runs(person, plays, settled, doings):
    held = asyncio.Event()
    cut = Turn("I will.", calls=[("a", "safe", '{"x": 1}')], delta_size=3, gate=asyncio.Event(), held=held)
    provider = plays(cut, Turn("Done."))
    done = await begin(person)
    await held.wait()
    await all_kept(done.run)
    await kill(done.run)
    await recover()
    await settled()
    kept = await transcript_of(done.thread)
    assert [part.error for message in kept for part in message.tool_results] == ["incomplete_stream"]
    assert doings.keys["safe"] == []
    assert [message.role for message in kept] == ["user", "assistant", "tool", "assistant"]
    assert provider.requests[-1].transcript.messages == kept.messages[:-1]
    assert (await db.read(ToolCall.objects.get)).state == "skipped"


async def test_an_approved_call_that_had_not_begun_is_carried_out(person, plays, settled, monkeypatch):
    plays(Turn(calls=[("c1", "send_email", MAIL)]), Turn("Sent."))
    done, rows = await asked(person, settled)
    begun = await commands.perform(
        person, done.thread.public_id, values.Answer(answers=[yes(rows[0])]), door="page"
    )
    await kill(begun.run)
    call = await db.read(ToolCall.objects.get)
    assert (call.state, call.claimed_at) == ("waiting", None)
    await recover()
    await settled()
    assert (await db.read(ToolCall.objects.get)).state == "done"
    assert (await transcript_of(done.thread))[-1].text == "Sent."


async def test_a_turn_that_had_ended_is_not_made_again(person, plays, settled):
    provider = plays(Turn("All of it."))
    done = await begin(person)
    await settled()
    terminal = await db.read(kept_log.last_number, done.run.pk)
    owner = dead_owner()

    def as_if_the_end_was_not_kept() -> None:
        done.run.events.filter(number=terminal).delete()
        Run.objects.filter(pk=done.run.pk).update(state="running", owner=owner, finished_at=None)

    await db.write(as_if_the_end_was_not_kept)
    eventlog.channel_of(done.thread.pk).live = None
    await recover()
    await settled()
    assert len(provider.requests) == 1
    assert (await runs_of(done))[-1].state == "finished"
    assert [message.text for message in await transcript_of(done.thread)][-1] == "All of it."


async def test_the_turns_of_the_lost_run_count_for_its_rest(person, plays, settled, settings):
    settings.RUN_MAX_TURNS = 2
    call = {"city": "Oslo"}
    turns = [Turn(calls=[(f"c{number}", "get_weather", call)]) for number in range(3)]
    held = asyncio.Event()
    late = Turn(calls=turns[1].calls, gate=asyncio.Event(), held=held)
    plays(turns[0], late, turns[2], Turn("That is all I know."))
    done = await begin(person)
    await held.wait()
    await all_kept(done.run)
    await kill(done.run)
    await recover()
    await settled()
    rest = (await runs_of(done))[-1]
    assert (rest.stop_reason, rest.turns) == (
        "max_iterations",
        2,
    )  # one turn that was left, and the last words


async def test_a_model_that_is_gone_ends_it_in_words_and_leaves_no_call_open(person, plays, settled, doings):
    plays(CALLS)
    done = await killed_within_tools(person, doings)
    await db.write(lambda: Run.objects.update(model="gone"))
    await recover()
    await settled()
    rest = (await runs_of(done))[-1]
    assert (rest.state, rest.error_code) == ("failed", "model_not_found")
    assert "not there any more" in rest.error
    assert open_calls(await transcript_of(done.thread)) == ()
    states = {call.call_id: call.state for call in await db.read(lambda: list(ToolCall.objects.all()))}
    assert states == {"a": "unknown", "b": "unknown", "c": "cancelled"}


# -- which are not gone on with ------------------------------------------------------------------------------


async def test_one_that_was_asked_to_stop_ends_as_cancelled_with_its_receipt(person, plays, settled, doings):
    plays(CALLS)
    done = await killed_within_tools(person, doings)
    await commands.perform(person, done.thread.public_id, Stop(run_id=done.run.public_id), door="page")
    assert [each.fate for each in await recover()] == ["cancelled"]
    [run] = await runs_of(done)
    assert (run.state, run.stop_reason) == ("cancelled", "cancelled")
    assert {call["toolCallId"]: call["outcome"] for call in run.receipt["calls"]} == {
        "a": "unknown", "b": "unknown", "c": "not_run",
    }  # fmt: skip
    end = (await log_of(run))[-1]
    assert isinstance(end, RunFinished)
    assert end.metadata["receipt"] == run.receipt
    assert [len(keys) for keys in doings.keys.values()] == [1, 1, 0]


async def test_a_programs_run_ends_with_its_connection_unless_it_asked_otherwise(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF, door="api")
    assert [each.fate for each in await recover()] == ["lost"]
    goes_on = {"onDisconnect": "continue"}
    other, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST], door="api", given=goes_on)
    assert [each.fate for each in await recover()] == ["continued"]
    await settled()
    assert [run.state for run in await runs_of(done)] == ["lost"]
    assert [run.state for run in await runs_of(other)] == ["lost", "finished"]


async def test_nothing_goes_on_for_a_deactivated_account(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF)
    person.is_active = False
    await db.write(person.save)
    assert [each.fate for each in await recover()] == ["lost"]
    assert len(await runs_of(done)) == 1


async def test_a_thread_that_went_on_cannot_be_continued(person, stranger, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[Turn("Two.")], door="api")
    await recover()
    for lost, who, problem in (
        ("another", person, NothingToContinue),
        (None, stranger, Missing),
    ):
        with pytest.raises(problem):
            await commands.perform(who, done.thread.public_id, Continue(run_id=lost), door="page")
    await commands.perform(person, done.thread.public_id, Send(text="Never mind"), door="page")
    await settled()
    with pytest.raises(NothingToContinue, match="Reload"):
        await commands.perform(person, done.thread.public_id, Continue(), door="page")


async def test_two_clicks_on_continue_are_one_run(person, plays, settled):
    gate = asyncio.Event()
    rest = Turn("the second half.", gate=gate)
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[rest], door="api")
    await recover()
    clicks = [
        commands.perform(person, done.thread.public_id, Continue(run_id=done.run.public_id), door="page")
        for _ in range(3)
    ]
    assert len({each.run.pk for each in await asyncio.gather(*clicks)}) == 1
    gate.set()
    await settled()
    assert len(await runs_of(done)) == 2


async def test_a_retry_leaves_what_the_lost_run_wrote(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST, Turn("Anew.")])
    await recover()
    await settled()
    await commands.perform(person, done.thread.public_id, Retry(), door="page")
    await settled()
    assert [message.text for message in await transcript_of(done.thread)] == ["Hello?", "Anew."]


# -- exactly one ---------------------------------------------------------------------------------------------


def recover_alone(seen: Beat, barrier: threading.Barrier, won: list) -> None:
    """On a connection of its own, as another process would."""
    barrier.wait(60)
    try:
        with transaction.atomic():
            done = recovery.recover(seen)
        won.append(None if done is None else done.fate)
    finally:
        connection.close()


async def test_of_many_that_find_it_at_once_exactly_one_goes_on(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF)
    [seen] = await db.read(recovery.active_runs)
    barrier, won = threading.Barrier(4), []
    threads = [threading.Thread(target=recover_alone, args=(seen, barrier, won)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join, 30)
    assert sorted(won, key=str) == [None, None, None, "continued"]
    lost, rest = await runs_of(done)
    assert (lost.state, rest.state, rest.owner) == ("lost", "queued", PROCESS)
    assert [isinstance(event, RunError) for event in await log_of(lost)].count(True) == 1


async def test_no_run_is_gone_on_with_twice_by_itself_whatever_the_code_does(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF, door="api")
    await recover()
    twin = {"parent": done.run, "continuation": "automatic", "state": "failed", "thread": done.thread}
    await db.write(lambda: Run.objects.create(**twin))
    with pytest.raises(IntegrityError):
        await db.write(lambda: Run.objects.create(**twin))


async def test_a_continuation_that_had_not_begun_is_taken_over(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST])
    [seen] = await db.read(recovery.active_runs)
    await db.write(recovery.recover, seen)  # and its process dies before it starts what it began
    waiting = (await runs_of(done))[-1]
    owner = dead_owner()
    await db.write(lambda: Run.objects.filter(pk=waiting.pk).update(owner=owner))
    assert [each.fate for each in await recover()] == ["taken over"]
    await settled()
    assert [(run.state, run.continuation) for run in await runs_of(done)] == [
        ("lost", ""), ("finished", "automatic"),
    ]  # fmt: skip


async def test_one_that_lives_after_all_is_left_alone(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF)
    [seen] = await db.read(recovery.active_runs)
    await db.write(lambda: Run.objects.filter(pk=done.run.pk).update(beat=seen.count + 1))
    assert await db.write(recovery.recover, seen) is None
    assert (await row_of(done.run)).state == "running"
    await recover()


async def test_many_lost_runs_go_on_few_at_a_time_and_each_can_be_stopped(
    person, plays, settled, monkeypatch
):
    monkeypatch.setattr(runner, "CONTINUED_AT_ONCE", 2)
    owner = dead_owner()
    gate = asyncio.Event()
    provider = ScriptedProvider(each=lambda request: Turn("Here.", gate=gate))
    use_agents(Agents([], demo=provider))

    def lose(number: int) -> Thread:
        thread = Thread.objects.create(owner=person, public_id=f"t{number}")
        run = Run.objects.create(thread=thread, state="running", model=agents.DEMO, owner=owner)
        thread.head = Message.objects.create(
            thread=thread,
            run=run,
            public_id="u",
            role="user",
            parts=[{"type": "text", "text": "Hi"}],
            text="Hi",
        )
        thread.save()
        return thread

    threads = [await db.write(lose, number) for number in range(6)]
    assert len(await recover()) == 6
    await until(lambda: len(provider.requests) == 2)
    assert await db.read(lambda: Run.objects.filter(state="queued").count()) == 4
    await commands.perform(person, threads[-1].public_id, Stop(), door="page")
    last = Run.objects.filter(thread=threads[-1]).order_by("-pk")
    async with asyncio.timeout(20):
        while (await db.read(last.first)).state != "cancelled":  # noqa: ASYNC110 (it is in the rows)
            await asyncio.sleep(0.01)
    assert len(provider.requests) == 2
    gate.set()
    await settled()
    states = await db.read(lambda: list(Run.objects.exclude(parent=None).values_list("state", flat=True)))
    assert sorted(states) == ["cancelled"] + ["finished"] * 5


async def test_one_that_fails_at_once_frees_its_place(person, plays, settled, monkeypatch):
    monkeypatch.setattr(runner, "CONTINUED_AT_ONCE", 1)
    for _ in range(2):
        done, _ = await killed_in_mid_answer(
            person, plays, HALF, then=[Turn(error=ProviderUnreachable("away"))]
        )
        await recover()
        await settled()
        assert (await runs_of(done))[-1].state == "failed"


# -- who reads -----------------------------------------------------------------------------------------------


async def test_a_reader_of_the_lost_run_hears_its_end_and_goes_on_with_the_rest(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST])
    cursor = cursors.Cursor(done.run.public_id, await db.read(kept_log.last_number, done.run.pk) + 3)
    heard = []

    async def read() -> None:
        async for batch in following.follow_events(done.thread, cursor):
            heard.extend(event for _, event in batch.events)
            if any(isinstance(event, RunFinished) for event in heard):
                return

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await recover()
    async with asyncio.timeout(20):
        await reading
    snapshot, end, start, *_ = heard
    assert isinstance(snapshot, MessagesSnapshot), "it was told three events that were never kept"
    assert snapshot.messages == (await transcript_of(done.thread)).messages[:2]
    assert isinstance(end, RunError)
    assert isinstance(start, RunStarted)
    await settled()


async def test_the_page_shows_where_it_was_resumed_and_offers_continue_only_when_nothing_does(
    person, plays, settled, client_of
):
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST])
    client = await db.read(client_of, person)
    page = f"/threads/{done.thread.public_id}/"
    other, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST], door="api")
    await recover()
    await settled()
    shown = (await client.get(page)).content.decode()
    assert "Resumed after a restart" in shown
    assert "The server stopped here. What was written is kept." in shown
    assert "form=resume-form" not in shown
    page = f"/threads/{other.thread.public_id}/"
    shown = (await client.get(page)).content.decode()
    assert "Resumed after a restart" not in shown
    assert "form=resume-form" in shown
    response = await client.post(f"{page}continue")
    assert (response.status_code, response.headers["Location"]) == (303, page)
    await settled()
    assert "Resumed after a restart" in (await client.get(page)).content.decode()
    assert (await client.post(f"{page}continue")).status_code == 409


async def test_the_page_that_was_left_open_is_brought_to_what_a_new_one_shows(person, plays, settled):
    """`test_fragments` holds that in general; here is the way that a restart takes."""
    from chatsite.chat.render.fragments import FragmentWriter, render_transcript

    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST])
    channel = eventlog.channel_of(done.thread.pk)
    before = await following.state_now(channel, done.thread)
    writer = FragmentWriter(before)
    await recover()
    await settled()
    after = await following.state_now(channel, done.thread)
    changes = writer.update(after)
    assert "Resumed after a restart" in changes
    assert "The server stopped here." in changes
    channel.live = None
    assert render_transcript(await following.state_now(channel, done.thread)) == render_transcript(after)


async def test_rounds_that_begin_with_the_server_need_no_visitor(person, plays, settled, monkeypatch):
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST])
    monkeypatch.setattr(rounds, "FIRST_BEAT_AFTER", 0)
    monkeypatch.setattr(rounds, "_tasks", {})
    rounds.begin()
    async with asyncio.timeout(20):
        while [run.state for run in await runs_of(done)] != ["lost", "finished"]:  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0.02)
    for task in rounds._tasks[asyncio.get_running_loop()]:
        task.cancel()


async def test_a_program_has_it_continued_over_the_api(http, person, key, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST], door="api")
    await recover()
    body = {
        "threadId": done.thread.public_id, "runId": "rest", "state": {}, "tools": [], "context": [],
        "messages": [{"id": "u", "role": "user", "content": "Hello?"}], "forwardedProps": {"continue": True},
    }  # fmt: skip
    bearer = {"Authorization": f"Bearer {key}"}
    reply = await http.post("/api/chat", json=body, headers=bearer)
    assert reply.status_code == 200, reply.text
    assert f'"parentRunId":"{done.run.public_id}"' in reply.text
    assert '"RUN_FINISHED"' in reply.text
    lost = (await http.get("/api/chat", params={"runId": done.run.public_id}, headers=bearer)).text
    assert '"RUN_ERROR"' in lost
    again = await http.post("/api/chat", json={**body, "runId": "more"}, headers=bearer)
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "nothing_to_continue"


async def test_a_client_learns_from_the_lost_run_which_one_goes_on(http, person, key, plays, settled):
    goes_on = {"onDisconnect": "continue"}
    done, _ = await killed_in_mid_answer(person, plays, HALF, then=[REST], door="api", given=goes_on)
    await recover()
    await settled()
    bearer = {"Authorization": f"Bearer {key}"}
    lost = (await http.get("/api/chat", params={"runId": done.run.public_id}, headers=bearer)).text
    rest = (await runs_of(done))[-1].public_id
    assert f'"continuedBy":"{rest}"' in lost
    told = (await http.get("/api/chat", params={"runId": rest}, headers=bearer)).text
    assert '"RUN_FINISHED"' in told


async def test_an_answer_to_a_question_survives_its_run(person, plays, settled):
    """The run that carries the answer out may die as well: what was answered is not asked again."""
    plays(Turn(calls=[("c1", "send_email", MAIL)]), Turn("Sent."))
    done, rows = await asked(person, settled)
    await answer(person, done.thread, yes(rows[0]))
    await until(lambda: runner.running_here())
    await kill(runner.running_here()[0] and (await runs_of(done))[-1])
    await recover()
    await settled()
    assert [run.state for run in await runs_of(done)][-1] == "finished"
    assert open_calls(await transcript_of(done.thread)) == ()


async def test_the_demo_model_goes_on_in_the_middle_of_its_word(person, settled):
    from agent.providers.demo import DemoProvider

    use_agents(Agents([], demo=DemoProvider(pace=0.01)))
    done = await begin(person, "help")
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and len(channel.active.transcript[-1].text) > 60)
    await kill(done.run)
    use_agents(Agents([], demo=DemoProvider(pace=0)))
    await recover()
    await settled()
    kept = await transcript_of(done.thread)
    whole = await begin(person, "help")
    await settled()
    assert kept[1].text
    assert kept[1].text + kept[3].text == (await transcript_of(whole.thread))[-1].text
    use_agents(None)


async def test_a_call_that_a_client_runs_waits_for_weeks_and_restarts(person, plays, settled):
    """Nothing of it is in memory: the run has ended, and its result takes it up."""
    from agent.messages import ToolResultPart

    plays(Turn(calls=[("k", "ask_page", {})]), Turn("Thank you."))
    given = {"clientTools": [{"name": "ask_page", "description": "", "parameters": {"type": "object"}}]}
    done = await commands.begin_thread(person, Send(text="Ask"), door="api", given=given)
    await settled()
    await kill(done.run)
    await db.write(lambda: Run.objects.update(created_at=timezone.now() - timedelta(days=40)))
    eventlog.channel_of(done.thread.pk).live = None
    assert await recover() == []
    waiting = await db.read(ToolCall.objects.get)
    assert (waiting.state, (await row_of(done.run)).stop_reason) == ("waiting", "client_tools")
    thread = await db.read(Thread.objects.get, pk=done.thread.pk)
    await commands.client_results(person, thread, [ToolResultPart("k", "yes")], door="api")
    await settled()
    assert (await transcript_of(done.thread))[-1].text == "Thank you."
    assert (await db.read(ToolCall.objects.get)).state == "done"


async def test_a_client_result_survives_the_run_that_brought_it(person, plays, settled):
    from agent.messages import ToolResultPart

    plays(Turn(calls=[("k", "ask_page", {})]), Turn("Thank you."))
    given = {
        "clientTools": [{"name": "ask_page", "description": "", "parameters": {"type": "object"}}],
        "onDisconnect": "continue",
    }
    done = await commands.begin_thread(person, Send(text="Ask"), door="api", given=given)
    await settled()
    brought = await commands.client_results(
        person, done.thread, [ToolResultPart("k", "yes")], door="api", given={"onDisconnect": "continue"}
    )
    await kill(brought.run)
    assert [each.fate for each in await recover()] == ["continued"]
    await settled()
    kept = await transcript_of(done.thread)
    assert [part.content for message in kept for part in message.tool_results] == ["yes"]
    assert kept[-1].text == "Thank you."


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("UNIQUE constraint failed: chat_run.thread_id", Busy),
        ('duplicate key value violates unique constraint "chat_one_active_run_a_thread"', Busy),
        ("UNIQUE constraint failed: chat_run.thread_id, chat_run.public_id", Conflict),
        ('duplicate key value violates unique constraint "chat_run_id_in_thread"', Conflict),
        ("UNIQUE constraint failed: chat_thread.public_id", Missing),
        ('duplicate key value violates unique constraint "chat_thread_public_id_key"', Missing),
        ("FOREIGN KEY constraint failed", Missing),
    ],
)
def test_a_constraint_that_says_no_is_told_for_what_it_is(said, problem):
    assert type(acting._broken_by(IntegrityError(said), Missing)) is problem
