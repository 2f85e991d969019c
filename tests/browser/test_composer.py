"""The message box: its keys, its draft, and that nothing typed is ever lost."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Page, expect

from agent.providers.demo_texts import MARKDOWN
from tests.browser.chat import Chat, Watch, eventually
from tests.browser.conftest import OpenChat
from tests.standin import Say, StandIn

pytestmark = pytest.mark.slow

LIMIT = 100_000


@pytest.fixture
def waiting(chat: Chat, standin: StandIn) -> Chat:
    """A page whose answer does not come until somebody stops it."""
    standin.play(Say("Too late.", delay=60))
    chat.ask("Take your time", model="stand-in")
    chat.active()
    yield chat
    chat.stop_button.click()
    chat.done()


def test_enter_sends_and_empties_the_box(chat: Chat):
    chat.ask("help").done()
    expect(chat.text).to_have_value("")
    expect(chat.text).to_be_focused()
    chat.page.reload()
    expect(chat.text).to_have_value("")


def test_shift_and_enter_break_the_line(chat: Chat):
    chat.text.press_sequentially("one")
    chat.text.press("Shift+Enter")
    chat.text.press_sequentially("two")
    expect(chat.text).to_have_value("one\ntwo")
    expect(chat.runs).to_have_count(0)
    chat.text.press("Enter")
    expect(chat.last.locator(".user")).to_contain_text("one\ntwo")
    eventually(chat.page, lambda: chat.last.locator(".user .bubble").inner_text().strip(), "one\ntwo")


def test_enter_while_composing_sends_nothing(chat: Chat):
    chat.text.fill("にほん")
    for event in ({"isComposing": True}, {"keyCode": 229}):
        chat.text.dispatch_event("keydown", {"key": "Enter", "bubbles": True, "cancelable": True, **event})
    assert chat.path == "/"
    expect(chat.text).to_have_value("にほん")
    chat.text.fill("日本")  # had it been sent, that would be the message
    chat.text.press("Enter")
    expect(chat.runs).to_have_count(1)
    expect(chat.last.locator(".user")).to_contain_text("日本")


def test_a_double_click_on_send_makes_one_message(chat: Chat):
    chat.ask("help").done()
    chat.text.fill("help me twice")
    chat.send_button.dblclick()
    expect(chat.runs).to_have_count(2)
    chat.done()
    chat.page.reload()
    expect(chat.runs).to_have_count(2)


@pytest.mark.slow
def test_a_double_click_on_the_first_send_makes_one_thread(chat: Chat):
    chat.text.fill("help me twice")
    chat.send_button.dblclick()
    expect(chat.runs).to_have_count(1)
    chat.done()
    chat.open("/")
    expect(chat.page.locator("nav .list li")).to_have_count(1)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_an_empty_message_does_nothing(text: str, chat: Chat):
    chat.ask("help").done()
    chat.text.fill(text)
    chat.text.press("Enter")
    chat.send_button.click(force=True)
    chat.ready()  # had anything been sent, it would be taken by now
    chat.page.reload()
    expect(chat.runs).to_have_count(1)


def test_a_draft_survives_a_reload_and_belongs_to_its_thread(chat: Chat):
    chat.ask("help").done()
    thread = chat.path
    chat.text.fill("half a thou")
    chat.page.reload()
    expect(chat.text).to_have_value("half a thou")
    chat.open("/")
    expect(chat.text).to_have_value("")
    chat.text.fill("another one")
    chat.open(thread)
    expect(chat.text).to_have_value("half a thou")
    chat.open("/")
    expect(chat.text).to_have_value("another one")


def test_two_megabytes_are_refused_in_words_at_once(chat: Chat):
    chat.ask("help").done()
    chat.text.fill("before ")
    took = chat.page.evaluate(
        """() => {
            const box = document.getElementById("text");
            const clipboardData = new DataTransfer();
            clipboardData.setData("text", "x".repeat(2_000_000));
            const took = Array.from({length: 25}, () => {
                const began = performance.now();
                box.dispatchEvent(new ClipboardEvent("paste", {clipboardData, bubbles: true, cancelable: true}));
                return performance.now() - began;
            });
            return Math.min(...took); // the rest is a machine with other things to do
        }"""
    )
    assert took < 200
    expect(chat.notice).to_contain_text("100,000")
    expect(chat.notice).to_contain_text("2,000,007")
    expect(chat.text).to_have_value("before ")
    expect(chat.runs).to_have_count(1)


@pytest.mark.slow
def test_too_long_a_text_that_got_in_is_not_sent_and_stays(chat: Chat):
    chat.ask("help").done()
    chat.text.fill("x" * (LIMIT + 1))
    chat.text.press("Enter")
    expect(chat.notice).to_contain_text("100,000")
    eventually(chat.page, lambda: len(chat.text.input_value()), LIMIT + 1)
    chat.page.reload()
    expect(chat.runs).to_have_count(1)


@pytest.mark.slow
def test_the_longest_message_is_taken(chat: Chat):
    text = "long " * (LIMIT // 5)
    chat.ask(text.strip() + "!").done()
    eventually(chat.page, lambda: len(chat.last.locator(".user .bubble").text_content() or ""), LIMIT)


def test_what_is_sent_while_an_answer_is_written_waits_and_can_be_cancelled(waiting: Chat):
    queue = waiting.page.locator("#queue li")
    waiting.text.fill("Also this")
    expect(waiting.stop_button).to_be_visible()
    expect(waiting.send_button).to_be_hidden()
    waiting.text.press("Enter")
    expect(queue).to_contain_text("Also this")
    expect(waiting.text).to_have_value("")
    waiting.page.reload()
    expect(queue).to_contain_text("Also this")
    expect(waiting.text).to_have_value("")
    queue.get_by_role("button", name="Cancel").click()
    expect(queue).to_have_count(0)
    expect(waiting.runs).to_have_count(1)


@pytest.mark.slow
def test_send_now_stops_the_answer_and_sends(chat: Chat, standin: StandIn):
    standin.play(Say("Too late.", delay=60))
    chat.ask("Take your time", model="stand-in").active()
    chat.text.fill("Also this")
    chat.text.press("Enter")
    chat.page.locator("#queue").get_by_role("button", name="Send now").click()
    expect(chat.runs).to_have_count(2)
    expect(chat.runs.first.locator(".said")).to_contain_text("Stopped by you")
    expect(chat.last.locator(".user")).to_contain_text("Also this")
    expect(chat.page.locator("#queue li")).to_have_count(0)
    chat.done()


@pytest.mark.slow
def test_what_waits_stays_when_the_answer_was_stopped(chat: Chat, standin: StandIn):
    standin.play(Say("Too late.", delay=60))
    chat.ask("Take your time", model="stand-in").active()
    chat.text.fill("Also this")
    chat.text.press("Enter")
    chat.stop_button.click()
    chat.done()
    expect(chat.said).to_contain_text("Stopped by you")
    chat.page.reload()
    expect(chat.page.locator("#queue li")).to_contain_text("Also this")
    expect(chat.runs).to_have_count(1)
    chat.page.locator("#queue").get_by_role("button", name="Send now").click()
    expect(chat.runs).to_have_count(2)
    chat.done()


@pytest.mark.slow
def test_what_waits_is_sent_once_by_two_tabs_when_the_answer_is_there(chat: Chat, standin: StandIn):
    gate = threading.Event()
    standin.play(Say("Here it is, after a while.", gate=gate))
    chat.ask("Take your time", model="stand-in").active()
    other = Chat(chat.page.context.new_page()).open(chat.path)
    chat.text.fill("Also this")
    chat.text.press("Enter")
    expect(other.page.locator("#queue li")).to_contain_text("Also this")
    gate.set()
    expect(chat.runs).to_have_count(2)
    chat.done()
    other.page.bring_to_front()
    expect(other.runs).to_have_count(2)
    expect(other.page.locator("#queue li")).to_have_count(0)
    other.page.reload()
    expect(other.runs).to_have_count(2)


@pytest.mark.slow
def test_a_lone_surrogate_and_a_nul_do_no_harm(chat: Chat, watch):
    watch.allow("422")
    chat.ask("help").done()
    chat.page.evaluate("document.getElementById('text').value = 'half \\ud83d and nul \\0'")
    chat.text.press("Enter")
    expect(chat.notice.or_(chat.runs.nth(1))).to_be_visible()
    chat.expect_settled()


@pytest.mark.slow
def test_text_is_kept_when_the_server_cannot_be_reached(chat: Chat, watch):
    watch.allow("ERR_INTERNET_DISCONNECTED|Failed to fetch")
    chat.ask("help").done()
    chat.offline(True)
    chat.text.fill("Are you there?")
    chat.text.press("Enter")
    expect(chat.notice).to_contain_text("offline")
    expect(chat.text).to_have_value("Are you there?")
    chat.ready()
    chat.offline(False)
    chat.text.press("Enter")
    expect(chat.runs).to_have_count(2)
    expect(chat.notice).to_have_count(0)
    expect(chat.text).to_have_value("")


@pytest.mark.slow
def test_text_is_kept_when_the_session_has_ended(chat: Chat, watch):
    chat.ask("help").done()
    chat.page.context.clear_cookies()
    watch.allow("403")
    chat.text.fill("Do you know me?")
    chat.text.press("Enter")
    expect(chat.notice).to_be_visible()
    expect(chat.text).to_have_value("Do you know me?")


@pytest.mark.slow
def test_a_thread_that_is_gone_says_so_and_keeps_the_text(chat: Chat, watch):
    watch.allow("404")
    chat.ask("help").done()
    chat.page.evaluate(
        """() => {
            const form = document.getElementById("composer");
            form.setAttribute("hx-post", "/threads/gone/send");
            form.action = "/threads/gone/send";
        }"""
    )
    chat.text.fill("Hello?")
    chat.text.press("Enter")
    expect(chat.notice).to_contain_text("not here any more")
    expect(chat.text).to_have_value("Hello?")


@pytest.mark.slow
def test_the_suggestions_fill_the_box(chat: Chat):
    chat.page.get_by_role("link", name="Compare Paris and Rome").click()
    expect(chat.text).to_have_value("Compare Paris and Rome")
    expect(chat.text).to_be_focused()
    chat.text.press("Enter")
    expect(chat.last.locator("details.call")).to_have_count(4)
    chat.expect_settled()


@pytest.mark.slow
def test_the_box_grows_with_its_text_and_no_further_than_the_page(chat: Chat):
    def height() -> float:
        return chat.text.bounding_box()["height"]

    low = height()
    most = 0.5 * chat.page.viewport_size["height"]
    chat.text.fill("\n" * 5)
    eventually(chat.page, lambda: 2 * low < height() < most, True)
    chat.text.fill("\n" * 500)
    eventually(chat.page, lambda: 3 * low < height() < most, True)
    chat.text.fill("")
    eventually(chat.page, height, low)


def clipboard(page: Page) -> str:
    return page.evaluate("navigator.clipboard.readText()")


@pytest.mark.slow
def test_code_and_answers_can_be_copied_as_they_were_written(open_chat: OpenChat, watch: Watch):
    watch.allow("ERR_INTERNET_DISCONNECTED|htmx:sse:error")
    chat = open_chat(permissions=["clipboard-read", "clipboard-write"])
    chat.ask("Show a long markdown answer").done()
    page, copy_all = chat.page, chat.last.locator("button.copy.all")
    code = chat.last.locator("figure button.copy").first
    code.click()  # what is copied comes a moment after the click
    start = "async def run(model, tools, transcript):"
    eventually(page, lambda: clipboard(page)[: len(start)], start)
    with chat.will_say("Copied"):
        copy_all.click()
    eventually(page, lambda: clipboard(page), MARKDOWN.strip("\n"))  # the answer as it was written
    # Where the server cannot be asked: as it is shown.
    chat.offline(True)
    copy_all.click()
    start = "A tour of markdown"
    eventually(page, lambda: clipboard(page)[: len(start)], start)
    chat.offline(False)
    assert "Copy" not in clipboard(page)
