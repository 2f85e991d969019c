"""Progress in a card's line: a bar where it says how much is done, words for whatever else a tool told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.messages import ToolCallPart, ToolResultPart, user_message
from agent.underway import Underway
from chatsite.chat.render.fragments import FragmentWriter, render_transcript
from chatsite.chat.render.within import progress_html
from tests.chat.render.hostile import HOSTILE, assert_inert
from tests.chat.render.page import Page
from tests.chat.render.test_fragments import bot, state_of, tool

CALL = ToolCallPart("c1", "watch_sky", '{"hours": 3}')


@pytest.mark.parametrize(
    ("value", "bar", "said"),
    [
        ({"progress": 0.25}, "0.250", "25%"),
        ({"progress": 1, "message": "nearly"}, "1.000", "100% nearly"),
        ({"done": 1500, "total": 3000}, "0.500", "1,500 of 3,000"),
        ({"done": 4, "total": 3}, None, '{"done": 4, "total": 3}'),
        ({"done": 0, "total": 0}, None, '{"done": 0, "total": 0}'),
        ({"progress": True}, None, '{"progress": true}'),
        ({"progress": float("nan")}, None, '{"progress": NaN}'),
        ({"status": "reading"}, None, "reading"),
        ("line one\nline two", None, "line one line two"),
        (7, None, "7"),
        ([1, 2], None, "[1, 2]"),
    ],
)
def test_progress_is_a_bar_or_words(value, bar, said):
    html = progress_html(value)
    assert (f'value="{bar}"' in html) is (bar is not None)
    assert "<progress" in html or bar is None
    assert html.rpartition(">")[2].replace("&quot;", '"') == said


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_progress_is_text(text):
    for value in (text, {"progress": 0.5, "message": text}, {text: [text]}):
        assert_inert(f"<span>{progress_html(value)}</span>")


def test_progress_changes_the_cards_line_alone_and_is_gone_with_the_result():
    asked, calling = user_message("u1", "Watch"), bot(CALL, finish="tool_calls")
    before = state_of(asked, calling)
    page, writer = Page(render_transcript(before)), FragmentWriter(before)
    for done in range(3):
        state = state_of(asked, calling)
        last = replace(state.segments[-1], underway=Underway({"c1": {"done": done, "total": 3}}))
        state = replace(state, segments=(last,))
        fragments = writer.update(state)
        page.apply(fragments)
        assert f"{done} of 3" in page.log
        assert fragments.count(" id=m") == 1
        assert len(fragments) < 250
        assert page.log == Page(render_transcript(state)).log
    over = state_of(asked, calling, tool(ToolResultPart("c1", '"clear"', duration_ms=900)))
    page.apply(writer.update(over))
    assert "progress" not in page.log
    assert page.log == Page(render_transcript(over)).log


def answered(content: str, **beside: Any) -> str:
    """The card of a call behind which a subagent gave that answer."""
    result = replace(tool(ToolResultPart("c1", content, duration_ms=9)), metadata={"subagent": {}, **beside})
    return render_transcript(state_of(user_message("u1", "Ask"), bot(CALL, finish="tool_calls"), result))


def test_a_subagents_answer_is_shown_like_any_answer():
    html = answered("Take a **jacket**:\n\n| hour | sky |\n|---|---|\n| 9 | fog |")
    assert "<strong>jacket</strong>" in html
    assert "<table" in html
    assert "**" not in html
    cut = answered("Take a **jac", full="Take a **jacket**.")
    assert "<strong>jacket</strong>" in cut
    assert "Take a **jac<" in cut, "what the model saw is shown as it is"


def test_what_a_subagent_filled_in_is_data():
    html = answered('{"wear": "a **jacket**"}')
    assert "**jacket**" in html
    assert "<strong>" not in html
    assert "<strong>jacket</strong>" in answered("[Oslo](https://example.org/): **jacket**")


def test_a_tools_result_is_no_markdown():
    result = tool(ToolResultPart("c1", "a **jacket**"))
    html = render_transcript(state_of(user_message("u1", "Ask"), bot(CALL, finish="tool_calls"), result))
    assert "a **jacket**" in html


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_answer_of_a_subagent_is_inert(text):
    assert_inert(answered(text))
    assert_inert(answered("cut", full=text))


def test_what_is_too_long_of_a_subagents_answer_is_counted():
    html = answered("word " * 10_000)
    assert "and 10,000 characters more" in html
