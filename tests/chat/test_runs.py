"""The promise of the whole: what was told = what is kept = what the model reads next."""

from __future__ import annotations

import asyncio
import threading
from functools import reduce

import pytest

from agent import ToolRegistry, tool
from agent.errors import ProviderUnreachable
from agent.events import RunError, RunFinished, Terminal, ToolCallResult
from agent.messages import Transcript, Usage
from agent.providers.scripted import Turn
from agent.reducer import apply
from chatsite.chat import commands, db, eventlog, store
from chatsite.chat.commands.values import Retry, Send, Stop
from chatsite.chat.models import Message, Run, RunEvent, Thread, ToolCall
from chatsite.chat.problems import Busy, Invalid, Missing, NothingToRetry, TooLong
from chatsite.chat.readers import cursors, following
from chatsite.chat.rows import kept_log
from tests.chat.conftest import row_of, until

WEATHER = [
    Turn(calls=[("c1", "get_weather", {"city": "San Francisco"})]),
    Turn(
        "Let me think. ", calls=[("c2", "get_clothing_advice", {"temperature": 62, "conditions": "cloudy"})]
    ),
    Turn("It is 62 degrees and cloudy: wear a light jacket.", delta_size=4),
]


async def begin(person, text="What should I wear in San Francisco today?", **more):
    return await commands.begin_thread(person, Send(text=text, **more), door="page")


async def told(done) -> list:
    channel = eventlog.channel_of(done.thread.pk)
    events = []
    async for heard in following.follow_run(channel, done.run.pk, done.run.public_id):
        events += [event for _, event in heard.events]
    return events


async def transcript_of(thread) -> Transcript:
    return await db.read(lambda: store.transcript_of(store.load_state(Thread.objects.get(pk=thread.pk))))


async def test_what_was_told_is_what_is_kept_and_what_the_model_reads_next(person, plays, settled):
    provider = plays(*WEATHER, Turn("Yes."))
    done = await begin(person)
    events = await told(done)
    await settled()

    kept = await transcript_of(done.thread)
    assert reduce(apply, events, Transcript()) == kept
    assert [message.role for message in kept] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]

    await commands.perform(person, done.thread.public_id, Send(text="Sure?"), door="page")
    await settled()
    assert provider.requests[-1].transcript.messages[:-1] == kept.messages


async def test_the_kept_log_is_the_told_log(person, plays, settled):
    plays(*WEATHER)
    done = await begin(person)
    events = await told(done)
    await settled()
    kept = await db.read(kept_log.events_after, done.run.pk, 0)
    assert [event for _, event in kept] == events
    assert [number for number, _ in kept] == list(range(1, len(events) + 1))


async def test_a_reader_in_the_middle_of_a_row_of_deltas_gets_just_the_rest(person, plays, settled):
    plays(Turn("one two three four five six", delta_size=3))
    done = await begin(person)
    events = await told(done)
    await settled()
    assert await db.read(lambda: RunEvent.objects.filter(run=done.run).count()) < len(events)
    for number in range(len(events) + 1):
        rest = await db.read(kept_log.events_after, done.run.pk, number)
        assert [event for _, event in rest] == events[number:]


async def test_each_run_has_one_terminal_event_and_each_call_one_result(person, plays, settled):
    plays(*WEATHER)
    done = await begin(person)
    events = await told(done)
    await settled()
    assert [isinstance(event, Terminal) for event in events].count(True) == 1
    assert isinstance(events[-1], RunFinished)
    results = [event.tool_call_id for event in events if isinstance(event, ToolCallResult)]
    assert len(results) == len(set(results)) == 2


async def test_every_finish_reason_is_stored_in_the_messages_metadata(person, plays, settled):
    plays(*WEATHER)
    done = await begin(person)
    await settled()
    rows = await db.read(lambda: list(Message.objects.filter(role="assistant").order_by("pk")))
    assert [row.metadata["finishReason"] for row in rows] == ["tool_calls", "tool_calls", "stop"]
    assert [row.finish_reason for row in rows] == ["tool_calls", "tool_calls", "stop"]
    assert rows[-1].metadata["stopReason"] == "stop"
    run = await row_of(done.run)
    assert (run.state, run.stop_reason, run.finish_reason, run.turns) == ("finished", "stop", "stop", 3)


async def test_the_ledger_says_what_became_of_each_call(person, plays, settled):
    plays(
        Turn(calls=[("good", "get_weather", {"city": "Oslo"}), ("bad", "get_weather", {"city": "Nowhere"})]),
        Turn("One of them failed."),
    )
    await begin(person)
    await settled()
    calls = {call.call_id: call for call in await db.read(lambda: list(ToolCall.objects.all()))}
    assert calls["good"].state == "done"
    assert calls["good"].claimed_at <= calls["good"].finished_at
    assert '"temperature":62' in calls["good"].result.replace(" ", "")
    assert (calls["bad"].state, calls["bad"].error_code) == ("failed", "tool_error")


async def test_a_call_is_claimed_in_the_rows_before_its_tool_starts(person, plays, settled, monkeypatch):
    seen = []

    def spy(city: str) -> str:
        """Looks at its own row."""
        seen.append(ToolCall.objects.get(call_id="c1").state)
        return "seen"

    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([tool(spy)]))
    plays(Turn(calls=[("c1", "spy", {"city": "Oslo"})]), Turn("ok"))
    await begin(person)
    await settled()
    assert seen == ["claimed"]


async def test_the_model_is_asked_on_while_a_result_is_kept_and_readers_wait_for_it(
    person, plays, settled, monkeypatch
):
    kept = threading.Event()
    ahead = []

    async def look(city: str) -> str:
        """Another writes when it is over, and is not ready for a while."""
        ahead.append(asyncio.ensure_future(db.write(kept.wait, 30)))
        return "seen"

    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([tool(look)]))
    provider = plays(Turn(calls=[("c1", "look", {"city": "Oslo"})]), Turn("ok"))
    done = await begin(person)
    active = eventlog.channel_of(done.thread.pk)
    try:
        await until(lambda: len(provider.requests) == 2 and isinstance(active.live.events[-1], RunFinished))
        assert provider.requests[1].transcript[-1].parts[0].content == "seen"
        shown = active.live.events[: active.live.shown]
        assert shown
        assert not any(isinstance(event, ToolCallResult) for event in shown)
    finally:
        kept.set()
    assert [type(event) for event in await told(done) if isinstance(event, ToolCallResult | RunFinished)] == [
        ToolCallResult,
        RunFinished,
    ]
    await settled()
    assert await asyncio.gather(*ahead) == [True]


async def test_no_tool_starts_before_the_result_of_the_turn_before_is_kept(
    person, plays, settled, monkeypatch
):
    seen = []

    def look(city: str) -> str:
        """Looks at all calls' rows."""
        seen.append(sorted(ToolCall.objects.values_list("call_id", "state")))
        return "seen"

    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([tool(look)]))
    plays(
        Turn(calls=[("c1", "look", {"city": "Oslo"})]),
        Turn(calls=[("c2", "look", {"city": "Rome"})]),
        Turn("ok"),
    )
    await begin(person)
    await settled()
    assert seen == [[("c1", "claimed")], [("c1", "done"), ("c2", "claimed")]]


async def test_a_stop_in_mid_answer_keeps_what_was_written(person, plays, settled):
    gate = asyncio.Event()
    provider = plays(Turn("The first half, the second half.", delta_size=4, gate=gate), Turn("Again."))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.shown > 3)
    await commands.perform(person, done.thread.public_id, Stop(), door="page")
    await settled()
    run = await row_of(done.run)
    assert (run.state, run.stop_reason) == ("cancelled", "cancelled")
    kept = await transcript_of(done.thread)
    assert kept[-1].role == "assistant"
    assert "The first half, the second half.".startswith(kept[-1].text)
    assert kept[-1].text
    assert provider.closed == 1
    await commands.perform(person, done.thread.public_id, Send(text="Go on"), door="page")
    await settled()
    assert (await transcript_of(done.thread))[-1].text == "Again."


async def test_a_stop_when_nothing_runs_is_no_error(person, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    again = await commands.perform(person, done.thread.public_id, Stop(), door="page")
    assert again.run is None


async def test_the_same_send_twice_makes_one_message_and_one_run(person, plays, settled):
    gate = asyncio.Event()
    plays(Turn("Hello.", gate=gate), Turn("Once."))
    first, second = await asyncio.gather(begin(person, client_id="m-1"), begin(person, client_id="m-1"))
    assert first.thread.pk == second.thread.pk
    assert first.run.pk == second.run.pk
    assert {first.fresh, second.fresh} == {True, False}
    gate.set()
    await settled()
    again = Send(text="And?", client_id="m-2")
    sent = await asyncio.gather(
        *(commands.perform(person, first.thread.public_id, again, door="page") for _ in range(3))
    )
    await settled()
    assert len({done.run.pk for done in sent}) == 1
    assert await db.read(lambda: Message.objects.filter(role="user").count()) == 2


async def test_a_second_message_while_a_run_is_active_is_refused_in_words_and_not_kept(
    person, plays, settled
):
    gate = asyncio.Event()
    plays(Turn("Hello there.", gate=gate))
    done = await begin(person)
    with pytest.raises(Busy, match="still being written"):
        await commands.perform(person, done.thread.public_id, Send(text="Hurry"), door="page")
    gate.set()
    await settled()
    assert await db.read(lambda: Message.objects.filter(role="user").count()) == 1


async def test_a_provider_that_fails_leaves_the_message_and_offers_retry(person, plays, settled):
    plays(Turn(error=ProviderUnreachable("The model's endpoint cannot be reached.")), Turn("Now it works."))
    done = await begin(person, "Hello?")
    events = await told(done)
    await settled()
    assert isinstance(events[-1], RunError)
    run = await row_of(done.run)
    assert (run.state, run.error_code, run.error) == (
        "failed",
        "provider_unreachable",
        "The model's endpoint cannot be reached.",
    )
    await commands.perform(person, done.thread.public_id, Retry(), door="page")
    await settled()
    kept = await transcript_of(done.thread)
    assert [(message.role, message.text) for message in kept] == [
        ("user", "Hello?"),
        ("assistant", "Now it works."),
    ]


async def test_retry_leaves_the_first_answer_in_the_rows_as_a_sibling(person, plays, settled):
    provider = plays(Turn("First."), Turn("Second."))
    done = await begin(person, "Hello?")
    await settled()
    await commands.perform(person, done.thread.public_id, Retry(), door="page")
    await settled()
    assert [message.text for message in await transcript_of(done.thread)] == ["Hello?", "Second."]
    assert [message.text for message in provider.requests[-1].transcript] == ["Hello?"]
    siblings = await db.read(
        lambda: list(Message.objects.filter(role="assistant").values_list("parent", "text"))
    )
    assert len({parent for parent, _ in siblings}) == 1
    assert {text for _, text in siblings} == {"First.", "Second."}


async def test_retry_in_an_empty_thread_says_so(person, plays):
    thread = await db.write(lambda: Thread.objects.create(owner=person))
    with pytest.raises(NothingToRetry):
        await commands.perform(person, thread.public_id, Retry(), door="page")


@pytest.mark.parametrize(
    ("text", "problem", "words"),
    [
        ("", Invalid, "empty"),
        (" \n\t ", Invalid, "empty"),
        ("x" * 2_000_000, TooLong, "2,000,000 characters; 100,000 is the most"),
        ("a\x00b", Invalid, "NUL"),
        ("a\ud800b", Invalid, "surrogate"),
    ],
)
async def test_what_cannot_be_sent_is_refused_in_words_and_makes_no_thread(
    person, plays, text, problem, words
):
    with pytest.raises(problem, match=words):
        await begin(person, text)
    assert await db.read(Thread.objects.count) == 0


async def test_another_users_thread_does_not_exist(person, stranger, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    for command in (Send(text="Hello"), Stop(), Retry()):
        with pytest.raises(Missing):
            await commands.perform(stranger, done.thread.public_id, command, door="page")


async def test_a_deactivated_user_has_no_threads(person, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    person.is_active = False
    with pytest.raises(Missing):
        await commands.perform(person, done.thread.public_id, Stop(), door="page")


async def test_closing_every_reader_does_not_end_the_run(person, plays, settled):
    gate = asyncio.Event()
    plays(Turn("The whole answer.", delta_size=4, gate=gate))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    reader = following.follow_run(channel, done.run.pk, done.run.public_id)
    await anext(reader)
    await reader.aclose()
    gate.set()
    await settled()
    assert (await row_of(done.run)).state == Run.State.FINISHED
    assert (await transcript_of(done.thread))[-1].text == "The whole answer."


async def test_the_state_in_memory_and_the_state_in_the_rows_are_one(person, plays, settled):
    gate = asyncio.Event()
    plays(WEATHER[0], WEATHER[1], Turn("It is 62 degrees.", delta_size=2, gate=gate))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.events and channel.active.shown > 12)
    async with asyncio.timeout(60):
        while True:
            live = await following.state_now(channel, done.thread)
            rows = await db.read(lambda: store.load_state(Thread.objects.get(pk=done.thread.pk)))
            if rows.cursor == live.cursor:
                break
            await asyncio.sleep(0.02)
    assert rows == live
    gate.set()
    await settled()


async def test_the_state_in_memory_and_in_the_rows_are_one_also_at_the_end(person, plays, settled):
    plays(*WEATHER[:2], Turn("It is 62 degrees.", usage=Usage(7, 5)))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await settled()
    assert channel.live is not None
    rows = await db.read(lambda: store.load_state(Thread.objects.get(pk=done.thread.pk)))
    assert channel.live.state() == rows
    assert rows.segments[-1].run.duration_ms is not None


async def test_a_state_up_to_a_cursor_is_what_a_reader_saw_there(person, plays, settled):
    plays(Turn("Before."), *WEATHER)
    done = await begin(person, "Hello")
    await settled()
    done = await commands.perform(person, done.thread.public_id, Send(text="Weather?"), door="page")
    events = await told(done)
    await settled()
    before = await db.read(lambda: store.load_state(Thread.objects.get(pk=done.thread.pk)))
    for number in range(1, len(events) + 1):
        cursor = cursors.Cursor(done.run.public_id, number)
        state = await db.read(lambda at=cursor: store.load_state(Thread.objects.get(pk=done.thread.pk), at))
        assert state.cursor == str(cursor)
        earlier = Transcript(before.segments[0].messages)
        assert store.transcript_of(state) == reduce(apply, events[:number], earlier)
