"""A run whose process died gets its end, and its thread is usable again."""

from __future__ import annotations

import asyncio
import os

import pytest
from django.utils import timezone

from agent.events import RunError
from agent.messages import open_calls
from agent.providers.scripted import Turn
from chatsite.chat import commands, db
from chatsite.chat.commands.values import Retry
from chatsite.chat.models import Run, RunEvent, Thread, ToolCall
from chatsite.chat.process import heartbeat, rounds
from chatsite.chat.process.heartbeat import Beat, Watch
from chatsite.chat.readers import cursors
from chatsite.chat.rows import kept_log
from chatsite.chat.runs import keeping, unfinished
from tests.chat.conftest import recover, row_of
from tests.chat.dying import dead_owner, killed_in_mid_answer
from tests.chat.test_runs import begin, transcript_of


async def test_a_run_of_a_dead_process_is_closed_and_what_it_wrote_is_kept(person, plays, settled):
    answer = Turn("What was written so far, and the rest.")
    done, _ = await killed_in_mid_answer(person, plays, answer, door="api")
    assert [each.fate for each in await recover()] == ["lost"]
    run = await row_of(done.run)
    assert (run.state, run.error_code) == ("lost", "lost")
    assert "tried again" in run.error
    kept = await transcript_of(done.thread)
    assert "What was written so far, and the rest.".startswith(kept[-1].text)
    assert kept[-1].text
    assert kept[-1].finish_reason is None
    events = await db.read(kept_log.events_after, done.run.pk, 0)
    assert isinstance(events[-1][1], RunError)
    assert events[-1][0] - events[-2][0] == unfinished.READERS_AHEAD


async def test_a_reader_that_was_ahead_of_the_rows_hears_the_end_too(person, plays, settled):
    from chatsite.chat import eventlog
    from chatsite.chat.readers import following

    answer = Turn("What was written so far, and the rest.")
    done, _ = await killed_in_mid_answer(person, plays, answer, door="api")
    ahead = await db.read(kept_log.last_number, done.run.pk) + 7  # told, and lost with the server
    await recover()
    channel = eventlog.channel_of(done.thread.pk)
    heard = [heard async for heard in following.follow_run(channel, done.run.pk, done.run.public_id, ahead)]
    assert isinstance(heard[-1].events[-1][1], RunError)
    cursor = cursors.Cursor(done.run.public_id, ahead)
    assert await following.state_at(channel, done.thread, cursor) is None  # so its page is drawn anew


async def test_a_cursor_that_no_log_had_is_told_everything(person, plays, settled):
    from chatsite.chat import eventlog
    from chatsite.chat.readers import following

    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    for live in (True, False):
        channel = eventlog.channel_of(done.thread.pk)
        if not live:
            channel.live = None
        follow = following.follow_run(channel, done.run.pk, done.run.public_id, 9_999_999)
        heard = [event async for heard in follow for _, event in heard.events]
        assert type(heard[0]).__name__ == "RunStarted"
        assert type(heard[-1]).__name__ == "RunFinished"


async def test_the_thread_of_a_lost_run_can_be_used_again(person, plays, settled):
    done, _ = await killed_in_mid_answer(person, plays, Turn("Half of it, and the rest."), door="api")
    await recover()
    plays(Turn("All of it."))
    await commands.perform(person, done.thread.public_id, Retry(), door="page")
    await settled()
    assert [message.text for message in await transcript_of(done.thread)] == ["Hello?", "All of it."]


async def test_a_claimed_call_of_a_dead_process_has_one_result_outcome_unknown(person, plays, settled):
    asks = Turn(calls=[("c1", "get_weather", {"city": "Oslo"})])
    done, _ = await killed_in_mid_answer(person, plays, asks, Turn("Half, and the rest."), door="api")
    await db.write(
        lambda: RunEvent.objects.filter(run=done.run, number__gt=first_result(done.run) - 1).delete()
    )
    await db.write(lambda: done.run.messages.filter(role="tool").delete())
    await db.write(lambda: ToolCall.objects.update(state="claimed", result="", finished_at=None))
    await recover()
    call = await db.read(ToolCall.objects.get)
    assert (call.state, call.error_code) == ("unknown", "outcome_unknown")
    assert call.claimed_at is not None
    assert "may have happened" in call.result
    kept = await transcript_of(done.thread)
    assert open_calls(kept) == ()
    assert [part.error for message in kept for part in message.tool_results] == ["outcome_unknown"]


def first_result(run: Run) -> int:
    return RunEvent.objects.filter(run=run, type="TOOL_CALL_RESULT").order_by("number").first().number


def beats_of(*counts: int) -> list[list[Beat]]:
    return [[Beat(1, "another-machine/1:7:x", count)] for count in counts]


def test_a_run_whose_beat_stands_still_for_long_enough_is_lost():
    watch = Watch()
    lost = [
        watch.look(beats, now) for beats, now in zip(beats_of(*[5] * 5), (0, 10, 20, 29, 31), strict=True)
    ]
    assert lost == [[], [], [], [], beats_of(5)[0]]


def test_a_run_that_beats_is_never_lost_however_seldom_one_looks():
    watch = Watch()
    for number, beats in enumerate(beats_of(*range(20))):
        assert watch.look(beats, number * 3600.0) == []


def test_who_slept_itself_takes_nobody_for_lost():
    """The whole machine may have slept: the others had no time to beat either."""
    watch = Watch()
    assert watch.look(beats_of(5)[0], 0) == []
    assert watch.look(beats_of(5)[0], 100_000) == []
    assert watch.look(beats_of(6)[0], 100_010) == []


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_jumps_an_hour_loses_no_run(person, plays, settled, monkeypatch, hours):
    gate = asyncio.Event()
    plays(Turn("All of it.", gate=gate))
    done = await begin(person)
    elsewhere = "another-machine/1:7:x"
    await db.write(lambda: Run.objects.filter(pk=done.run.pk).update(owner=elsewhere))
    now = timezone.now
    watch = Watch()
    assert await rounds.recover_lost(watch) == []
    jumped = now() + timezone.timedelta(hours=hours)
    monkeypatch.setattr(timezone, "now", lambda: jumped)
    assert await rounds.recover_lost(watch) == []
    assert (await row_of(done.run)).state == "running"
    monkeypatch.setattr(timezone, "now", now)
    await db.write(lambda: Run.objects.filter(pk=done.run.pk).update(owner=done.run.owner))
    gate.set()
    await settled()
    assert (await row_of(done.run)).state == "finished"


def test_an_owner_is_dead_only_when_that_is_certain():
    machine = heartbeat.MACHINE
    assert not heartbeat.owner_is_dead(heartbeat.PROCESS)
    assert not heartbeat.owner_is_dead("another-machine/1:1:x")
    assert not heartbeat.owner_is_dead("")
    assert not heartbeat.owner_is_dead(f"{machine}:1:x")
    assert heartbeat.owner_is_dead(dead_owner())
    assert heartbeat.owner_is_dead(f"{machine}:{os.getpid()}:an-earlier-process")


async def test_a_stop_that_came_in_by_another_process_is_heard(person, plays, settled, monkeypatch):
    monkeypatch.setattr(rounds, "ROUND_EVERY", 0.01)
    gate = asyncio.Event()
    plays(Turn("Never finished.", gate=gate))
    done = await begin(person)
    await db.write(lambda: Run.objects.filter(pk=done.run.pk).update(stop_requested=True))
    await settled()
    assert (await row_of(done.run)).state == "cancelled"


async def test_a_reader_here_hears_of_a_run_of_another_process(person, plays, settled, monkeypatch):
    from chatsite.chat.readers import stream

    monkeypatch.setattr(rounds, "ROUND_EVERY", 0.01)
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    rounds.begin()
    heard = stream.html_changes(done.thread, None)
    assert "<i id=live hidden></i>" in (await anext(heard)).html
    await db.write(
        lambda: Run.objects.create(
            thread=done.thread, state="running", owner="elsewhere/1:1:x", heartbeat_at=timezone.now()
        )
    )
    async with asyncio.timeout(60):
        assert "<i id=live hidden class=on>" in (await anext(heard)).html
    await heard.aclose()
    await db.write(lambda: Run.objects.filter(owner="elsewhere/1:1:x").update(state="failed"))


@pytest.mark.parametrize("text", ["a\x00b", "half \ud83d a face"])
async def test_what_no_database_can_store_is_mended_before_it_is_told(person, plays, settled, text):
    plays(Turn(text, delta_size=1))
    done = await begin(person)
    await settled()
    assert (await row_of(done.run)).state == "finished"
    kept = (await transcript_of(done.thread))[-1].text
    assert "\x00" not in kept
    assert kept.encode() is not None


async def test_a_database_that_refuses_for_a_moment_costs_nothing(person, plays, settled, monkeypatch):
    from django.db import OperationalError

    from chatsite.chat.runs import recorder

    refusals = iter([OperationalError("database is locked")] * 2)
    keep = keeping.keep

    def refuse_twice(batches):
        for error in refusals:
            raise error
        return keep(batches)

    monkeypatch.setattr(recorder, "RETRY_AFTER", (0, 0, 0))
    monkeypatch.setattr(keeping, "keep", refuse_twice)
    plays(Turn("All is kept."))
    done = await begin(person)
    await settled()
    assert (await row_of(done.run)).state == "finished"
    assert (await transcript_of(done.thread))[-1].text == "All is kept."


async def test_a_database_that_stays_away_ends_the_run_in_words_when_it_is_back(
    person, plays, settled, monkeypatch
):
    from django.db import OperationalError

    from chatsite.chat.runs import recorder

    keep = keeping.keep

    def refuse_the_recorder(batches):
        if not isinstance(batches[-1].events[-1], RunError):
            raise OperationalError("disk I/O error")
        return keep(batches)

    monkeypatch.setattr(recorder, "RETRY_AFTER", (0, 0))
    monkeypatch.setattr(keeping, "keep", refuse_the_recorder)
    plays(Turn("Not kept."))
    done = await begin(person)
    await settled()
    run = await row_of(done.run)
    assert (run.state, run.error_code) == ("failed", "internal_error")
    assert [message.role for message in await transcript_of(done.thread)] == ["user"]
    assert await db.read(lambda: Thread.objects.get().runs.filter(state__in=Run.ACTIVE).count()) == 0
