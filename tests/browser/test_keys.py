"""The keyboard map: what each key does, that none acts while somebody types, and that they can be switched off."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat
from tests.browser.test_look import serious
from tests.standin import Say, StandIn

pytestmark = pytest.mark.slow


def leave_the_box(chat: Chat) -> Page:
    # The answer to a send puts the cursor back into the box; it may come later than the message on the stream.
    expect(chat.text).to_have_value("")
    chat.text.press("Escape")
    expect(chat.text).not_to_be_focused()
    return chat.page


def test_the_question_mark_shows_the_map_and_escape_closes_it(chat: Chat):
    page, shown = leave_the_box(chat), chat.page.get_by_role("dialog", name="Keyboard")
    page.keyboard.press("?")
    expect(shown).to_be_visible()
    expect(shown.get_by_role("button", name="Close")).to_be_focused()
    assert serious(page) == []
    page.keyboard.press("c")
    expect(shown).to_be_visible()
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    page.get_by_role("button", name="Keyboard").click()
    expect(shown).to_be_visible()


def test_in_the_message_box_keys_are_letters(chat: Chat):
    chat.text.press_sequentially("nj/k?sy c")
    expect(chat.text).to_have_value("nj/k?sy c")
    expect(chat.page.get_by_role("dialog")).to_be_hidden()


def test_each_key_does_what_the_map_says(chat: Chat, standin: StandIn):
    chat.ask("help").done()
    chat.ask("What is 2 + 2?").done()
    page = leave_the_box(chat)
    page.keyboard.press("k")
    expect(chat.last.locator(".bot").last).to_be_focused()
    page.keyboard.press("k")
    expect(chat.last.locator(".user")).to_be_focused()
    page.keyboard.press("j")
    expect(chat.last.locator(".bot").first).to_be_focused()
    with chat.will_say("Copied"):
        page.keyboard.press("y")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.locator("#scroll").focus()
    page.keyboard.press("c")
    expect(chat.text).to_be_focused()
    standin.play(Say("Too late.", delay=60))
    chat.ask("Take your time", model="stand-in").active()
    leave_the_box(chat)
    page.keyboard.press("s")
    chat.done()
    expect(chat.said).to_contain_text("Stopped by you")
    leave_the_box(chat)
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile(r"//[^/]+/$"))


def test_they_can_be_switched_off_for_good(chat: Chat):
    page = chat.page
    page.get_by_role("button", name="Keyboard").click()
    page.get_by_label("Use these keys").uncheck()
    page.keyboard.press("Escape")
    for _ in range(2):
        leave_the_box(chat)
        page.keyboard.press("c")
        expect(chat.text).not_to_be_focused()
        page.reload()


def test_on_a_narrow_page_the_search_key_opens_the_list(open_chat: OpenChat):
    chat = open_chat(viewport={"width": 320, "height": 640})
    leave_the_box(chat).keyboard.press("/")
    expect(chat.page.get_by_role("searchbox")).to_be_focused()
