"""Every state an answer can come to, as the demo model shows it: words, what to do next, no dead spinner."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat, eventually
from tests.standin import Broken, StandIn
from tests.words import A_KEY

pytestmark = pytest.mark.slow


def test_calls_side_by_side_stay_in_the_order_of_their_calls(chat: Chat):
    chat.ask("parallel").done()
    cards = chat.last.locator("details.call")
    expect(cards).to_have_count(3)
    expect(cards.locator(".brief")).to_have_text(["Paris", "Rome", "Oslo"])
    expect(cards.locator(".st.done")).to_have_count(3)
    chat.expect_settled()


def test_an_error_is_a_sentence_and_retry_works(chat: Chat):
    chat.ask("error").done()
    expect(chat.said).to_contain_text("The demo model was asked for an error")
    expect(chat.last.locator(".user")).to_contain_text("error")
    for _ in range(2):
        expect(chat.said).to_be_visible()
        shown = chat.transcript()
        retry = chat.page.get_by_role("button", name="Retry")
        id = chat.last.get_attribute("id")
        retry.click()
        expect(chat.page.locator(f"#{id}")).to_have_count(0)
        chat.done()
        eventually(chat.page, chat.transcript, shown)
    expect(chat.runs).to_have_count(1)
    chat.expect_settled()


def test_another_model_answers_what_one_could_not(chat: Chat):
    chat.ask("error").done()
    chat.last.get_by_role("button", name="Try another model").click()
    chat.page.locator("#models").get_by_role("button", name="stand-in").first.click()
    expect(chat.answer).to_contain_text("You said: error")
    expect(chat.runs).to_have_count(1)
    chat.expect_settled()


def test_a_cut_answer_says_so_and_can_be_continued(chat: Chat):
    chat.ask("cut").done()
    expect(chat.said).to_have_text("Cut off: the answer reached the output limit.")
    chat.expect_settled()
    chat.page.get_by_role("button", name="Continue").click()
    expect(chat.runs).to_have_count(2)
    expect(chat.last.locator(".user")).to_contain_text("Continue.")
    chat.done()
    expect(chat.page.get_by_role("button", name="Continue")).to_have_count(0)


@pytest.mark.slow
def test_a_cut_call_is_not_run(chat: Chat):
    chat.ask("cut call").done()
    expect(chat.card("get_weather").locator(".st")).to_contain_text("cut off")
    expect(chat.said).to_have_text("Cut off: the answer reached the output limit.")
    expect(chat.page.get_by_role("button", name="Continue")).to_be_visible()
    chat.expect_settled()


@pytest.mark.slow
def test_an_unknown_tool_is_an_error_the_model_can_go_on_from(chat: Chat):
    chat.ask("unknown tool").done()
    expect(chat.card("read_crystal_ball").locator(".st")).to_contain_text("unknown tool")
    expect(chat.answer.last).to_contain_text("There is no crystal ball here.")
    chat.expect_settled()


@pytest.mark.slow
def test_bad_arguments_are_refused_then_put_right(chat: Chat):
    chat.ask("bad arguments").done()
    cards = chat.last.locator("details.call")
    expect(cards).to_have_count(2)
    expect(cards.first.locator(".st")).to_contain_text("bad arguments")
    expect(cards.last.locator(".st")).to_contain_text("done")
    cards.first.locator("summary").click()
    expect(cards.first.locator(".err")).to_be_visible()
    chat.expect_settled()


@pytest.mark.slow
def test_a_tool_that_fails_says_why(chat: Chat):
    chat.ask("What is the weather in Nowhere?").done()
    expect(chat.card("get_weather").locator(".st")).to_contain_text("failed")
    expect(chat.answer.last).to_contain_text("I could not get the weather for Nowhere")
    chat.expect_settled()


@pytest.mark.slow
def test_a_filtered_answer_says_so(chat: Chat):
    chat.ask("filter").done()
    expect(chat.said).to_have_text("The provider's content filter stopped this answer.")
    expect(chat.answer).to_contain_text("This answer began well")
    chat.expect_settled()


@pytest.mark.slow
def test_a_loop_is_ended_by_the_limit_and_said(chat: Chat):
    chat.ask("loop").done(40)
    expect(chat.answer.last).to_contain_text("a limit of the server stopped me")
    expect(chat.said).to_contain_text("limit for one answer")
    chat.expect_settled()
    chat.page.get_by_role("button", name="Continue past the limit").click()
    expect(chat.runs).to_have_count(2)
    chat.done(40)
    expect(chat.last.locator(".user")).to_contain_text("Continue.")
    chat.expect_settled()


@pytest.mark.slow
def test_an_answer_that_breaks_off_keeps_what_came(chat: Chat):
    chat.ask("break off").done()
    expect(chat.answer).to_contain_text("This answer will not reach its end.")
    expect(chat.said).to_be_visible()
    expect(chat.page.get_by_role("button", name="Retry")).to_be_visible()
    chat.expect_settled()


@pytest.mark.slow
def test_thoughts_are_folded_away_and_open(chat: Chat):
    chat.ask("think").done()
    thoughts = chat.last.locator("details.fold")
    head = thoughts.locator("summary")
    expect(head).to_have_text(re.compile(r"^Thought for [\d.]+ m?s$"))
    expect(thoughts.locator(".md")).to_be_hidden()
    thoughts.locator("summary").click()
    expect(thoughts.locator(".md")).to_contain_text("The person wants to see me think.")
    took = head.inner_text()
    chat.page.reload()
    expect(head).to_have_text(took)
    chat.expect_settled()


def test_all_of_markdown_is_the_same_streamed_and_loaded(chat: Chat):
    chat.ask("Show a long markdown answer").done()
    answer = chat.answer
    expect(answer.locator("table")).to_have_count(1)
    expect(answer.locator("figure.code")).to_have_count(2)
    expect(answer.locator("figure.code pre span").first).to_be_attached()
    expect(answer.locator("input[type=checkbox]")).to_have_count(3)
    expect(answer.locator("a[href^='https://spec.commonmark.org']")).to_have_attribute("target", "_blank")
    expect(answer).to_contain_text("<b>not bold</b>")
    # Without the card's own tools: what counts is the text's HTML.
    streamed = answer.evaluate("e => e.innerHTML")
    chat.page.reload()
    eventually(chat.page, lambda: answer.evaluate("e => e.innerHTML"), streamed)


@pytest.mark.slow
def test_a_very_long_answer_is_the_same_streamed_and_loaded(chat: Chat):
    chat.ask("very long").done(90)
    streamed = chat.answer.evaluate("e => e.innerHTML")
    assert "Chapter 35" in streamed
    chat.page.reload()
    eventually(chat.page, lambda: chat.answer.evaluate("e => e.innerHTML"), streamed)


BROKEN = ["garbage", "cut", "no_reason", "401", "404", "429_long", "500", "html", "refuse", "reset"]
"""What each says in words is tested where it is made (tests/agent); here, that a person gets to read it."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_provider_is_a_sentence_with_retry(kind: str, chat: Chat, standin: StandIn):
    times = 3 if kind in {"500", "refuse"} else 1
    standin.play(*[Broken(kind)] * times)
    chat.ask("Hello", model="stand-in").done()
    expect(chat.said).to_have_class("said bad")
    said = chat.said.inner_text()
    assert len(said.split()) > 3
    assert not any(each in said for each in ("Traceback", "<html"))
    assert not A_KEY.search(said)
    expect(chat.last.locator(".user .bubble")).to_have_text("Hello")
    chat.page.get_by_role("button", name="Retry").click()
    expect(chat.answer).to_contain_text("You said: Hello")
    chat.expect_settled()


# For as long as the sky can be watched, so that there is time to do things meanwhile.
WATCH = "progress of 24 hours"


def test_how_far_a_call_is_stands_in_its_card_and_nothing_moves(chat: Chat):
    # All that is compared is read in one look, since the next may be of another moment.
    look = """(card) => card.querySelector("progress") && [card.offsetHeight, card.querySelector("progress").value]"""
    chat.ask(WATCH)
    card = chat.card("watch_sky")
    bar = card.locator("progress")
    expect(card.locator(".going")).to_contain_text("of 24")
    height, first = card.evaluate(look)
    seen = chat.page.wait_for_function(
        "([height, first]) => { const card = document.querySelector('#log details.call');"
        " const bar = card.querySelector('progress');"
        " if (bar && card.offsetHeight !== height) return 'it moved';"
        " return bar?.value > first && 'it goes on'; }",
        arg=[height, first],
    )
    assert seen.json_value() == "it goes on"
    card.locator("summary").click()
    expect(bar).to_be_visible()
    chat.done()
    expect(bar).to_have_count(0)
    expect(card.locator(".st")).to_contain_text("done")


def test_how_far_a_call_is_stands_in_a_page_that_is_loaded_meanwhile(chat: Chat):
    chat.ask(WATCH)
    card = chat.card("watch_sky")
    bar = card.locator("progress")
    expect(bar).to_be_visible()
    chat.page.reload()
    expect(card.locator(".going")).to_contain_text("of 24")
    chat.done()
    expect(bar).to_have_count(0)
    expect(card.locator(".st")).to_contain_text("done")


def test_a_subagents_work_stands_in_the_card_with_its_questions_live_and_after_a_reload(chat: Chat):
    chat.ask("colleague: What should I wear in Oslo?").done()
    card = chat.card("ask_colleague").first
    card.locator("summary").first.click()
    behind = card.locator(".behind").first
    expect(behind.locator("> summary")).to_have_text("What the subagent did")
    expect(behind.locator(".call").first).to_be_hidden()
    behind.locator("> summary").click()
    expect(behind.locator(".call .st.done")).to_have_count(2)
    expect(behind.locator(".inner .md")).to_contain_text("Oslo")
    shown = chat.transcript()
    chat.page.reload()
    card.locator("summary").first.click()
    behind.locator("> summary").click()
    eventually(chat.page, chat.transcript, shown)
    chat.ask("colleague: Send an email to ada@example.org").done()
    card = chat.card("ask_colleague").first
    expect(card.locator("> summary .st")).to_contain_text("waiting for you")
    expect(card.get_by_role("button", name="Approve")).to_be_visible()
    card.get_by_role("button", name="Approve").click()
    expect(chat.page.locator("#log .run:nth-last-child(-n+2) .answered").first).to_contain_text("Approved")
    chat.done()
    chat.expect_settled()


def test_a_stop_says_what_may_have_happened_and_each_answer_what_it_took(chat: Chat):
    chat.ask(WATCH)
    expect(chat.card("watch_sky").locator("progress")).to_be_visible()
    chat.stop_button.click()
    chat.done()
    expect(chat.said).to_contain_text("Stopped by you.")
    expect(chat.said).to_contain_text("May have happened: watch_sky.")
    expect(chat.card("watch_sky").locator("progress")).to_have_count(0)
    chat.ask("parallel").done()
    expect(chat.last.locator(".facts")).to_have_text(re.compile(r"^demo · (< )?[\d.,]+ m?s · [\d,]+ tokens$"))
    chat.page.goto(f"{chat.path}settings")
    expect(chat.page.locator(".spent tbody tr")).to_contain_text("demo")
