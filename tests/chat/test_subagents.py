"""A tool whose work is another run: kept, asked about, resumed and stopped with the outer one."""

from __future__ import annotations

import asyncio

import pytest

from agent import Agent, ToolRegistry, subagent_tool
from agent.providers.scripted import ScriptedProvider, Turn
from chatsite.chat import commands, db, eventlog, store
from chatsite.chat.commands.values import Stop
from chatsite.chat.models import Interrupt, Run, ToolCall
from chatsite.chat.readers import cursors
from chatsite.chat.render.fragments import FragmentWriter, render_transcript
from chatsite.chat.tools.examples import get_weather, send_email
from tests.chat.conftest import recover, row_of, until
from tests.chat.dying import kill
from tests.chat.render.page import Page
from tests.chat.test_approvals import MAIL, answer, asked, state_of, yes
from tests.chat.test_runs import begin, transcript_of

DELEGATES = Turn(calls=[("d1", "helper", {"task": "Do it"})])


@pytest.fixture
def helper(monkeypatch):
    """`helper(turn, ...)`: the chat has a subagent that plays these turns."""

    def make(*turns):
        provider = ScriptedProvider(*turns)
        inner = Agent(provider, "inner", [get_weather, send_email])
        tool = subagent_tool(inner, name="helper", description="Does it.")
        monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([tool]))
        return provider

    return make


async def test_its_last_words_are_the_calls_result_and_its_calls_have_rows(person, plays, settled, helper):
    helper(Turn(calls=[("w", "get_weather", {"city": "Oslo"})]), Turn("It is 62 there."))
    plays(DELEGATES, Turn("Done."))
    done = await begin(person)
    await settled()
    kept = await transcript_of(done.thread)
    assert [message.role for message in kept] == ["user", "assistant", "tool", "assistant"]
    assert "It is 62 there." in kept[2].tool_results[0].content
    calls = {call.name: call for call in await db.read(lambda: list(ToolCall.objects.all()))}
    assert (calls["helper"].state, calls["get_weather"].state) == ("done", "done")
    assert "Oslo" in calls["get_weather"].arguments
    assert "62" in calls["get_weather"].result


async def test_its_question_is_asked_in_the_outer_run_and_the_answer_resumes_the_same_child(
    person, plays, settled, helper
):
    inner = helper(Turn(calls=[("m", "send_email", MAIL)]), Turn("Sent it."))
    outer = plays(DELEGATES, Turn("All done."))
    done, rows = await asked(person, settled)
    assert (await row_of(done.run)).state == "interrupted"
    assert rows[0].tool_name == "send_email"
    state = await state_of(done.thread)
    assert state.open_interrupts[0].tool_call_id == "d1"
    mail = await db.read(lambda: ToolCall.objects.get(name="send_email"))
    assert mail.state == "waiting"
    await answer(person, done.thread, yes(rows[0]))
    await settled()
    assert len(inner.requests) == 2
    kept = await transcript_of(done.thread)
    assert [message.role for message in kept] == ["user", "assistant", "tool", "assistant"]
    assert "Sent it." in kept[2].tool_results[0].content
    assert outer.requests[-1].transcript.messages == kept.messages[:-1]
    mail = await db.read(lambda: ToolCall.objects.get(name="send_email"))
    assert (mail.state, mail.run_id) == ("done", done.run.pk)
    assert await db.read(lambda: ToolCall.objects.filter(name="send_email").count()) == 1


def followed(states) -> Page:
    """A page that saw each of these states come; at each it shows what a reload would."""
    page, writer = Page(render_transcript(states[0])), FragmentWriter(states[0])
    for state in states[1:]:
        page.apply(writer.update(state))
        assert page.log == Page(render_transcript(state)).log
    return page


def all_states(channel):
    return [channel.live.state_at(number) for number in range(channel.live.shown + 1)]


async def test_its_work_grows_in_the_card_of_its_call_and_is_there_after_a_reload(
    person, plays, settled, helper
):
    helper(
        Turn("Let me look.", calls=[("w", "get_weather", {"city": "Oslo"})], delta_size=3), Turn("It is 62.")
    )
    plays(DELEGATES, Turn("Done."))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await settled()
    states = all_states(channel)
    page = followed(states)
    # A page that comes in the middle, too, and one that reads what another process writes.
    middle = next(state for state in states if "Let me" in render_transcript(state))
    assert "Subagent at work" in render_transcript(middle)
    cursor = cursors.parse_cursor(middle.cursor)
    assert await db.read(store.load_state, done.thread, cursor) != middle, "told anew, so another object"
    assert render_transcript(await db.read(store.load_state, done.thread, cursor)) == render_transcript(
        middle
    )
    stored = await state_of(done.thread)
    assert page.log == Page(render_transcript(stored)).log
    for text in ("Let me look.", "get_weather", "62", "It is 62.", "What the subagent did"):
        assert text in page.log


async def test_what_it_did_before_its_question_stands_in_the_card_and_goes_on_behind_the_answer(
    person, plays, settled, helper
):
    helper(Turn("First I write.", calls=[("m", "send_email", MAIL)]), Turn("Sent it."))
    plays(DELEGATES, Turn("All done."))
    done, rows = await asked(person, settled)
    waiting = await state_of(done.thread)
    html = render_transcript(waiting)
    assert "What the subagent did so far" in html
    assert "First I write." in html
    assert "answer-form" in html
    channel = eventlog.channel_of(done.thread.pk)
    await answer(person, done.thread, yes(rows[0]))
    await settled()
    page = followed(all_states(channel))
    for text in ("First I write.", "Sent it.", "Approved", "What the subagent did<"):
        assert text in page.log
    assert page.log == Page(render_transcript(await state_of(done.thread))).log


async def test_what_a_stopped_one_did_is_kept_in_its_card(person, plays, settled, helper):
    helper(Turn("Half of it, then more.", delta_size=2, gate=asyncio.Event()))
    plays(DELEGATES, Turn("Never said."))
    done = await begin(person)
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: channel.live and "Half" in render_transcript(channel.live.state()))
    await commands.perform(person, done.thread.public_id, Stop(), door="page")
    await settled()
    followed(all_states(channel))
    assert "Half" in render_transcript(await state_of(done.thread))


async def test_a_stop_reaches_it(person, plays, settled, helper):
    inner = helper(Turn("Never finished.", delta_size=2, gate=asyncio.Event()))
    plays(DELEGATES, Turn("Never said."))
    done = await begin(person)
    await until(lambda: inner.requests)
    await commands.perform(person, done.thread.public_id, Stop(), door="page")
    await settled()
    assert (await row_of(done.run)).state == "cancelled"
    assert inner.closed == 1


async def test_a_server_that_dies_leaves_no_claimed_call_behind(person, plays, settled, helper):
    inner = helper(Turn(calls=[("w", "get_weather", {"city": "Oslo"})]), Turn("Half.", gate=asyncio.Event()))
    plays(DELEGATES, Turn("Never said."))
    done = await begin(person)
    await until(lambda: len(inner.requests) == 2)
    await kill(done.run)
    await db.write(lambda: Run.objects.update(door="api"))
    await recover()
    states = {call.name: call.state for call in await db.read(lambda: list(ToolCall.objects.all()))}
    assert states["helper"] == "unknown"
    assert "claimed" not in states.values()
    assert await db.read(Interrupt.objects.count) == 0
