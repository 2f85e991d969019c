"""Edit, versions, delete and take back, quote, fork: with a mouse, in two tabs, and without JavaScript."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.chat import Chat, eventually, reload_until, turn_page
from tests.browser.conftest import OpenChat

pytestmark = pytest.mark.slow


def question(chat: Chat) -> Locator:
    return chat.last.locator(".user")


def edit(chat: Chat, text: str) -> None:
    question(chat).hover()
    question(chat).get_by_role("link", name="Edit").click()
    expect(chat.page.locator("#editing")).to_be_visible()
    chat.text.fill(text)
    chat.text.press("Enter")
    expect(question(chat)).to_contain_text(text)
    expect(chat.page.locator("#editing")).to_be_hidden()
    chat.done()


def more(row: Locator, name: str) -> None:
    row.hover()
    row.locator(".more summary").click()
    row.locator(".more").get_by_text(name, exact=True).click()


def test_an_edit_makes_a_version_and_the_picker_goes_between_them_in_every_tab(
    chat: Chat, open_chat: OpenChat
):
    chat.ask("repeat one").done()
    chat.text.fill("half a thought")
    question(chat).hover()
    question(chat).get_by_role("link", name="Edit").click()
    expect(chat.text).to_have_value("repeat one")
    chat.text.press("Escape")
    expect(chat.text).to_have_value("half a thought")
    edit(chat, "repeat two")
    expect(chat.text).to_have_value("half a thought")
    expect(chat.runs).to_have_count(1)
    picker = question(chat).locator(".vers")
    expect(picker).to_contain_text("2 / 2")
    other = open_chat(chat.path)
    expect(question(other)).to_contain_text("repeat two")
    picker.get_by_role("button", name="Previous version").click()
    expect(question(chat)).to_contain_text("repeat one")
    expect(picker).to_contain_text("1 / 2")
    expect(question(other)).to_contain_text("repeat one")
    eventually(chat.page, chat.transcript, other.transcript())
    shown = chat.transcript()
    chat.page.reload()
    expect(chat.runs).to_have_count(1)
    eventually(chat.page, chat.transcript, shown)


def test_an_answer_is_had_anew_and_the_first_one_stays_a_version(chat: Chat):
    chat.ask("help").done()
    chat.last.get_by_role("button", name="Try again").click()
    picker = chat.last.locator(".end .vers")
    expect(picker).to_contain_text("2 / 2")
    chat.done()
    picker.get_by_role("button", name="Previous version").click()
    expect(picker).to_contain_text("1 / 2")
    expect(chat.runs).to_have_count(1)
    chat.page.reload()
    expect(picker).to_contain_text("1 / 2")


def test_another_model_answers_anew(chat: Chat):
    chat.ask("help").done()
    more(chat.last.locator(".end"), "Try another model")
    chat.page.locator("#models").get_by_role("button", name=re.compile("stand-in")).first.click()
    expect(chat.answer).to_contain_text("You said: help")
    chat.done()
    expect(chat.last.locator(".facts")).to_contain_text("stand-in")
    expect(chat.last.locator(".end .vers")).to_contain_text("2 / 2")


def test_a_message_is_deleted_and_taken_back(chat: Chat):
    chat.ask("repeat one").done()
    chat.ask("repeat two").done()
    before = chat.transcript()
    more(question(chat), "Delete")
    expect(chat.runs).to_have_count(1)
    expect(chat.notice).to_contain_text("The message is deleted.")
    chat.notice.get_by_role("button", name="Undo").click()
    expect(chat.runs).to_have_count(2)
    expect(chat.notice).to_have_count(0)
    eventually(chat.page, chat.transcript, before)


def test_the_only_message_can_be_deleted_too(chat: Chat):
    chat.ask("repeat one").done()
    more(question(chat), "Delete")
    expect(chat.runs).to_have_count(0)
    expect(chat.notice).to_contain_text("The message is deleted.")
    chat.ask("repeat two").done()
    chat.page.reload()
    expect(chat.runs).to_have_count(1)


def test_a_quote_and_a_new_thread_from_an_answer(chat: Chat):
    chat.ask("help").done()
    first = chat.path
    chat.text.fill("Well.")
    more(chat.last.locator(".end"), "Quote")
    expect(chat.text).to_have_value(re.compile(r"^Well\.\n\n> "))
    chat.text.fill("")
    more(chat.last.locator(".end"), "New thread from here")
    chat.page.wait_for_url(lambda url: not url.endswith(first))
    chat.ask("repeat two").done()
    expect(chat.runs).to_have_count(2)
    chat.open(first)
    expect(chat.runs).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_rows_beneath_messages(scheme: str, open_chat: OpenChat):
    chat = open_chat(color_scheme=scheme)
    chat.ask("repeat one").done()
    edit(chat, "repeat two")
    question(chat).locator(".more summary").click()
    chat.last.locator(".end .more summary").click()
    found = Axe().run(chat.page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in {"serious", "critical"}] == []


def test_the_rows_fit_into_a_narrow_page(open_chat: OpenChat):
    chat = open_chat(viewport={"width": 320, "height": 640}, has_touch=True)
    chat.ask("repeat one").done()
    edit(chat, "repeat two")
    question(chat).locator(".more summary").click()
    chat.last.locator(".end .more summary").click()
    assert chat.page.evaluate("document.querySelector('#scroll').scrollWidth") <= 320


def test_all_of_it_works_without_javascript(context_of, person):
    page: Page = context_of(person, java_script_enabled=False).new_page()
    page.goto("/")

    def send(text: str) -> None:
        page.get_by_label("Message").fill(text)
        turn_page(page.get_by_role("button", name="Send"))
        reload_until(page, text)

    send("repeat one")
    turn_page(page.locator(".user").get_by_role("link", name="Edit"))
    expect(page.get_by_label("Message")).to_have_value("repeat one")
    send("repeat two")
    expect(page.locator(".user .vers")).to_contain_text("2 / 2")
    turn_page(page.get_by_role("button", name="Previous version"))
    expect(page.locator(".user")).to_contain_text("repeat one")
    page.locator(".user .more summary").click()
    turn_page(page.locator(".user").get_by_role("button", name="Delete"))
    expect(page.locator(".user")).to_contain_text("repeat two")
    turn_page(page.get_by_role("button", name="Undo"))
    expect(page.locator(".user")).to_contain_text("repeat one")
    expect(page.locator(".user .vers")).to_contain_text("1 / 2")
