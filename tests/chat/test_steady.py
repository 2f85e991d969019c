"""What must hold at the worst moment: a stop in mid commit, a browser that leaves, a process that wakes up late."""

from __future__ import annotations

import asyncio
import random
import threading
from datetime import timedelta

import pytest
from django.db import IntegrityError, OperationalError, transaction
from django.utils import timezone

from agent.events import RunError, RunFinished, Terminal
from agent.providers.scripted import Turn
from chatsite.chat import access, commands, db, eventlog, runner
from chatsite.chat.access import Credential
from chatsite.chat.commands.values import Answer, Forget, Send, Stop
from chatsite.chat.models import ApprovalRule, Message, Run, Thread, ToolCall
from chatsite.chat.problems import Conflict
from chatsite.chat.process import draining, heartbeat, rounds
from chatsite.chat.readers import stream
from chatsite.chat.rows import kept_log
from chatsite.chat.runs import keeping
from tests.chat.conftest import recover, row_of, until
from tests.chat.dying import dead_owner
from tests.chat.test_approvals import ASKS, MAIL, asked, yes
from tests.chat.test_runs import begin, transcript_of


async def test_a_stop_while_a_call_is_claimed_is_a_stop_and_no_failure(person, plays, settled):
    chance = random.Random(7)
    for _ in range(40):
        plays(Turn(calls=[("c1", "get_weather", {"city": "Oslo"})]), Turn("It is 62."))
        done = await begin(person)
        channel = eventlog.channel_of(done.thread.pk)
        await until(
            lambda channel=channel: channel.active is None or channel.active.transcript[-1].tool_calls
        )
        await asyncio.sleep(chance.random() * 0.004)
        await commands.perform(person, done.thread.public_id, Stop(), door="page")
        await settled()
        run = await row_of(done.run)
        assert run.state in {"cancelled", "finished"}, (run.state, run.error)
        events = [event for _, event in await db.read(kept_log.events_after, done.run.pk, 0)]
        assert [isinstance(event, Terminal) for event in events].count(True) == 1
        await db.write(Thread.objects.all().delete)


async def test_a_write_is_carried_out_though_its_caller_is_cancelled(person):
    free = threading.Event()
    first = asyncio.ensure_future(db.write(free.wait, 30))
    second = asyncio.ensure_future(db.write(Thread.objects.create, owner=person, title="kept"))
    await asyncio.sleep(0)  # both have asked
    second.cancel()
    free.set()
    assert await first
    await db.write(lambda: None)  # what was asked for before this is done
    assert second.cancelled()
    assert await db.read(Thread.objects.filter(title="kept").count) == 1


async def test_a_browser_that_leaves_during_the_commit_leaves_a_run_that_works(
    person, plays, settled, monkeypatch
):
    committing = asyncio.Event()
    go_on = asyncio.Event()
    write = db.write

    async def slow_write(job, *args, **kwargs):
        result = await write(job, *args, **kwargs)
        if getattr(job, "__name__", "") == "open_thread":
            committing.set()
            await go_on.wait()
        return result

    monkeypatch.setattr(db, "write", slow_write)
    gate = asyncio.Event()
    plays(Turn("Here all the same.", gate=gate))
    request = asyncio.ensure_future(begin(person, client_id="m1"))
    await committing.wait()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    go_on.set()
    await until(lambda: runner.running_here())
    gate.set()
    await settled()
    run = await db.read(Run.objects.get)
    assert run.state == "finished"


async def test_a_process_that_was_taken_for_dead_writes_nothing_more(person, plays, settled):
    gate = asyncio.Event()
    plays(Turn("The first half, the second half.", delta_size=4, gate=gate), Turn("The second answer."))
    done = await begin(person, "Hello?")
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.active and channel.active.shown > 3)
    owner = dead_owner()
    await db.write(lambda: Run.objects.filter(pk=done.run.pk).update(owner=owner, continuation="automatic"))
    assert [each.fate for each in await recover()] == ["lost"]
    gate.set()
    await settled()
    run = await row_of(done.run)
    assert run.state == "lost"
    events = [event for _, event in await db.read(kept_log.events_after, done.run.pk, 0)]
    assert [type(event) for event in events if isinstance(event, Terminal)] == [RunError]
    await commands.perform(person, done.thread.public_id, Send(text="Again?"), door="page")
    await settled()
    assert [message.text for message in await transcript_of(done.thread)][-2:] == [
        "Again?",
        "The second answer.",
    ]


async def test_a_batch_of_a_run_that_has_its_end_is_refused(person, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    batch = keeping.Batch(
        run_pk=done.run.pk,
        thread_pk=done.thread.pk,
        head=None,
        first=99,
        events=(RunFinished("t", "r", timestamp=1),),
        owner=heartbeat.PROCESS,
    )
    with pytest.raises(keeping.RunTaken):
        await db.write(keeping.keep, [batch])


async def test_a_round_does_not_take_the_log_of_a_run_that_just_began(person, plays, settled, monkeypatch):
    plays(Turn("Hi."), Turn("Again.", gate=(gate := asyncio.Event())))
    done = await begin(person)
    await settled()
    channel = eventlog.channel_of(done.thread.pk)
    news_of = rounds._news_of

    def slow(pks):
        found = news_of(pks)
        asyncio.run_coroutine_threadsafe(begins(), loop).result(60)
        return found

    async def begins():
        await commands.perform(person, done.thread.public_id, Send(text="More"), door="page")
        await until(lambda: channel.active)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(rounds, "_news_of", slow)
    await rounds._wake_readers({})
    assert channel.active is not None
    gate.set()
    await settled()


async def test_a_rule_that_is_taken_back_holds_for_the_run_at_work(person, plays, settled):
    gate = asyncio.Event()
    plays(ASKS, Turn("Again.", calls=[("c2", "send_email", MAIL)], gate=gate), Turn("Well."))
    done, rows = await asked(person, settled)
    answer = Answer(answers=[yes(rows[0], always=True)])
    await commands.perform(person, done.thread.public_id, answer, door="page")
    await until(lambda: runner.running_here())
    await commands.perform(person, done.thread.public_id, Forget(tool="send_email"), door="websocket")
    gate.set()
    await settled()
    assert await db.read(ApprovalRule.objects.count) == 0
    call = await db.read(lambda: ToolCall.objects.get(call_id="c2"))
    assert (call.state, call.claimed_at) == ("waiting", None)


async def test_a_database_that_is_away_for_a_moment_ends_no_open_stream(person, monkeypatch):
    monkeypatch.setattr(eventlog, "LOOK_UP", 0)
    recheck = stream.Recheck(Credential(key="k"), "t")

    def away(*_):
        raise OperationalError("database is locked")

    monkeypatch.setattr(access, "may_still_read", away)
    assert await recheck.holds()
    monkeypatch.setattr(access, "may_still_read", lambda *_: False)
    assert not await recheck.holds()


async def test_runs_at_work_beat(person, plays, settled):
    plays(Turn("Hi.", gate=(gate := asyncio.Event())))
    done = await begin(person)
    late = timezone.now() - timedelta(minutes=5)
    await db.write(lambda: Run.objects.filter(pk=done.run.pk).update(heartbeat_at=late))
    await rounds._beat()
    run = await row_of(done.run)
    assert run.state == "running"
    assert run.heartbeat_at > late
    gate.set()
    await settled()


async def test_a_change_between_the_look_and_the_wait_is_not_slept_through(monkeypatch):
    monkeypatch.setattr(eventlog, "LOOK_UP", 60)
    channel = eventlog.Channel(1)
    seen = channel.version
    channel.tell()
    async with asyncio.timeout(20):
        assert await channel.changed(seen)


async def test_readers_that_left_leave_nothing_behind():
    channel = eventlog.Channel(1)
    waiting = [asyncio.ensure_future(channel.changed(channel.version)) for _ in range(10)]
    await until(lambda: len(channel._waiting) == 10)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert channel._waiting == []


async def test_a_run_that_cannot_be_read_keeps_no_other_from_its_end(person, plays, settled):
    from chatsite.chat.models import RunEvent

    owner = dead_owner()
    for name in ("bad", "good"):
        thread = await db.write(lambda name=name: Thread.objects.create(owner=person, public_id=name))
        run = await db.write(
            lambda thread=thread: Run.objects.create(thread=thread, state="running", owner=owner, door="api")
        )
        if name == "bad":
            strange = RunEvent(run=run, first=1, number=1, type="STRANGE", data={"type": "STRANGE"})
            await db.write(strange.save)
    assert len(await recover()) == 2
    assert {run.state for run in await db.read(lambda: list(Run.objects.all()))} == {"lost"}


async def test_a_known_client_id_with_another_text_is_a_conflict_and_loses_nothing(person, plays, settled):
    plays(Turn("Hi."), Turn("Two."))
    done = await begin(person)
    await settled()
    again = Send(text="One", client_id="m2")
    await commands.perform(person, done.thread.public_id, again, door="page")
    await settled()
    with pytest.raises(Conflict, match="another text"):
        await commands.perform(
            person, done.thread.public_id, Send(text="One and more", client_id="m2"), door="page"
        )


@pytest.mark.parametrize("text", ["\ud800", "a\x00b"])
async def test_what_no_database_stores_in_an_answer_is_mended(person, plays, settled, text):
    from chatsite.chat.commands.values import OneAnswer

    plays(ASKS, Turn("Well."))
    done, rows = await asked(person, settled)
    denial = OneAnswer(interrupt_id=rows[0].public_id, status="denied", reason=f"no {text}")
    await commands.perform(person, done.thread.public_id, Answer(answers=[denial]), door="page")
    await settled()
    assert (await db.read(lambda: ToolCall.objects.get())).state == "denied"


def open_alone(owner, gate, begun):
    """A first send on a connection of its own, as another process would take it."""
    from django.db import connection, transaction

    from agent.messages import user_message
    from chatsite.chat import actions
    from chatsite.chat.actions import starting

    gate.wait()
    try:
        with transaction.atomic():
            done = actions.open_thread(
                owner=owner,
                public_id=None,
                message=user_message("m1", "Hi"),
                client_id="m1",
                start=starting.Start("demo", heartbeat.PROCESS, "page"),
            )
        begun.append((done.thread.pk, done.fresh))
    finally:
        connection.close()


async def test_a_double_click_that_two_processes_take_makes_one_thread(person):
    import threading

    for _ in range(5):
        gate, begun = threading.Barrier(2), []
        clicks = [threading.Thread(target=open_alone, args=(person, gate, begun)) for _ in range(2)]
        for click in clicks:
            click.start()
        for click in clicks:
            await asyncio.to_thread(click.join)
        assert len({pk for pk, _ in begun}) == 1, begun
        assert sorted(fresh for _, fresh in begun) == [False, True]
        await db.write(Run.objects.all().delete)
        await db.write(Thread.objects.all().delete)


TWINS = {
    "two active runs in a thread": lambda run, thread: Run(thread=thread, state=Run.State.QUEUED),
    "two messages of one client id": lambda run, thread: Message(
        thread=thread, role="user", client_id="sent"
    ),
    "two calls of one id in a run": lambda run, thread: ToolCall(run=run, call_id="c1", name="get_weather"),
}


@pytest.mark.parametrize("twins", TWINS)
async def test_the_rows_themselves_refuse(twins, person):
    """Whatever the code does, and in whichever process."""

    def make() -> None:
        thread = Thread.objects.create(owner=person)
        run = Run.objects.create(thread=thread, state=Run.State.RUNNING)
        if twins != "two active runs in a thread":
            TWINS[twins](run, thread).save(force_insert=True)
        with pytest.raises(IntegrityError), transaction.atomic():
            TWINS[twins](run, thread).save(force_insert=True)
        # An ended run is in nobody's way.
        Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
        Run.objects.create(thread=thread, state=Run.State.QUEUED)

    await db.write(make)


def test_readers_that_are_told_to_come_back_do_not_all_come_at_once():
    """When a server goes it tells all of its readers in one moment."""
    when = [draining.back_after_ms() for _ in range(200)]
    least, most = draining.BACK_WITHIN_MS
    assert all(least <= each <= most for each in when)
    assert max(when) - min(when) > (most - least) / 2


async def test_who_asked_for_a_run_hears_first_and_followers_in_groups():
    """Between two groups the loop has a turn for everybody else; whoever is woken late misses nothing."""
    channel = eventlog.Channel(-1)
    heard = []

    async def read(name: str, first: bool = False) -> None:
        assert await channel.changed(0, first=first)
        heard.append((name, channel.version))

    readers = [asyncio.ensure_future(read(f"follower {number}")) for number in range(12)]
    readers.append(asyncio.ensure_future(read("asker", first=True)))
    await until(lambda: len(channel._waiting) == 12 and channel._asking)
    channel.tell()
    groups = []
    while not all(reader.done() for reader in readers):
        before = len(heard)
        await asyncio.sleep(0)
        groups.append(len(heard) - before)
        if len(groups) == 2:
            channel.tell()
    assert heard[0] == ("asker", 1)
    assert max(groups) <= eventlog.AT_A_TIME + 1
    assert [name for name, _ in heard[1:]] == [f"follower {number}" for number in range(12)]
    assert heard[-1][1] == 2
