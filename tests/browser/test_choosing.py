"""A person chooses how a thread answers, and keeps it as a preset, in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import WEATHER, Chat, turn_page
from tests.browser.conftest import OpenChat

pytestmark = pytest.mark.slow


def test_a_tool_is_switched_off_for_one_thread_and_the_choice_becomes_a_preset(chat: Chat) -> None:
    page = chat.page
    chat.ask(WEATHER).done()
    expect(chat.card("get_clothing_advice")).to_have_count(1)
    page.get_by_role("button", name="This thread").click()
    turn_page(page.get_by_role("link", name="Settings"))
    page.get_by_role("checkbox", name="get_clothing_advice").uncheck()
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("spinbutton", name="Temperature").fill("0.5")
    page.get_by_label("Save as a preset too").fill("Brief")
    turn_page(page.get_by_role("button", name="Save as preset"))
    expect(page.get_by_role("status")).to_have_text("Saved.")
    expect(page.get_by_role("checkbox", name="get_clothing_advice")).not_to_be_checked()
    expect(page.get_by_role("spinbutton", name="Temperature")).to_have_value("0.5")

    turn_page(page.get_by_role("link", name="Back to the thread"))
    chat.ask(WEATHER).done()
    expect(chat.card("get_clothing_advice")).to_have_count(0)

    chat.open("/")
    turn_page(page.get_by_role("link", name="Brief"))
    expect(page.get_by_role("link", name="Brief")).to_have_attribute("aria-current", "true")
    chat.ask("Hello").done()
    expect(page.get_by_role("link", name="Settings of this thread")).to_be_visible()


def test_settings_are_chosen_without_a_script_at_320_pixels(open_chat: OpenChat) -> None:
    chat = open_chat("/", java_script_enabled=False, viewport={"width": 320, "height": 640})
    page = chat.page
    chat.text.fill("Hello")
    turn_page(chat.send_button)
    expect(chat.runs).to_have_count(1)
    page.goto(f"{chat.path}settings")
    page.get_by_label("System prompt").fill("Be brief.")
    turn_page(page.get_by_role("button", name="Save", exact=True))
    expect(page.get_by_role("status")).to_have_text("Saved.")
    expect(page.get_by_label("System prompt")).to_have_value("Be brief.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
