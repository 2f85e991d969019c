"""An ended run's log is folded and pruned, and whoever holds a cursor into it never notices."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import reduce

import pytest
from django.core.management import call_command
from django.utils import timezone

from agent.events import MessagesSnapshot, RunFinished, RunStarted, Terminal
from agent.messages import Transcript
from agent.providers.scripted import Turn
from agent.reducer import apply
from chatsite.chat import commands, db, eventlog
from chatsite.chat.care import upkeep
from chatsite.chat.commands.values import Retry, Send
from chatsite.chat.models import Run, RunEvent
from chatsite.chat.readers import following
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.rows import kept_log
from chatsite.chat.runs import recorder
from tests.agent.agui_validation import assert_valid_run
from tests.chat.conftest import row_of, until
from tests.chat.test_api import frames
from tests.chat.test_runs import WEATHER, begin, transcript_of

# The first request of a fresh ASGI thread may open connections that the collector closes later.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

TEXT = "Each of these words (日本語, a 👍🏽, naïveté) came in a batch of its own, for the answer was slow to come. "


async def answered(person, plays, settled, *turns, text="Hello?"):
    """A run that has ended, its text in many batches."""
    plays(*(turns or (Turn(TEXT, delta_size=3),)))
    done = await begin(person, text)
    await settled()
    await db.write(split, done.run.pk)
    return done


def split(run_pk: int) -> None:
    """Keep the log as it is when each delta came in a batch of its own."""
    for row in RunEvent.objects.filter(run=run_pk):
        if isinstance(row.data.get("delta"), list):
            RunEvent.objects.bulk_create(
                RunEvent(run_id=run_pk, first=number, number=number, type=row.type, data=data)
                for number, event in kept_log._events_of(row)
                if number < row.number
                for data in [{**row.data, "delta": event.delta}]
            )
            row.first, row.data = row.number, {**row.data, "delta": row.data["delta"][-1]}
            row.save()


async def all_steps(count: int = 10_000) -> int:
    taken = 0
    while taken < count and await db.aside(upkeep.step):
        taken += 1
    return taken


async def age(run: Run, days: float) -> None:
    row = await row_of(run)
    back = row.finished_at - timezone.now() + timedelta(days=days)
    row.created_at, row.finished_at = row.created_at - back, row.finished_at - back
    await db.write(row.save)


async def events_of(done, after: int = 0) -> list:
    return await db.read(kept_log.events_after, done.run.pk, after)


async def rows_of(done) -> int:
    return await db.read(RunEvent.objects.filter(run=done.run).count)


async def test_a_folded_log_has_the_same_events_under_the_same_numbers(person, plays, settled):
    done = await answered(person, plays, settled, *WEATHER, text="What should I wear in San Francisco?")
    before, many = await events_of(done), await rows_of(done)
    assert await all_steps() > 0
    assert await events_of(done) == before
    assert await rows_of(done) < many - 10
    assert (await row_of(done.run)).log == "folded"
    for number in range(len(before) + 1):
        assert await events_of(done, number) == before[number:]
    assert await all_steps() == 0, "once is enough"


async def test_folding_stops_anywhere_and_goes_on_from_there(person, plays, settled, monkeypatch):
    monkeypatch.setattr(upkeep, "ROWS_A_STEP", 4)
    done = await answered(person, plays, settled)
    before = await events_of(done)
    while await all_steps(1):
        assert await events_of(done) == before
    [text] = await db.read(lambda: list(RunEvent.objects.filter(type="TEXT_MESSAGE_CONTENT")))
    assert text.data["delta"] == TEXT
    lines = [row.type for row in await db.read(lambda: list(RunEvent.objects.order_by("number")))]
    assert lines.count("TEXT_MESSAGE_CONTENT") == 1


async def test_what_another_entity_came_between_is_not_one_line(person, plays, settled):
    calls = [("c1", "get_weather", {"city": "Oslo"}), ("c2", "get_weather", {"city": "Bergen"})]
    done = await answered(person, plays, settled, Turn("First.", calls=calls), Turn("Then."))
    before = await events_of(done)
    await all_steps()
    assert await events_of(done) == before


async def test_the_log_of_a_run_at_work_is_left_alone(person, plays, settled, monkeypatch):
    monkeypatch.setattr(recorder, "KEEP_WITHIN", 0.01)
    gate = asyncio.Event()
    plays(Turn(TEXT, delta_size=3, gate=gate))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.shown > 3)
    assert await all_steps() == 0
    gate.set()
    await settled()
    assert await all_steps() > 0


async def test_a_log_is_pruned_when_its_days_are_over_and_not_before(person, plays, settled, settings):
    settings.EVENTS_KEEP_DAYS = 2
    done = await answered(person, plays, settled)
    await age(done.run, 1.9)
    await all_steps()
    assert (await row_of(done.run)).log == "folded"
    await age(done.run, 2.1)
    await all_steps()
    assert (await row_of(done.run)).log == "pruned"
    assert await rows_of(done) == 1
    settings.EVENTS_KEEP_DAYS = 1e300
    await age(done.run, 30_000)
    assert await all_steps() == 0


async def pruned(person, plays, settled, *turns, text="Hello?"):
    done = await answered(person, plays, settled, *turns, text=text)
    before = await events_of(done)
    await age(done.run, 31)
    await all_steps()
    assert await rows_of(done) == 1
    return done, before


async def test_from_any_cursor_of_a_pruned_log_a_reader_comes_to_the_same_transcript(person, plays, settled):
    done, before = await pruned(person, plays, settled, *WEATHER, text="What should I wear?")
    whole = await transcript_of(done.thread)
    last = before[-1][0]
    for number in range(last + 1):
        seen = reduce(apply, (event for at, event in before if at <= number), Transcript())
        rest = await events_of(done, number)
        assert reduce(apply, (event for _, event in rest), seen).messages == whole.messages, number
        assert [at for at, _ in rest] == sorted(at for at, _ in rest)
        ends = [event for _, event in rest if isinstance(event, Terminal)]
        assert ends == ([before[-1][1]] if number < last else [])
    assert await db.read(kept_log.last_number, done.run.pk) == last


async def test_a_pruned_run_is_replayed_over_the_api(http, key, person, plays, settled):
    done, before = await pruned(person, plays, settled)
    headers = {"Authorization": f"Bearer {key}"}
    answer = await http.get("/api/chat", params={"runId": done.run.public_id}, headers=headers)
    events = frames(answer.text)
    assert_valid_run(events)
    assert [event["type"] for event in events] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert [message["content"] for message in events[1]["messages"]] == ["Hello?", TEXT]
    middle = {**headers, "Last-Event-ID": str(Cursor(done.run.public_id, len(before) // 2))}
    again = frames((await http.get(f"/api/chat?runId={done.run.public_id}", headers=middle)).text)
    assert [event["type"] for event in again] == ["MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    end = {**headers, "Last-Event-ID": str(Cursor(done.run.public_id, before[-1][0]))}
    assert frames((await http.get(f"/api/chat?runId={done.run.public_id}", headers=end)).text) == []


async def test_a_page_with_a_cursor_of_a_pruned_run_is_drawn_from_the_rows(person, plays, settled):
    done = await answered(person, plays, settled)
    channel, last = eventlog.channel_of(done.thread.pk), (await events_of(done))[-1][0]
    cursors = [Cursor(done.run.public_id, number) for number in range(1, last + 1)]
    shown = await following.state_at(channel, done.thread, cursors[-1])
    await age(done.run, 31)
    await all_steps()
    assert await following.state_at(channel, done.thread, cursors[-1]) == shown
    assert (await following.state_now(channel, done.thread)).cursor == str(cursors[-1])
    assert await following.state_at(channel, done.thread, cursors[last // 2]) is None


async def test_a_follower_in_the_middle_of_a_log_that_is_pruned_hears_the_end(person, plays, settled):
    done = await answered(person, plays, settled, Turn(TEXT, delta_size=3), Turn("Two."))
    await commands.perform(person, done.thread.public_id, Send(text="And?"), door="page")
    await settled()
    await age(done.run, 31)
    await all_steps()
    heard = []
    async for batch in following.follow_events(done.thread, Cursor(done.run.public_id, 5)):
        heard += [event for _, event in batch.events]
        if sum(isinstance(event, Terminal) for event in heard) == 2:
            break
    assert isinstance(heard[0], MessagesSnapshot)
    assert [message.text for message in heard[0].messages] == ["Hello?", TEXT]
    assert isinstance(heard[1], RunFinished)
    assert isinstance(heard[2], RunStarted)


async def test_a_pruned_run_whose_question_was_asked_anew_tells_its_end(person, plays, settled):
    done = await answered(person, plays, settled, Turn("One."), Turn("Two."))
    await commands.perform(person, done.thread.public_id, Retry(), door="page")
    await settled()
    await age(done.run, 31)
    await all_steps()
    events = [event for _, event in await events_of(done)]
    assert [message.text for message in events[1].messages] == ["Hello?", "One."]
    assert isinstance(events[-1], RunFinished)
    assert [message.text for message in await transcript_of(done.thread)] == ["Hello?", "Two."]


async def test_the_command_does_all_of_it_at_once(person, plays, settled, capsys):
    done = await answered(person, plays, settled)
    await age(done.run, 31)
    await asyncio.to_thread(upkeep_command)
    assert "Done, in" in capsys.readouterr().out
    assert await rows_of(done) == 1
    await asyncio.to_thread(upkeep_command)
    assert "nothing to do" in capsys.readouterr().out


def upkeep_command() -> None:
    from django.db import connection

    try:
        call_command("upkeep")
    finally:
        connection.close()


async def test_two_processes_share_the_work_and_do_none_of_it_twice(person, plays, settled):
    done = []
    for _ in range(4):
        done.append(await answered(person, plays, settled))
    before = [await events_of(each) for each in done]
    await asyncio.gather(*(asyncio.to_thread(upkeep_command) for _ in range(3)))
    assert [await events_of(each) for each in done] == before
    assert await db.read(Run.objects.filter(log="folded").count) == len(done)


async def test_the_server_does_it_by_itself(person, plays, settled, monkeypatch):
    monkeypatch.setattr(upkeep, "EVERY", 0.01)
    done = await answered(person, plays, settled)
    house = asyncio.create_task(upkeep.keep_house())
    async with asyncio.timeout(20):
        while (await row_of(done.run)).log != "folded":  # noqa: ASYNC110 (a row is no event)
            await asyncio.sleep(0.01)
    house.cancel()
    await asyncio.gather(house, return_exceptions=True)
