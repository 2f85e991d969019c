"""Two tabs edit one message: the one that comes second is told so, and keeps what was typed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat, Watch
from tests.browser.conftest import OpenChat
from tests.standin import Say, StandIn

pytestmark = pytest.mark.slow


def test_of_two_edits_at_once_the_second_is_refused_in_words_and_its_text_stays(
    chat: Chat, open_chat: OpenChat, standin: StandIn, watch: Watch
):
    chat.ask("repeat one").done()
    second = open_chat()
    # It hears nothing of the first tab, as if both had been sent at the same moment.
    second.page.route("**/events?*", lambda route: route.abort())
    watch.allow("ERR_FAILED|Failed to fetch|network error")
    watch.allow("409")
    second.open(chat.path)
    for tab, text in ((chat, "repeat two"), (second, "repeat three")):
        tab.last.locator(".user").hover()
        tab.last.locator(".user").get_by_role("link", name="Edit").click()
        expect(tab.page.locator("#editing")).to_be_visible()
        tab.text.fill(text)

    standin.play(Say("Too late.", delay=60))
    chat.page.locator("#model").select_option("stand-in")
    chat.text.press("Enter")
    expect(chat.last.locator(".user .bubble")).to_have_text("repeat two")
    expect(chat.page.locator("#editing")).to_be_hidden()
    chat.active()

    second.text.press("Enter")
    expect(second.notice).to_contain_text("An answer is still being written here.")
    expect(second.text).to_have_value("repeat three")
    expect(second.page.locator("#editing")).to_be_visible()
    expect(chat.last.locator(".user .vers")).to_contain_text("2 / 2")

    # What the words say helps.
    chat.stop_button.click()
    chat.done()
    second.text.press("Enter")
    expect(second.page.locator("#editing")).to_be_hidden()
    expect(second.text).to_have_value("")
    expect(chat.last.locator(".user .bubble")).to_have_text("repeat three")
    expect(chat.last.locator(".user .vers")).to_contain_text("3 / 3")
    chat.done()
