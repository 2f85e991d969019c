"""A person is asked before a call runs; exactly one answer wins; the answer starts a run that carries it out."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from functools import reduce

import pytest
from django.utils import timezone

from agent.events import RunStarted, ToolCallArgs, ToolCallResult, ToolCallStart
from agent.messages import Transcript
from agent.providers.scripted import Turn
from agent.reducer import apply
from chatsite.chat import commands, db, store
from chatsite.chat.actions import answering, starting
from chatsite.chat.commands.values import Answer, Forget, OneAnswer, Retry, Send
from chatsite.chat.models import ApprovalRule, Interrupt, Run, Thread, ToolCall
from chatsite.chat.problems import Missing, Unanswerable
from chatsite.chat.process import heartbeat
from tests.chat.conftest import recover, row_of
from tests.chat.test_runs import begin, told, transcript_of

MAIL = {"to": "ada@example.org", "subject": "Hello", "body": "How are you?"}
ASKS = Turn("I will write it.", calls=[("c1", "send_email", MAIL)])


async def asked(person, settled, text="Send an email"):
    done = await begin(person, text)
    await settled()
    return done, await db.read(lambda: list(Interrupt.objects.filter(status="open").order_by("pk")))


async def answer(person, thread, *answers, **more):
    return await commands.perform(
        person, thread.public_id, Answer(answers=list(answers)), door="page", **more
    )


def yes(row, **more):
    return OneAnswer(interrupt_id=row.public_id, status="approved", **more)


def no(row, reason=""):
    return OneAnswer(interrupt_id=row.public_id, status="denied", reason=reason)


async def ledger(call_id="c1") -> ToolCall:
    return await db.read(lambda: ToolCall.objects.get(call_id=call_id))


async def state_of(thread):
    return await db.read(lambda: store.load_state(Thread.objects.get(pk=thread.pk)))


async def test_a_call_that_needs_approval_does_not_run_and_the_run_ends_with_a_question(
    person, plays, settled
):
    plays(ASKS)
    done, rows = await asked(person, settled)
    run = await row_of(done.run)
    assert (run.state, run.stop_reason) == ("interrupted", "interrupt")
    assert [(row.tool_name, row.tool_call_id) for row in rows] == [("send_email", "c1")]
    assert rows[0].expires_at > timezone.now()
    call = await ledger()
    assert (call.state, call.claimed_at) == ("waiting", None)
    state = await state_of(done.thread)
    assert state.active_run is None
    assert state.open_interrupts[0].input == MAIL
    assert state.open_interrupts[0].schema["required"] == ["to", "subject", "body"]


async def test_an_approved_call_runs_once_in_a_new_run_that_names_its_parent(person, plays, settled):
    provider = plays(ASKS, Turn("It is sent."))
    done, rows = await asked(person, settled)
    resumed = await answer(person, done.thread, yes(rows[0]))
    events = await told(resumed)
    await settled()
    assert isinstance(events[0], RunStarted)
    assert events[0].parent_run_id == done.run.public_id
    assert not any(isinstance(event, ToolCallStart | ToolCallArgs) for event in events)
    results = [event for event in events if isinstance(event, ToolCallResult)]
    assert [(event.tool_call_id, event.error) for event in results] == [("c1", None)]
    call = await ledger()
    assert (call.state, call.run_id) == ("done", done.run.pk)
    assert call.claimed_at is not None
    kept = await transcript_of(done.thread)
    assert [message.role for message in kept] == ["user", "assistant", "tool", "assistant"]
    assert kept[-1].text == "It is sent."
    assert provider.requests[-1].transcript.messages == kept.messages[:-1]
    row = await db.read(lambda: Interrupt.objects.select_related("answered_by").get())
    assert (row.status, row.answered_by, row.door) == ("approved", person, "page")
    assert row.answered_at is not None
    assert await db.read(lambda: Run.objects.get(pk=resumed.run.pk).parent_id) == done.run.pk


async def test_an_edited_call_runs_with_the_edit_and_the_model_reads_what_ran(person, plays, settled):
    provider = plays(ASKS, Turn("Done."))
    done, rows = await asked(person, settled)
    edited = {**MAIL, "body": "Fine, thanks."}
    resumed = await answer(person, done.thread, yes(rows[0], edited_args=edited))
    events = await told(resumed)
    await settled()
    call = await ledger()
    assert "How are you?" in call.arguments
    assert "Fine, thanks." in call.edited_arguments
    kept = await transcript_of(done.thread)
    part = kept[1].tool_calls[0]
    assert "How are you?" in part.arguments
    assert "Fine, thanks." in part.used_arguments
    assert provider.requests[-1].transcript.messages == kept.messages[:-1]
    state = await state_of(done.thread)
    before = Transcript(state.segments[0].messages)
    assert reduce(apply, events, before) == kept
    assert state.interrupts[0].edited == edited


async def test_the_state_in_memory_is_the_one_in_the_rows_after_an_edit(person, plays, settled):
    from chatsite.chat import eventlog

    plays(ASKS, Turn("Done."))
    done, rows = await asked(person, settled)
    channel = eventlog.channel_of(done.thread.pk)
    assert channel.live is None or channel.live.state() == await state_of(done.thread)
    await answer(person, done.thread, yes(rows[0], edited_args={**MAIL, "body": "Changed"}))
    await settled()
    assert channel.live is not None
    assert channel.live.state() == await state_of(done.thread)


async def test_a_denied_call_never_runs_and_the_model_reads_the_reason(person, plays, settled):
    provider = plays(ASKS, Turn("I will not."))
    done, rows = await asked(person, settled)
    await answer(person, done.thread, no(rows[0], "Not to her"))
    await settled()
    call = await ledger()
    assert (call.state, call.error_code, call.claimed_at) == ("denied", "denied", None)
    assert "Not to her" in provider.requests[-1].transcript[-1].tool_results[0].content


async def test_a_cancelled_call_never_runs(person, plays, settled):
    plays(ASKS, Turn("As you like."))
    done, rows = await asked(person, settled)
    await answer(person, done.thread, OneAnswer(interrupt_id=rows[0].public_id, status="cancelled"))
    await settled()
    assert (await ledger()).state == "cancelled"


async def test_what_may_run_runs_first(person, plays, settled):
    plays(
        Turn(calls=[("w", "get_weather", {"city": "Oslo"}), ("c1", "send_email", MAIL)]), Turn("Both done.")
    )
    done, rows = await asked(person, settled)
    assert (await ledger("w")).state == "done"
    assert (await ledger("c1")).state == "waiting"
    await answer(person, done.thread, yes(rows[0]))
    await settled()
    kept = await transcript_of(done.thread)
    assert [part.tool_call_id for message in kept for part in message.tool_results] == ["w", "c1"]


TWO = Turn(calls=[("c1", "send_email", MAIL), ("c2", "send_email", {**MAIL, "to": "bob@example.org"})])


async def test_all_open_questions_are_answered_together_or_nothing_happens(person, plays, settled):
    plays(TWO, Turn("One of them."))
    done, rows = await asked(person, settled)
    with pytest.raises(Unanswerable) as refused:
        await answer(person, done.thread, yes(rows[0]))
    assert refused.value.code == "missing_answer"
    assert await db.read(lambda: Interrupt.objects.filter(status="open").count()) == 2
    await answer(person, done.thread, yes(rows[0]), no(rows[1]))
    await settled()
    assert [(await ledger(id)).state for id in ("c1", "c2")] == ["done", "denied"]


async def test_what_cannot_be_taken_is_refused_by_code_and_nothing_runs(person, plays, settled):
    plays(ASKS)
    done, rows = await asked(person, settled)
    unknown = OneAnswer(interrupt_id="no-such", status="approved")
    for answers, code in [
        ([unknown], "unknown_interrupt"),
        ([yes(rows[0]), unknown], "unknown_interrupt"),
        ([yes(rows[0]), yes(rows[0])], "answered_twice"),
        ([yes(rows[0], edited_args={"to": 7})], "invalid_arguments"),
    ]:
        with pytest.raises(Unanswerable) as refused:
            await answer(person, done.thread, *answers)
        assert refused.value.code == code
    assert (await ledger()).state == "waiting"
    assert await db.read(Run.objects.count) == 1


async def test_an_expired_question_can_only_be_cancelled(person, plays, settled):
    plays(ASKS, Turn("As you like."))
    done, rows = await asked(person, settled)
    past = (timezone.now() - timedelta(seconds=1)).isoformat()
    await db.write(lambda: Interrupt.objects.update(data={**rows[0].data, "expiresAt": past}))
    with pytest.raises(Unanswerable) as refused:
        await answer(person, done.thread, yes(rows[0]))
    assert refused.value.code == "interrupt_expired"
    await answer(person, done.thread, OneAnswer(interrupt_id=rows[0].public_id, status="cancelled"))
    await settled()
    assert (await ledger()).state == "cancelled"


async def test_the_same_answer_twice_is_one_and_another_comes_too_late(person, plays, settled):
    plays(ASKS, Turn("It is sent."))
    done, rows = await asked(person, settled)
    first = await answer(person, done.thread, yes(rows[0]))
    again = await answer(person, done.thread, yes(rows[0]))
    await settled()
    later = await answer(person, done.thread, yes(rows[0]))
    assert first.run.pk == again.run.pk == later.run.pk
    assert (first.fresh, again.fresh, later.fresh) == (True, False, False)
    with pytest.raises(Unanswerable) as refused:
        await answer(person, done.thread, no(rows[0]))
    assert refused.value.code == "already_answered"
    assert await db.read(Run.objects.count) == 2


def answer_alone(thread_pk, person, interrupt_id, status, gate, outcomes):
    """One answer on a connection of its own, as another process would give it."""
    from django.db import connection, transaction

    from agent.approvals import Resolution
    from chatsite.chat.agents import agents

    resolution = Resolution("c1", interrupt_id, status)
    gate.wait()
    try:
        with transaction.atomic():
            begun = answering.answer(
                thread=Thread.objects.get(pk=thread_pk),
                by=person,
                resolutions=[resolution],
                always=(),
                tools=agents().tools_with(),
                start=starting.Start("demo", heartbeat.PROCESS, "page"),
            )
        outcomes.append((status, begun.fresh))
    except Exception as error:
        outcomes.append((status, type(error).__name__))
    finally:
        connection.close()


async def test_of_two_answers_at_once_on_two_connections_exactly_one_wins(person, plays, settled):
    plays(ASKS)
    done, rows = await asked(person, settled)
    for _ in range(5):
        gate, outcomes = threading.Barrier(2), []
        threads = [
            threading.Thread(
                target=answer_alone, args=(done.thread.pk, person, rows[0].public_id, status, gate, outcomes)
            )
            for status in ("approved", "denied")
        ]
        for one in threads:
            one.start()
        for one in threads:
            await asyncio.to_thread(one.join)
        assert [fresh for _, fresh in outcomes].count(True) == 1, outcomes
        winner = next(status for status, fresh in outcomes if fresh is True)
        assert await db.read(lambda: Interrupt.objects.get().status) == winner
        assert await db.read(Run.objects.count) == 2
        await db.write(lambda: Interrupt.objects.update(status="open", resumed_by=None))
        await db.write(lambda: Run.objects.exclude(pk=done.run.pk).delete())


def taken_alone(thread, person, interrupt_id, status, run, gate, won):
    """The update by which an answer is taken, without the thread's lock in front of it."""
    from django.db import connection, transaction

    from agent.approvals import Resolution

    resolution = Resolution("c1", interrupt_id, status)
    gate.wait()
    try:
        with transaction.atomic():
            answering._answer_one(thread, resolution, by=person, run=run, now=timezone.now())
        won.append(status)
    except Unanswerable:
        pass
    finally:
        connection.close()


async def test_of_two_answers_one_wins_by_the_row_alone_where_nobody_holds_the_thread(person, plays, settled):
    plays(ASKS)
    done, rows = await asked(person, settled)
    gate, won = threading.Barrier(2), []
    taking = [
        asyncio.to_thread(taken_alone, done.thread, person, rows[0].public_id, status, done.run, gate, won)
        for status in ("approved", "denied")
    ]
    await asyncio.gather(*taking)
    assert len(won) == 1
    assert await db.read(lambda: Interrupt.objects.get().status) == won[0]


async def test_always_allow_is_a_rule_of_the_thread_and_can_be_taken_back(person, plays, settled):
    plays(ASKS, Turn("Sent."), Turn(calls=[("c2", "send_email", MAIL)]), Turn("Sent again."))
    done, rows = await asked(person, settled)
    await answer(person, done.thread, yes(rows[0], always=True))
    await settled()
    await commands.perform(person, done.thread.public_id, Send(text="Again"), door="page")
    await settled()
    assert (await ledger("c2")).state == "done"
    assert (await state_of(done.thread)).always_allowed == ("send_email",)
    await commands.perform(person, done.thread.public_id, Forget(tool="send_email"), door="page")
    assert await db.read(ApprovalRule.objects.count) == 0
    plays(Turn(calls=[("c3", "send_email", MAIL)]))
    await commands.perform(person, done.thread.public_id, Send(text="And again"), door="page")
    await settled()
    assert (await ledger("c3")).state == "waiting"


async def test_a_message_instead_of_an_answer_cancels_the_question(person, plays, settled):
    provider = plays(ASKS, Turn("Let us talk."))
    done, rows = await asked(person, settled)
    sent = await commands.perform(person, done.thread.public_id, Send(text="Wait"), door="page")
    events = await told(sent)
    await settled()
    assert (await ledger()).state == "cancelled"
    assert await db.read(lambda: Interrupt.objects.get().status) == "cancelled"
    kept = await transcript_of(done.thread)
    assert [message.role for message in kept] == ["user", "assistant", "tool", "user", "assistant"]
    assert provider.requests[-1].transcript.messages == kept.messages[:-1]
    state = await state_of(done.thread)
    assert reduce(apply, events, Transcript(state.segments[0].messages)) == kept
    with pytest.raises(Unanswerable):
        await answer(person, done.thread, yes(rows[0]))


async def test_a_retry_instead_of_an_answer_withdraws_the_question(person, plays, settled):
    plays(ASKS, Turn("Never mind."))
    done, _ = await asked(person, settled)
    await commands.perform(person, done.thread.public_id, Retry(), door="page")
    await settled()
    assert [message.text for message in await transcript_of(done.thread)] == ["Send an email", "Never mind."]
    assert (await state_of(done.thread)).open_interrupts == ()


async def test_another_users_question_does_not_exist(person, stranger, plays, settled):
    plays(ASKS)
    done, rows = await asked(person, settled)
    with pytest.raises(Missing):
        await answer(stranger, done.thread, yes(rows[0]))
    own = await begin(stranger, "Mine")
    await settled()
    with pytest.raises(Unanswerable) as refused:
        await answer(stranger, own.thread, yes(rows[0]))
    assert refused.value.code == "unknown_interrupt"
    assert (await ledger()).state == "waiting"


async def test_a_question_outlives_the_server(person, plays, settled):
    plays(ASKS, Turn("Sent after the restart."))
    done, rows = await asked(person, settled)
    await db.write(
        lambda: Run.objects.update(owner="gone/1:1:x", heartbeat_at=timezone.now() - timedelta(days=20))
    )
    assert await recover() == []
    await answer(person, done.thread, yes(rows[0]))
    await settled()
    assert (await transcript_of(done.thread))[-1].text == "Sent after the restart."


async def test_a_tool_with_a_permission_is_denied_to_who_has_it_not(person, plays, settled, monkeypatch):
    from agent import ToolRegistry, tool

    ran = []

    @tool(permission="chat.may_do_it")
    def guarded() -> str:
        """Does it."""
        ran.append(1)
        return "done"

    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([guarded]))
    plays(Turn(calls=[("g", "guarded", {})]), Turn("No."))
    await begin(person)
    await settled()
    assert (await ledger("g")).state == "denied"
    assert ran == []
