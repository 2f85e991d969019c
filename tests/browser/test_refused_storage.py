"""A browser that keeps nothing for the page: all of it works, but for the drafts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.chat import Chat
from tests.server import Person

pytestmark = pytest.mark.slow

REFUSE = """for (const name of ["localStorage", "sessionStorage"])
    Object.defineProperty(window, name, { get() { throw new DOMException("refused", "SecurityError"); } });"""


def test_a_thread_is_written_read_and_edited(context_of: Callable[..., BrowserContext], person: Person):
    context = context_of(person)
    context.add_init_script(REFUSE)
    chat = Chat(context.new_page()).open()
    chat.ask("repeat one").done()
    expect(chat.answer).to_contain_text("one")
    expect(chat.text).to_have_value("")
    chat.last.locator(".user").hover()
    chat.last.locator(".user").get_by_role("link", name="Edit").click()
    expect(chat.text).to_have_value("repeat one")
    chat.text.fill("repeat two")
    chat.text.press("Enter")
    expect(chat.last.locator(".user .vers")).to_contain_text("2 / 2")
    chat.done()
    chat.page.locator("#scroll").focus()
    chat.page.keyboard.press("?")
    expect(chat.page.locator("#shortcuts")).to_be_visible()
    chat.page.get_by_label("Use these keys in this browser").uncheck()
    chat.page.keyboard.press("?")
    expect(chat.page.locator("#shortcuts")).to_be_visible()
