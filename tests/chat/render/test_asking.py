"""A question in its card: the form, the answer, and the later run that carries it out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from agent.messages import TextPart, ToolCallPart, ToolResultPart, Usage, user_message
from chatsite.chat.render.asking import standing_html
from chatsite.chat.render.fields import name_of
from chatsite.chat.render.fragments import FragmentWriter, render_full, render_runs, render_transcript
from chatsite.chat.state import InterruptView, RunView, Segment, ThreadState
from tests.chat.render.hostile import HOSTILE, assert_inert
from tests.chat.render.page import Page, parse
from tests.chat.render.test_fragments import ASK, DONE, bot, state_of, tool

MAIL = {"to": "ada@example.org", "subject": "Hello", "body": "How are you?\nI am fine."}
STRING = {"type": "string"}
SCHEMA = {
    "type": "object",
    "properties": {"to": STRING, "subject": STRING, "body": STRING},
    "required": ["to", "subject", "body"],
}
CALL = ToolCallPart("c1", "send_email", json.dumps(MAIL))
LATER = (datetime.now(UTC) + timedelta(days=7)).isoformat()
EARLIER = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
ASKED = InterruptView(
    "q1", "run-1", "c1", "send_email", "The assistant wants to use send_email.", MAIL, SCHEMA, LATER
)
ANSWERED = replace(ASKED, status="approved", answered_by="ada", answered_at="2026-11-30T12:18:00+00:00")
WAITS = RunView("run-1", "interrupted", "interrupt", model="demo")
RESUMED = RunView("run-2", "running", model="demo")
OK = ToolResultPart("c1", '{"status": "sent"}', duration_ms=3)


def waiting(*asked: InterruptView, calls=(CALL,), run=WAITS, **more) -> ThreadState:
    state = state_of(ASK, bot(*calls, finish="tool_calls"), run=run)
    return replace(state, interrupts=asked or (ASKED,), **more)


def resumed(*messages, asked=ANSWERED, run=RESUMED, calls=(CALL,)) -> ThreadState:
    before = waiting(asked, calls=calls)
    return replace(before, segments=(*before.segments, Segment(run, messages)), cursor="run-2:1")


def shown(state: ThreadState, typed=None) -> str:
    return render_transcript(state, typed)


def follow(*states: ThreadState) -> Page:
    """A page that was loaded with the first state and brought to the last one, each fragment applied twice."""
    page, writer = Page(shown(states[0])), FragmentWriter(states[0])
    for state in states[1:]:
        said = writer.update(state)
        page.apply(said)
        once = page.root.html()
        page.apply(said)
        assert page.root.html() == once
        assert page.log == Page(shown(state)).log
    return page


# -- the form ------------------------------------------------------------------------------------------------


def test_a_waiting_card_is_open_and_asks():
    html = shown(waiting())
    assert re.search(r"<details id=\S+ class=call open>", html)
    assert 'class="st asks">waiting for you<' in html
    assert "The assistant wants to use send_email." in html
    assert "You can answer until <time" in html
    for word in ("Approve", "Deny", "Cancel", "Always allow <b>send_email</b> in this thread"):
        assert word in html
    assert "Waiting for your answer." in html
    assert "<p class=lab>Arguments</p>" not in html


def test_the_arguments_stand_in_controls_of_the_pages_form():
    page = parse(shown(waiting()))
    controls = {}

    def walk(node):
        if node.attributes.get("form") == "answer-form" and "name" in node.attributes:
            controls.setdefault(node.attributes["name"], "".join(map(str, node.children)).removeprefix("\n"))
        for each in node.elements:
            walk(each)

    walk(page)
    assert [name for name in controls if ".arg." in name] == ["q1.arg.to", "q1.arg.subject", "q1.arg.body"]
    assert controls["q1.arg.body"] == MAIL["body"]


def test_enter_in_a_line_presses_nothing():
    buttons = re.findall(r"<button[^>]*form=answer-form[^>]*>", shown(waiting()))
    assert buttons[0] == "<button hidden disabled form=answer-form>"


def test_several_questions_have_a_choice_each_and_one_button():
    second = replace(ASKED, id="q2", tool_call_id="c2")
    html = shown(waiting(ASKED, second, calls=(CALL, ToolCallPart("c2", "send_email", CALL.arguments))))
    assert html.count("type=radio") == 6
    assert html.count("Send answers") == 1
    assert "2 questions wait for you" in html
    assert ">Approve</button>" not in html


def test_an_open_question_is_sent_once_and_never_again():
    active = state_of(ASK, bot(CALL, finish="tool_calls"))
    writer = FragmentWriter(active)
    assert "data-q" in writer.update(waiting())
    assert writer.update(waiting()) == ""
    # All values are new ones, as when they come from the database.
    assert "data-q" not in writer.update(waiting(replace(ASKED, schema=dict(SCHEMA)), title="Another title"))


def test_the_form_comes_when_the_run_ends_and_not_before():
    early = replace(state_of(ASK, bot(CALL, finish="tool_calls")), interrupts=(ASKED,))
    assert "answer-form" not in shown(early)
    page = follow(early, waiting())
    assert "data-q" in page.log
    assert page.text("status") == "Your approval is needed: send_email."


def test_a_question_out_of_time_can_only_be_cancelled():
    html = shown(waiting(replace(ASKED, expires_at=EARLIER)))
    assert "The time to answer is over." in html
    assert "value=cancelled" in html
    assert "value=approved" not in html
    assert "textarea" not in html
    assert "<p class=lab>Arguments</p>" in html


def test_what_was_typed_into_a_refused_form_stands_in_it_again():
    typed = {
        "q1.arg.subject": ["Mine </textarea>"],
        "q1.reason": ["Because"],
        "q1.always": ["on"],
        "text": ["x"],
    }
    html = shown(waiting(), typed)
    assert "Mine &lt;/textarea&gt;</textarea>" in html
    assert "Because</textarea>" in html
    assert "value=on form=answer-form checked" in html
    assert MAIL["to"] in html


# -- the answer ----------------------------------------------------------------------------------------------


def test_an_approved_call_runs_in_the_earlier_card():
    page = follow(
        waiting(),
        resumed(),
        resumed(tool(OK)),
        resumed(tool(OK), bot(id="a2", finish="stop"), run=replace(DONE, id="run-2")),
    )
    assert page.log.count('class="call"') == 1
    assert "data-q" not in page.log
    assert ">done<" in page.log
    assert "Approved by <b>ada</b>, " in page.log
    assert "Waiting for your answer" not in page.log


def test_the_states_between():
    assert ">running<" in shown(resumed())
    assert ">denied<" in shown(resumed(asked=replace(ANSWERED, status="denied")))
    assert ">outcome unknown<" in shown(resumed(run=replace(RESUMED, state="lost")))
    assert ">no result<" in shown(resumed(run=replace(DONE, id="run-2")))


@pytest.mark.parametrize(
    ("answer", "code", "words", "state"),
    [
        ({"status": "denied", "reason": "Too late"}, "denied", "Denied by <b>ada</b>", "denied"),
        ({"status": "cancelled"}, "cancelled", "Cancelled by <b>ada</b>", "cancelled"),
        ({"status": "cancelled", "answered_by": ""}, "cancelled", "Not answered: the thread", "cancelled"),
    ],
)
def test_a_card_says_who_answered_what_and_why(answer, code, words, state):
    refused = ToolResultPart("c1", '{"error": "It was not run."}', error=code)
    answered = replace(ANSWERED, **answer)
    page = follow(waiting(), resumed(tool(refused), asked=answered))
    assert words in page.log
    assert f">{state}<small>" in page.log
    assert answer.get("reason", "") in page.log
    assert "30 Nov 2026, 12:18 UTC" in page.log


def test_an_edited_call_shows_both_versions():
    edited = {**MAIL, "subject": "Bye"}
    call = CALL.with_edit(json.dumps(edited))
    page = follow(
        waiting(),
        resumed(asked=replace(ANSWERED, edited=edited)),
        resumed(calls=(call,), asked=replace(ANSWERED, edited=edited)),
        resumed(tool(OK), calls=(call,), asked=replace(ANSWERED, edited=edited)),
    )
    assert "Approved with changes to <b>subject</b> by <b>ada</b>" in page.log
    before, after = page.log.split("Approved instead")
    assert "Hello" in before.split("The assistant wrote")[1]
    assert "Bye" in after


def test_arguments_sent_back_unchanged_are_no_change():
    html = shown(resumed(tool(OK), asked=replace(ANSWERED, edited=dict(MAIL))))
    assert "Approved by" in html
    assert "Approved instead" not in html


def test_a_page_that_was_away_gets_its_form_taken_away():
    """It comes back with the cursor of the run that asked; the rows say only how things stand now."""
    page = Page(shown(waiting()))
    writer = FragmentWriter(waiting(ANSWERED))
    page.apply(writer.update(resumed(tool(OK))))
    assert page.log == Page(shown(resumed(tool(OK)))).log


def test_a_message_instead_of_an_answer_closes_the_question():
    over = replace(ASKED, status="cancelled", answered_at="2026-11-30T12:18:00+00:00")
    closed = ToolResultPart("c1", '{"error": "The person went on."}', error="cancelled")
    follow(
        waiting(),
        resumed(user_message("u2", "Never mind"), asked=over),
        resumed(tool(closed), user_message("u2", "Never mind"), asked=over),
    )


def test_a_call_that_waits_behind_another_waits_for_nobody_yet():
    other = ToolCallPart("c2", "send_email", CALL.arguments)
    html = shown(waiting(calls=(CALL, other)))
    assert html.count(">waiting for you<") == 1
    assert html.count(">waiting<") == 1
    asks_next = replace(ASKED, id="q2", run_id="run-2", tool_call_id="c2")
    state = resumed(tool(OK), calls=(CALL, other), run=replace(WAITS, id="run-2"))
    state = replace(state, interrupts=(ANSWERED, asks_next))
    page = follow(waiting(calls=(CALL, other)), resumed(calls=(CALL, other)), state)
    assert page.log.count("data-q") == 1


def test_a_retry_takes_the_question_away():
    after = replace(waiting(), segments=(Segment(RunView("run-2", "running"), (ASK,)),), interrupts=())
    first = Segment(replace(DONE, id="run-0"), (user_message("u0", "hello"),))
    before, after = (replace(each, segments=(first, *each.segments)) for each in (waiting(), after))
    assert "answer-form" not in follow(before, after).log


def test_earlier_runs_are_left_alone_once_they_are_settled():
    old = tuple(
        segment
        for n in range(400)
        for segment in (
            Segment(
                replace(WAITS, id=f"w{n}"),
                (user_message(f"u{n}", "q"), bot(ToolCallPart(f"k{n}", "send", "{}"), id=f"b{n}")),
            ),
            Segment(replace(DONE, id=f"d{n}"), (tool(replace(OK, tool_call_id=f"k{n}"), id=f"t{n}"),)),
        )
    )
    writer = FragmentWriter(replace(waiting(), segments=old))
    writer.update(replace(waiting(), segments=(*old, *waiting().segments)))
    assert writer._writer.look(replace(waiting(), segments=(*old, *waiting().segments)), ()) == {"run-1"}


def test_who_only_reads_sees_the_answer_and_is_not_asked():
    first, second = render_runs(resumed(tool(OK)))
    assert "Approved by <b>ada</b>" in first
    assert ">done<" in first
    assert "<details" not in second
    (only,) = render_runs(waiting())
    assert "answer-form" not in only
    assert ">waiting<" in only


def test_a_call_that_is_a_run_of_its_own_asks_in_its_card_for_the_calls_it_made():
    call = ToolCallPart("c1", "helper", '{"task": "Write twice"}')
    asks = [replace(ASKED, id=f"q{n}") for n in (1, 2)]
    html = shown(waiting(*asks, calls=(call,)))
    assert html.count("class=ask role=group") == 2
    assert html.count("data-q") == 1
    assert "2 questions wait for you" in html
    assert "Write twice" in html  # its own arguments are no part of what is asked
    edited = {**MAIL, "subject": "Bye"}
    answered = (replace(ANSWERED, id="q1", edited=edited), replace(ANSWERED, id="q2", status="denied"))
    runs_on = replace(resumed(calls=(call,)), interrupts=answered)
    assert ">running<" in shown(runs_on)
    third = replace(ASKED, id="q3", run_id="run-2")
    asks_again = resumed(calls=(call,), run=replace(WAITS, id="run-2"))
    asks_again = replace(asks_again, interrupts=(*answered, third))
    page = follow(waiting(*asks, calls=(call,)), runs_on, asks_again)
    assert page.log.count("data-q") == 1
    assert "<b>send_email</b>: Approved with changes to <b>subject</b> by <b>ada</b>" in page.log
    assert "<b>send_email</b>: Denied by <b>ada</b>" in page.log
    assert "Bye" in page.log
    done = replace(resumed(tool(OK), calls=(call,), run=replace(DONE, id="run-2")), interrupts=answered)
    assert ">done<" in shown(done)


# -- above the composer --------------------------------------------------------------------------------------


def test_whoever_writes_instead_is_told_what_that_does():
    assert "cancels the question above" in standing_html(waiting())
    assert "cancels" not in standing_html(resumed())


def test_standing_rules_are_seen_and_taken_back():
    ruled = replace(waiting(), always_allowed=("send_email", "wipe"))
    html = standing_html(ruled)
    assert html.count("Take back") == 2
    assert 'name=tool value="send_email" form=forget-form' in html
    page = follow(waiting(), ruled)
    assert "send_email" in page.root.find("standing").html()
    page.apply(FragmentWriter(ruled).update(replace(ruled, always_allowed=())))
    assert "Take back" not in page.root.find("standing").html()


# -- text that wants to be markup ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_no_channel_of_a_question_lets_markup_through(text):
    schema = {
        "type": "object",
        "title": text,
        "description": text,
        "properties": {
            text: {"type": "string", "title": text, "description": text},
            "line": {"type": "string", "maxLength": 100, "description": text},
            "choice": {"enum": [text, {text: text}], "title": text},
            "other": {"enum": [text]},
            "flag": {"type": "boolean", "description": text},
            "number": {"type": "number", "title": text},
            "json": {"$ref": text},
            "long": {"type": "string"},
        },
        "required": [text, text],
    }
    given = {
        text: text,
        "line": text,
        "choice": text,
        "json": {text: [text]},
        "beside": text,
        "long": text * 5000,
    }
    hostile = InterruptView(text, "run-1", "c1", text, text, given, schema, text)
    call = ToolCallPart("c1", text, json.dumps(given))
    done = replace(hostile, status=text, reason=text, answered_by=text, answered_at=text)
    edited = replace(hostile, status="approved", edited={text: text}, answered_by=text)
    typed = {name_of(hostile, "arg", name): [text] for name in given} | {name_of(hostile, "reason"): [text]}
    states = [
        waiting(hostile, calls=(call,), always_allowed=(text,)),
        waiting(hostile, replace(hostile, id="q2", tool_call_id="c2"), calls=(call,)),
        waiting(replace(hostile, schema={text: text}, input=text), calls=(call,)),
        resumed(asked=done, calls=(call,)),
        resumed(asked=edited, calls=(call,)),
        resumed(tool(ToolResultPart("c1", text, error=text)), asked=edited, calls=(call.with_edit(text),)),
    ]
    for state in states:
        assert_inert(shown(state))
        assert_inert(shown(state, typed))
        assert_inert(render_full(state))
        assert_inert(standing_html(state))
    page, writer = Page(shown(states[0])), FragmentWriter(states[0])
    for state in states[3:]:
        said = writer.update(state)
        assert_inert(said)
        page.apply(said)
        assert page.log == Page(shown(state)).log


# -- what it took --------------------------------------------------------------------------------------------


def facts(page: Page | str) -> list[str]:
    html = page if isinstance(page, str) else page.root.html()
    return re.findall(r"<small class=\"?facts\"?>(.*?)</small>", html)


def took(run: RunView, tokens: int, ms: int, **ended) -> RunView:
    return replace(run, usage=Usage(tokens, 0), duration_ms=ms, **ended)


def test_an_answer_of_two_runs_shows_what_both_took_in_one_line():
    first = took(WAITS, 1000, 1000)
    asks = waiting(run=first)
    assert facts(shown(asks)) == ["demo · 1.0 s · 1,000 tokens"]
    works = replace(resumed(), segments=(asks.segments[0], Segment(RESUMED)))
    words = bot(TextPart("Sent."), id="a2", finish="stop")
    done = took(RESUMED, 234, 500, state="finished", stop_reason="stop")
    ends = replace(works, segments=(asks.segments[0], Segment(done, (tool(OK), words))), cursor="run-2:9")
    assert facts(follow(asks, works, ends)) == ["demo · 1.5 s · 1,234 tokens"]


def test_a_new_message_begins_an_answer_of_its_own():
    asks = waiting(replace(ASKED, status="cancelled"), run=took(WAITS, 1000, 1000))
    done = took(RESUMED, 234, 500, state="finished", stop_reason="stop")
    said = (user_message("u2", "Never mind."), bot(TextPart("Fine."), id="a2", finish="stop"))
    state = replace(asks, segments=(*asks.segments, Segment(done, said)), cursor="run-2:9")
    assert facts(shown(state)) == ["demo · 1.0 s · 1,000 tokens", "demo · 500 ms · 234 tokens"]
