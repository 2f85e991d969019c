"""Progress in a card's line: a bar where it says how much is done, words for whatever else a tool told."""

from __future__ import annotations

from dataclasses import replace

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
