"""Fragments bring a page from one state of a thread to the next, and never more than that."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.messages import (
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    user_message,
)
from chatsite.chat.render.cards import MAX_SHOWN
from chatsite.chat.render.fragments import FragmentWriter, render_full, render_transcript
from chatsite.chat.render.growing import appended
from chatsite.chat.render.swaps import thread_mark
from chatsite.chat.state import RunView, Segment, ThreadState
from tests.chat.render.hostile import HOSTILE, assert_inert
from tests.chat.render.page import Page
from tests.chat.render.test_blocks import TEXTS, steady

ACTIVE = RunView("run-1", "running", model="demo")
DONE = replace(ACTIVE, state="finished", stop_reason="stop", duration_ms=1400, usage=Usage(30, 12))


def state_of(*messages: Message, run: RunView = ACTIVE, title: str = "A thread") -> ThreadState:
    return ThreadState("thread", title, (Segment(run, messages),), f"{run.id}:{len(messages)}")


def bot(*parts, id="a1", finish=None) -> Message:
    return Message(id, "assistant", parts, finish)


def tool(*results: ToolResultPart, id="t1") -> Message:
    return Message(id, "tool", results)


ASK = user_message("u1", "What should I wear?")
CALL = ToolCallPart("c1", "get_weather", '{"city": "SF"}')
OK = ToolResultPart("c1", '{"temperature": 62}', duration_ms=12)


def history() -> Iterator[ThreadState]:
    """A run as a follower sees it: thoughts, two calls side by side, their results one by one, an answer."""
    yield state_of(ASK)
    yield state_of(ASK, bot())
    yield state_of(ASK, bot(ThinkingPart("I need")))
    yield state_of(ASK, bot(ThinkingPart("I need the *weather*.\n\nBoth")))
    think = ThinkingPart("I need the *weather*.\n\nBoth cities.", duration_ms=2300)
    first = bot(think, ToolCallPart("c1", "get_weather", '{"ci'))
    yield state_of(ASK, first)
    other = ToolCallPart("c2", "get_weather", '{"city": "Nowhere"}')
    yield state_of(ASK, bot(think, CALL, other))
    first = bot(think, CALL, other, finish="tool_calls")
    yield state_of(ASK, first)
    yield state_of(ASK, first, tool(OK))
    failed = ToolResultPart("c2", '{"error": "There is no such city."}', error="tool_error", duration_ms=0)
    results = tool(OK, failed)
    yield state_of(ASK, first, results)
    answer = "# Wear\n\nA **light** jacket.\n\n- one\n- two `x`\n\n```py\nx = 1\n```\n\nDone."
    for end in range(0, len(answer), 3):
        yield state_of(ASK, first, results, bot(TextPart(answer[:end]), id="a2"))
    last = bot(TextPart(answer), id="a2", finish="stop")
    yield state_of(ASK, first, results, last)
    yield state_of(ASK, first, results, last, run=DONE)
    yield state_of(ASK, first, results, last, run=DONE, title="Jackets")


def test_a_page_that_followed_shows_what_a_reload_shows():
    states = list(history())
    page, writer = Page(render_transcript(states[0])), FragmentWriter(states[0])
    for state in states[1:]:
        page.apply(writer.update(state))
        assert page.log == Page(render_transcript(state)).log


def test_a_thought_says_that_it_goes_on_then_how_long_it_took():
    states = list(history())
    page, writer = Page(render_transcript(states[0])), FragmentWriter(states[0])
    heads = []
    for state in states[1:]:
        page.apply(writer.update(state))
        heads.append([word for word in ("Thinking…", "Thought for 2.3 s", "Thoughts") if word in page.log])
    assert heads[:4] == [[], ["Thinking…"], ["Thinking…"], ["Thought for 2.3 s"]]
    assert heads[-1] == ["Thought for 2.3 s"]


def test_a_page_may_join_at_any_moment():
    states = list(history())
    for start in range(0, len(states), 4):
        page, writer = Page(render_transcript(states[start])), FragmentWriter(states[start])
        page.apply(writer.update(states[-1]))
        assert page.log == Page(render_transcript(states[-1])).log


def test_a_fragment_that_comes_twice_changes_nothing():
    states = list(history())
    page, writer = Page(render_transcript(states[0])), FragmentWriter(states[0])
    said = []
    for state in states[1:]:
        said.append(writer.update(state))
        page.apply(said[-1])
        shown = page.log
        page.apply(said[-1])
        assert page.log == shown
    for fragments in said:  # everything again, from the start
        page.apply(fragments)
    assert page.log == Page(render_transcript(states[-1])).log


def test_nothing_new_is_no_fragment():
    state = list(history())[-1]
    writer = FragmentWriter(state)
    assert writer.update(state) == ""
    assert writer.update(replace(state, cursor="run-1:99")) == ""
    assert (
        writer.update(replace(state, segments=tuple(Segment(s.run, s.messages) for s in state.segments)))
        == ""
    )


@steady
@given(TEXTS, st.lists(st.integers(0, 400), max_size=8))
def test_any_text_cut_anywhere_ends_as_the_page_shows_it(text, cuts):
    before = state_of(ASK, bot(TextPart("")))
    page, writer = Page(render_transcript(before)), FragmentWriter(before)
    for cut in sorted(cuts):
        page.apply(writer.update(state_of(ASK, bot(TextPart(text[:cut])))))
    last = state_of(ASK, bot(TextPart(text), finish="stop"), run=DONE)
    page.apply(writer.update(last))
    assert page.log == Page(render_transcript(last)).log


def test_a_new_run_goes_to_the_end():
    first = state_of(ASK, bot(TextPart("a"), finish="stop"), run=DONE)
    second = Segment(RunView("run-2", "running"), (user_message("u2", "and then?"),))
    both = replace(first, segments=(*first.segments, second))
    page, writer = Page(render_transcript(first)), FragmentWriter(first)
    page.apply(writer.update(both))
    assert page.log == Page(render_transcript(both)).log


def test_a_retry_takes_the_place_of_the_run_it_repeats():
    first = Segment(replace(DONE, id="run-0"), (user_message("u0", "hello"), bot(TextPart("hi"), id="a0")))
    before = ThreadState("thread", "x", (first, Segment(DONE, (ASK, bot(TextPart("a"), finish="stop")))), "c")
    after = replace(before, segments=(first, Segment(RunView("run-2", "running"), (ASK,))))
    page, writer = Page(render_transcript(before)), FragmentWriter(before)
    said = writer.update(after)
    page.apply(said)
    page.apply(said)
    assert page.log == Page(render_transcript(after)).log
    assert "hello" not in said


def test_another_history_replaces_everything():
    states = list(history())
    other = ThreadState(
        "thread", "x", (Segment(RunView("run-9", "running"), (user_message("u9", "hello"),)),), "c"
    )
    page, writer = Page(render_transcript(states[-1])), FragmentWriter(states[-1])
    page.apply(writer.update(other))
    assert page.log == Page(render_transcript(other)).log
    page.apply(writer.update(replace(other, segments=())))
    assert page.log == ""


def test_a_full_fragment_suits_any_page():
    states = list(history())
    page = Page(render_transcript(states[3]))
    page.apply(render_full(states[-1]))
    assert page.log == Page(render_transcript(states[-1])).log
    assert page.text("title") == page.text(thread_mark("thread")) == "Jackets"


def test_words_lost_in_a_restart_go_from_the_page_too():
    before = state_of(ASK, bot(TextPart("one\n\ntwo and th")))
    after = state_of(ASK, bot(TextPart("one\n\ntwo")), run=replace(ACTIVE, state="lost"))
    page, writer = Page(render_transcript(before)), FragmentWriter(before)
    page.apply(writer.update(after))
    assert page.log == Page(render_transcript(after)).log


def test_a_settled_block_is_sent_once():
    long = "word " * 400 + "\n\n"
    state = state_of(ASK, bot(TextPart(long + "a")))
    writer = FragmentWriter(state)
    said = "".join(writer.update(state_of(ASK, bot(TextPart(long + "a" * n)))) for n in range(2, 60))
    assert "word" not in said
    assert len(said) < 58 * 80


def test_a_paragraph_that_grows_sends_only_what_is_new():
    writer = FragmentWriter(state_of(ASK, bot(TextPart("some words "))))
    said = writer.update(state_of(ASK, bot(TextPart("some words and more"))))
    assert said.endswith("> and more</hx-add>")


def test_an_answer_of_400_tokens_is_small():
    answer = (
        "Here is *some* text with `code` and **bold** words, as models write them all day long. " * 3 + "\n\n"
        "- first item with words\n- second item with words\n- third item with words\n\n"
        "```python\ndef wear(temperature):\n    return 'jacket' if temperature < 65 else 'shirt'\n```\n\n"
        "| a | b |\n|---|---|\n| one | two |\n| three | four |\n\n"
    ) * 4
    answer = answer[:2_700]
    writer, bytes_sent = FragmentWriter(state_of(ASK)), 0
    for end in range(60, len(answer) + 60, 60):
        html = writer.update(state_of(ASK, bot(TextPart(answer[:end]))))
        bytes_sent += len(f"id: {'0' * 32}:123\ndata: ") + len(html) + 6 * html.count("\n") + 2
    html = writer.update(state_of(ASK, bot(TextPart(answer), finish="stop"), run=DONE))
    bytes_sent += len(html) + 60
    assert bytes_sent < 15_000


def test_the_work_is_linear_in_the_answer():
    text = "A paragraph of some length that goes on and on.\n\n" * 3_000
    began = time.process_time()
    writer = FragmentWriter(state_of(ASK))
    for end in range(0, len(text), 500):
        writer.update(state_of(ASK, bot(TextPart(text[:end]))))
    assert time.process_time() - began < 5


def test_messages_that_are_the_same_cost_nothing():
    old = tuple(
        Segment(
            replace(DONE, id=f"old-{n}"),
            (user_message(f"ou{n}", "q"), bot(TextPart("a"), id=f"oa{n}", finish="stop")),
        )
        for n in range(2_500)
    )
    active = state_of(ASK, bot(TextPart("")))
    writer = FragmentWriter(replace(active, segments=(*old, *active.segments)))
    began = time.process_time()
    for n in range(100):
        active = state_of(ASK, bot(TextPart("a" * n)))
        writer.update(replace(active, segments=(*old, *active.segments)))
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("<p>a</p>", "<p>a b</p>", (1, " b")),
        ("<ul>\n<li>a</li>\n</ul>", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>", (1, "<li>b</li>\n")),
        ("<ul>\n<li>a</li>\n</ul>", "<ul>\n<li>a <b>c</b></li>\n</ul>", (2, " <b>c</b>")),
        ("<p>a</p>", "<p>a</p>\n<p>b</p>", (0, "\n<p>b</p>")),
        ("<p>a</p>", "<p>b</p>", None),
        ("<p>a</p>", "<h2>a</h2>", None),
        ("<p>aa</p>", "<p>a</p>", None),
        ("<p>a<br></p>", "<p>a<br>b</p>", (1, "b")),
    ],
)
def test_what_was_added_to_html(old, new, difference):
    assert appended(old, new) == difference


# -- what a tool card says -----------------------------------------------------------------------------------


def card(call=CALL, result=None, run=ACTIVE, finish="tool_calls") -> str:
    return render_transcript(state_of(bot(call, finish=finish), *([tool(result)] if result else []), run=run))


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("preparing", {"finish": None}),
        ("running", {}),
        ("done", {"result": OK}),
        ("failed", {"result": ToolResultPart("c1", '{"error": "no"}', error="tool_error")}),
        ("cut off", {"result": ToolResultPart("c1", '{"error": "no"}', error="max_tokens")}),
        ("not run", {"result": ToolResultPart("c1", '{"error": "no"}', error="not_executed")}),
        ("unknown tool", {"result": ToolResultPart("c1", '{"error": "no"}', error="unknown_tool")}),
        ("not run: bad arguments", {"result": ToolResultPart("c1", "no", error="invalid_arguments")}),
        ("denied", {"result": ToolResultPart("c1", '{"error": "no"}', error="denied")}),
        ("cancelled", {"result": ToolResultPart("c1", '{"error": "no"}', error="cancelled")}),
        ("not answered", {"result": ToolResultPart("c1", '{"error": "no"}', error="not_answered")}),
        ("not run: permission unclear", {"result": ToolResultPart("c1", "no", error="policy_failed")}),
        ("skipped", {"result": ToolResultPart("c1", "no", error="over_budget")}),
        ("timed out", {"result": ToolResultPart("c1", '{"error": "no"}', error="timeout")}),
        ("cancelled", {"result": ToolResultPart("c1", '{"error": "no"}', error="aborted")}),
        ("outcome unknown", {"result": ToolResultPart("c1", '{"error": "no"}', error="outcome_unknown")}),
        ("cancelled", {"run": replace(ACTIVE, state="cancelled")}),
        ("outcome unknown", {"run": replace(ACTIVE, state="lost")}),
        ("waiting", {"run": replace(DONE, stop_reason="client_tools")}),
        ("failed", {"result": ToolResultPart("c1", "no", error="a_code_nobody_knows")}),
    ],
)
def test_a_card_says_its_state_in_words(words, made):
    assert f">{words}<small>" in card(**made)


def test_a_card_shows_name_arguments_result_and_time():
    html = card(result=OK)
    assert "<b hx-ignore>get_weather</b>" in html
    assert "class=brief hx-ignore>SF</span>" in html
    assert "<p class=lab>Arguments</p>" in html
    assert "<p class=lab>Result</p>" in html
    assert "<small>12 ms</small>" in html


def test_a_card_shows_the_tools_own_words_when_it_failed():
    html = card(result=ToolResultPart("c1", '{"error": "There is no such city."}', error="tool_error"))
    assert "<p class=err>There is no such city.</p>" in html


def test_a_tools_name_turns_nothing_around_beside_it():
    call = ToolCallPart("c1", "pay\u202eyap \x1b[31m\u2066 me", "{}")
    html = render_transcript(state_of(ASK, bot(call, finish="tool_calls"), tool(OK)))
    assert "<b hx-ignore>payyap [31m me</b>" in html


def test_what_never_ran_did_not_fail():
    html = card(result=ToolResultPart("c1", '{"error": "The person denied it."}', error="denied"))
    assert "What the assistant was told" in html
    assert "class=err" not in html


def test_cards_stand_in_call_order_whatever_came_first():
    calls = [ToolCallPart(f"c{n}", f"tool_{n}", "{}") for n in range(3)]
    results = [tool(ToolResultPart(f"c{n}", "x"), id=f"t{n}") for n in (2, 0, 1)]
    html = render_transcript(state_of(bot(*calls, finish="tool_calls"), *results))
    assert html.index("tool_0") < html.index("tool_1") < html.index("tool_2")


def test_a_card_keeps_its_details_element_when_it_changes():
    before = state_of(ASK, bot(CALL, finish="tool_calls"))
    writer = FragmentWriter(before)
    said = writer.update(state_of(ASK, bot(CALL, finish="tool_calls"), tool(OK)))
    assert "<details" not in said


def test_arguments_that_stream_are_counted_and_sent_once():
    arguments = json.dumps({"text": "x" * 20_000})
    writer, sent = FragmentWriter(state_of(ASK, bot(ToolCallPart("c1", "write", "")))), 0
    for end in range(0, len(arguments), 200):
        sent += len(writer.update(state_of(ASK, bot(ToolCallPart("c1", "write", arguments[:end])))))
    assert sent < 100 * 120
    assert "x" * 20_000 in writer.update(
        state_of(ASK, bot(ToolCallPart("c1", "write", arguments), finish="tool_calls"))
    )


def test_huge_results_are_cut_and_counted():
    html = card(result=ToolResultPart("c1", "x" * (MAX_SHOWN + 1234)))
    assert "and 1,234 characters more" in html or "and 1,234 characters" in html
    assert len(html) < MAX_SHOWN + 3_000


def test_a_result_may_hold_pictures():
    parts = (TextPart("see"), ImagePart("image/png", "aGk="), ImagePart("text/html", "aGk="))
    html = card(result=ToolResultPart("c1", parts))
    assert html.count("<img") == 1
    assert "data:text/html" not in html


# -- how a run ended -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "words", "action"),
    [
        ({"stop_reason": "stop"}, "", ""),
        ({"stop_reason": "length"}, "Cut off", "continue-form"),
        ({"stop_reason": "content_filter"}, "content filter", "retry-form"),
        ({"stop_reason": "max_iterations"}, "Stopped after 0 turns ", "continue-form"),
        ({"stop_reason": "no_calls"}, "named none", "retry-form"),
        ({"stop_reason": "my_own_limit"}, "my_own_limit", "continue-form"),
        ({"stop_reason": "max_tool_calls"}, "limit of tool calls", "continue-form"),
        (
            {"stop_reason": "tool_call_budget"},
            "tool calls allowed for one answer are used up",
            "continue-form",
        ),
        ({"stop_reason": "max_tokens"}, "limit of tokens", "continue-form"),
        ({"stop_reason": "max_cost"}, "cost limit", "continue-form"),
        ({"stop_reason": "max_seconds"}, "time limit", "continue-form"),
        ({"stop_reason": "no_repeated_calls"}, "the same tool call", "retry-form"),
        ({"stop_reason": "client_tools"}, "Waiting for the page that runs this tool.", ""),
        ({"state": "interrupted", "stop_reason": "interrupt"}, "Waiting for your answer.", ""),
        ({"state": "cancelled"}, "Stopped by you", "retry-form"),
        ({"state": "cancelled", "stop_reason": "aborted"}, "a rule of this server", "retry-form"),
        (
            {"state": "cancelled", "stop_reason": "aborted", "error": "the <quota> is used up."},
            "a rule of this server: the &lt;quota&gt; is used up. What was written so far is kept.",
            "retry-form",
        ),
        ({"state": "failed", "error": "The model is on fire."}, "The model is on fire.", "retry-form"),
        ({"state": "failed", "error_code": "rate_limited"}, "rate limit", "retry-form"),
        ({"state": "failed"}, "The answer failed.", "retry-form"),
        ({"state": "lost"}, "The server stopped", "retry-form"),
    ],
)
def test_a_run_says_how_it_ended_and_what_to_do(run, words, action):
    html = render_transcript(state_of(ASK, bot(TextPart("a"), finish="stop"), run=replace(DONE, **run)))
    assert words in html
    assert ("class=act" in html) == bool(action)
    assert action in html
    assert ('class="said' in html) == bool(words)


def test_the_status_speaks_at_boundaries_only():
    states = list(history())
    page, writer = Page(render_transcript(states[0])), FragmentWriter(states[0])
    spoken = [""]
    for state in states[1:]:
        page.apply(writer.update(state))
        if page.text("status") != spoken[-1]:
            spoken.append(page.text("status"))
    assert spoken == [
        "",
        "Running get_weather, get_weather.",
        "Running get_weather.",
        "Answering.",
        "Answer finished.",
    ]


def test_stop_is_shown_while_a_run_is_active():
    states = list(history())
    writer = FragmentWriter(states[0])
    said = [writer.update(state) for state in states[1:]]
    assert sum("id=live" in each for each in said) == 1
    assert "<i id=live hidden></i>" in next(each for each in said if "id=live" in each)


# -- text that wants to be markup ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_no_channel_lets_markup_through(text):
    call = ToolCallPart("c1", text, text)
    states = [
        state_of(user_message("u1", text), title=text),
        state_of(user_message("u1", text), bot(ThinkingPart(text), TextPart(text), call), title=text + "."),
        state_of(
            Message("s1", "system", (TextPart(text),)),
            Message(
                "u1", "user", (TextPart(text), FilePart(url=text, name=text), ImagePart(text, text, text))
            ),
            bot(ThinkingPart(text * 2), TextPart(text * 2), call, finish="tool_calls"),
            tool(ToolResultPart("c1", text, error=text)),
            bot(ToolCallPart("c2", text, json.dumps({text: text})), id="a2", finish="length"),
            tool(ToolResultPart("c2", json.dumps({"error": text})), id="t2"),
            bot(TextPart(f"```{text}\n{text}"), id="a3", finish="stop"),
            run=replace(DONE, state="failed", error=text, error_code=text, model=text),
            title=text,
        ),
        state_of(ASK, bot(TextPart("a"), finish="stop"), run=replace(DONE, stop_reason=text)),
    ]
    for state in states:
        assert_inert(render_transcript(state))
        assert_inert(render_full(state))
    writer = FragmentWriter(states[0])
    page = Page(render_transcript(states[0]))
    for state in states[1:]:
        said = writer.update(state)
        assert_inert(said)
        page.apply(said)
        assert page.log == Page(render_transcript(state)).log
