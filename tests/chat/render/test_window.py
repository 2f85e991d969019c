"""A long thread is shown from its end; what stands before comes when it is asked for, and everything still agrees."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from agent.messages import TextPart, ToolCallPart, user_message
from chatsite.chat.render.fragments import (
    FragmentWriter,
    render_after,
    render_before,
    render_full,
    render_page,
)
from chatsite.chat.render.window import MESSAGES, first_shown, section_id
from chatsite.chat.state import InterruptView, RunView, Segment, ThreadState
from tests.chat.render.page import Page
from tests.chat.render.test_fragments import DONE, OK, bot, tool

IDS = re.compile(r"<section id=(\S+)")


def run(number: int, *parts, **view) -> Segment:
    answer = bot(*(parts or (TextPart(f"answer {number}"),)), id=f"a{number}", finish="stop")
    return Segment(replace(DONE, id=f"run-{number}", **view), (user_message(f"u{number}", "And?"), answer))


def long_state(runs: int = 100, **extra) -> ThreadState:
    return ThreadState("thread", "Long", tuple(map(run, range(runs))), "c:1", **extra)


def places(html: str, state: ThreadState) -> list[int]:
    order = {section_id(segment): place for place, segment in enumerate(state.segments)}
    return [order[id] for id in IDS.findall(html)]


def test_a_page_shows_the_last_messages_in_whole_runs():
    state = long_state()
    assert places(render_page(state), state) == list(range(100 - MESSAGES // 2, 100))
    assert render_page(state).startswith("<p id=older ")
    assert f"({200 - MESSAGES})" in render_page(state)


def test_a_short_thread_has_no_link_to_older_messages():
    state = long_state(MESSAGES // 2)
    assert places(render_page(state), state) == list(range(MESSAGES // 2))
    assert "older" not in render_page(state)


def test_link_after_link_leads_to_the_first_message_and_no_run_comes_twice():
    state = long_state()
    html, shown = render_page(state), []
    while True:
        shown = places(html, state) + shown
        link = re.match(
            r"<p id=older class=older><a href=\"\?before=([^#]+)#\1\" hx-get=\"\?before=\1\"", html
        )
        if link is None:
            break
        html = render_before(state, link[1])
    assert shown == list(range(100))


def test_a_page_without_javascript_begins_further_up_and_goes_to_the_end():
    state = long_state()
    first = section_id(state.segments[first_shown(state)])
    assert places(render_page(state, before=first), state) == list(range(100 - MESSAGES, 100))


def test_a_page_opened_at_a_message_shows_what_stands_around_it_and_its_end_with_a_link_between():
    state = long_state()
    html = render_page(state, at="a20")
    assert places(html, state) == [*range(13, 28), *range(85, 100)]
    assert html.startswith("<p id=older ")
    assert "(26)" in html
    assert html.index("<p id=newer ") > html.index(f"<section id={section_id(state.segments[27])}")
    shown = places(html, state)[:15]
    while (link := re.search(r"<p id=newer .*?hx-get=\"\?after=(.+?)&amp;until=(.+?)\"", html)) is not None:
        html = render_after(state, link[1], link[2])
        shown += places(html, state)
    assert shown == list(range(13, 85))


@pytest.mark.parametrize(("at", "first"), [("a99", 85), ("a84", 77), ("u80", 73), ("nothing", 85), ("", 85)])
def test_a_page_opened_near_the_end_or_at_nothing_is_one_piece(at, first):
    state = long_state()
    html = render_page(state, at=at)
    assert places(html, state) == list(range(first, 100))
    assert "newer" not in html


def test_without_javascript_the_link_to_later_messages_opens_the_page_there():
    state = long_state()
    link = re.search(r"<p id=newer class=older><a href=\"\?at=(.+?)#(.+?)\"", render_page(state, at="a20"))
    assert link[1] == "u28"
    html = render_page(state, at=link[1])
    assert f"<article id={link[2]} " in html
    assert places(html, state)[:15] == list(range(21, 36))


def test_what_follows_goes_to_the_end_and_a_change_reaches_what_stands_around():
    state = long_state()
    page, writer = Page(render_page(state, at="a20")), FragmentWriter(state)
    before = grown(page)
    longer = replace(state, segments=(*state.segments, run(100)))
    page.apply(writer.update(longer))
    assert grown(page) == [*before, section_id(longer.segments[-1])]


def test_a_run_that_is_gone_has_nothing_before_it():
    state = long_state()
    assert render_before(state, "rNothing") is None
    assert places(render_page(state, before="rNothing"), state) == places(render_page(state), state)


def test_messages_of_no_run_are_shown_by_what_was_asked():
    none = RunView("", "finished")
    state = replace(long_state(), segments=tuple(replace(each, run=none) for each in long_state().segments))
    assert len(set(IDS.findall(render_page(state)))) == MESSAGES // 2


def test_an_open_question_is_shown_however_far_up_its_call_stands():
    asking = run(3, ToolCallPart("c1", "send", "{}"), state="interrupted", stop_reason="interrupt")
    runs = (*long_state(3).segments, asking, *long_state().segments[4:])
    question = InterruptView("q1", "run-3", "c1", "send")
    state = replace(long_state(), segments=runs, interrupts=(question,))
    assert places(render_page(state), state)[0] == 3
    answered = replace(state, interrupts=(replace(question, status="denied"),))
    assert places(render_page(answered), answered)[0] == 100 - MESSAGES // 2


def grown(page: Page) -> list[str]:
    return [each.attributes["id"] for each in page.root.find("log").elements if each.tag == "section"]


def test_what_follows_goes_to_the_end_of_a_page_that_shows_a_part():
    state = long_state()
    page, writer = Page(render_page(state)), FragmentWriter(state)
    longer = replace(state, segments=(*state.segments, run(100)))
    page.apply(writer.update(longer))
    assert grown(page) == [section_id(each) for each in longer.segments[100 - MESSAGES // 2 :]]


def test_a_change_far_up_reaches_the_page_that_shows_it_and_no_other():
    """A call that waited gets its result by a later run."""
    asking = run(3, ToolCallPart("c1", "send", "{}"), state="interrupted", stop_reason="interrupt")
    state = replace(long_state(), segments=(*long_state(3).segments, asking, *long_state().segments[4:]))
    later = Segment(replace(DONE, id="run-100"), (tool(OK), bot(TextPart("Sent."), id="a100", finish="stop")))
    after = replace(state, segments=(*state.segments, later))
    part, writer = Page(render_page(state)), FragmentWriter(state)
    whole = Page(render_page(state, before=section_id(state.segments[16])))
    assert len(grown(whole)) > len(grown(part))
    before = grown(part)
    changes = writer.update(after)
    for page in (part, whole):
        page.apply(changes)
        page.apply(changes)
    assert grown(part) == [*before, section_id(later)]
    assert "62" in whole.root.find(section_id(asking)).html()
    assert writer.update(replace(after, cursor="c:9")) == ""


def test_a_reader_whose_place_is_not_known_gets_the_page_and_not_the_whole_thread():
    state = long_state()
    page = Page("what it was")
    page.apply(render_full(state))
    assert page.log == Page(render_page(state)).log
