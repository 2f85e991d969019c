"""Reload, second tab, Stop, a lost connection, a hidden tab: no word twice, no word missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from agent.providers.demo_texts import SLOW
from tests.browser.chat import Chat, eventually, words_of
from tests.browser.conftest import OpenChat
from tests.browser.tap import Tap
from tests.server import Person, Server
from tests.standin import Say, StandIn

ANSWER = SLOW.replace("**", "")
CUTS = 20

NETWORK_LOST = "ERR_INTERNET_DISCONNECTED|htmx:sse:error: Failed to fetch"


@pytest.fixture
def tap() -> Iterator[Tap]:
    """What the answer comes from: no test is in a hurry."""
    tap = Tap(ANSWER)
    yield tap
    tap.rest()


@pytest.fixture
def streaming(chat: Chat, standin: StandIn, tap: Tap) -> Chat:
    """A page in the middle of an answer, of which a fifth is on its way."""
    tap.let(35)
    standin.play(tap.answer())
    chat.ask("Tell me slowly", model="stand-in")
    chat.grown(100)
    return chat


def expect_whole(chat: Chat) -> None:
    """Every word of the answer, once, in order; and the same when the page is loaded anew."""
    chat.expect_settled()
    assert words_of(chat.answer_text()) == words_of(ANSWER)
    shown = chat.transcript()
    chat.page.reload()
    eventually(chat.page, chat.transcript, shown)


def test_a_reload_in_mid_answer_goes_on_where_it_was(streaming: Chat, tap: Tap):
    for _ in range(3):
        before = words_of(streaming.answer_text())[:-1]
        tap.let(15)  # some come while it is loaded
        streaming.page.reload()
        length = streaming.grown()
        assert words_of(streaming.answer_text())[: len(before)] == before
        streaming.active()
        tap.let(15)
        streaming.grown(length)
    tap.rest()
    expect_whole(streaming)


@pytest.mark.slow
def test_two_tabs_show_the_same(streaming: Chat, open_chat: OpenChat, tap: Tap):
    other = open_chat(streaming.path)
    other.grown(200)
    other.active()
    tap.rest()
    expect_whole(streaming)
    expect_whole(other)
    eventually(other.page, other.transcript, streaming.transcript())


@pytest.mark.slow
def test_what_one_tab_sends_the_other_shows(chat: Chat, open_chat: OpenChat):
    chat.ask("help").done()
    other = open_chat(chat.path)
    chat.ask("parallel")
    expect(other.last.locator(".user")).to_contain_text("parallel")
    expect(other.runs).to_have_count(2)
    other.done()
    other.ask("And what in Oslo? The weather, please.").done()
    expect(chat.runs).to_have_count(3)
    chat.done()
    eventually(chat.page, chat.transcript, other.transcript())


@pytest.mark.slow
def test_stop_in_one_tab_ends_both(streaming: Chat, open_chat: OpenChat):
    other = open_chat(streaming.path)
    other.grown(150)
    other.stop_button.click()
    for each in (other, streaming):
        each.done()
        expect(each.said).to_contain_text("Stopped by you")
        each.expect_settled()
    eventually(other.page, other.transcript, streaming.transcript())


def test_stop_keeps_the_text_says_so_and_the_next_message_is_taken(streaming: Chat, standin: StandIn):
    streaming.stop_button.click()
    streaming.done()
    expect(streaming.said).to_have_text("Stopped by you. What was written so far is kept.")
    kept = words_of(streaming.answer_text())
    assert kept[:-1] == words_of(ANSWER)[: len(kept) - 1]
    assert 5 < len(kept) < len(words_of(ANSWER))
    assert standin.exchanges[-1].closed.wait(30), "the provider was left to talk on"
    shown = streaming.transcript()
    streaming.page.reload()
    eventually(streaming.page, streaming.transcript, shown)
    streaming.ask("And now?").done()
    expect(streaming.answer).to_contain_text("You said: And now?")


@pytest.mark.slow
def test_stop_before_the_first_word(chat: Chat, standin: StandIn):
    standin.play(Say(ANSWER, delay=60))
    chat.ask("Anybody there?", model="stand-in")
    chat.active()
    chat.stop_button.click()
    chat.done()
    expect(chat.said).to_contain_text("Stopped by you")
    chat.expect_settled()
    chat.ask("Still usable?").done()
    expect(chat.answer).to_contain_text("You said: Still usable?")


@pytest.mark.slow
def test_stop_by_the_keyboard_puts_the_cursor_back_into_the_message(streaming: Chat):
    streaming.stop_button.focus()
    streaming.page.keyboard.press("Enter")
    streaming.done()
    expect(streaming.text).to_be_focused()


@pytest.mark.slow
def test_retry_answers_a_stopped_message_anew(streaming: Chat):
    streaming.stop_button.click()
    streaming.done()
    streaming.page.get_by_role("button", name="Retry").click()
    expect(streaming.answer).to_contain_text("You said: Tell me slowly")
    streaming.expect_settled()
    expect(streaming.runs).to_have_count(1)


def test_a_lost_connection_comes_back_with_no_word_twice(streaming: Chat, watch, tap: Tap):
    watch.allow(NETWORK_LOST)
    shown = streaming.grown()
    streaming.offline(True)
    cut_streams(streaming.page)
    tap.let(50)
    streaming.offline(False)
    streaming.grown(shown)
    tap.rest()
    expect_whole(streaming)


@pytest.mark.slow
def test_what_was_said_while_the_browser_was_away_is_there_when_it_is_back(
    streaming: Chat, server, person, watch, tap: Tap
):
    watch.allow(NETWORK_LOST)
    streaming.offline(True)
    cut_streams(streaming.page)
    rest_to_the_end(server, person, streaming, tap)
    assert words_of(streaming.answer_text()) != words_of(ANSWER)
    streaming.offline(False)
    expect_whole(streaming)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_connection_that_is_cut_twenty_times_in_one_answer_loses_and_doubles_nothing(
    chat: Chat, standin: StandIn, watch
):
    watch.allow(NETWORK_LOST)
    tap = Tap(ANSWER, size=len(ANSWER) // (CUTS + 1))
    tap.let(1)
    standin.play(tap.answer(delay=0.05))
    chat.ask("Bit by bit", model="stand-in")
    chat.grown(10)
    for _ in tap.pieces[1:]:
        before = letters_of(chat)
        cut_streams(chat.page)
        tap.let(1)
        chat.page.wait_for_function(
            "([n]) => document.querySelector('#log > .run:last-child .bot > .md')"
            ".textContent.replace(/\\s/g, '').length > n",
            arg=[len(before)],
            timeout=30_000,
        )
        assert letters_of(chat).startswith(before)
    assert len(tap.pieces) - 1 >= CUTS
    tap.rest()
    expect_whole(chat)


def letters_of(chat: Chat) -> str:
    return "".join(words_of(chat.answer_text()))


@pytest.mark.slow
def test_a_hidden_tab_keeps_no_connection_and_catches_up_when_it_is_shown(
    streaming: Chat, server, person, tap: Tap
):
    hide(streaming.page, True)
    streaming.page.wait_for_function("() => !document.getElementById('stream')._htmx?.sse?.reader")
    shown = streaming.answer_text()
    rest_to_the_end(server, person, streaming, tap)
    assert streaming.answer_text() == shown
    hide(streaming.page, False)
    expect_whole(streaming)


@pytest.mark.slow
def test_a_page_that_was_opened_hidden_follows_once_it_is_shown(
    streaming: Chat, open_chat: OpenChat, tap: Tap
):
    other = open_chat("/")
    other.page.add_init_script(
        "Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})"
    )
    other.open(streaming.path)
    tap.rest()
    streaming.done()
    other.active()
    hide(other.page, False)
    expect_whole(other)


@pytest.mark.slow
def test_a_reader_who_scrolled_up_stays_there(chat: Chat, standin: StandIn):
    text = "\n\n".join(f"Paragraph {n}. " + "word " * 30 for n in range(1, 60))
    tap = Tap(text, size=100)
    tap.let(50)
    standin.play(tap.answer(delay=0.04))
    chat.ask("long", model="stand-in")
    chat.grown(4850)  # the last of the fifty is there
    chat.page.locator("#scroll").hover()
    chat.page.mouse.wheel(0, -1200)
    expect(chat.page.locator("#jump")).to_be_visible()
    at = chat.page.locator("#scroll").evaluate("s => s.scrollTop")
    length = chat.grown()
    tap.let(20)
    chat.grown(length + 500)
    assert chat.page.locator("#scroll").evaluate("s => s.scrollTop") == at
    chat.page.locator("#jump").click()
    expect(chat.page.locator("#jump")).to_be_hidden()
    tap.rest()
    chat.done()
    left = "s => s.scrollHeight - s.scrollTop - s.clientHeight < 2"
    eventually(chat.page, lambda: chat.page.locator("#scroll").evaluate(left), True)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_demo_models_slow_answer_is_whole_after_many_reloads(chat: Chat):
    chat.ask("slow")
    length = 0
    while length < 1200:
        length = chat.grown(length + 100)
        chat.page.reload()
    chat.done(60)
    assert words_of(chat.answer_text()) == words_of(ANSWER)


def hide(page: Page, hidden: bool) -> None:
    """What a browser does to a tab in the background; headless tabs are always shown."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
            const state = hidden ? "hidden" : "visible";
            Object.defineProperty(document, "visibilityState", {configurable: true, get: () => state});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def cut_streams(page: Page) -> None:
    """Going offline lets open connections live on in Chromium; a network that is lost does not."""
    page.wait_for_function("() => document.getElementById('stream')._htmx?.sse?.reader")
    page.evaluate("() => document.getElementById('stream')._htmx.sse.reader.cancel()")


def rest_to_the_end(server: Server, person: Person, chat: Chat, tap: Tap) -> None:
    """All of the answer; that it is there is asked of the server, not of the page."""
    thread = chat.path.split("/")[2]
    with server.client(person) as client, client.stream("GET", f"/threads/{thread}/events") as response:
        tap.rest()
        for line in response.iter_lines():
            if '"RUN_FINISHED"' in line:
                return
    raise AssertionError("the stream ended before the answer")
