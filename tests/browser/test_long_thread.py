"""A thread of a thousand messages: its end is there at once, the rest when it is asked for, and nothing jumps."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import turn_page
from tests.browser.conftest import OpenChat
from tests.browser.test_look import tab_to
from tests.server import Person, Server

pytestmark = pytest.mark.slow

FIRST_SEEN = """() => {
    const scroll = document.getElementById("scroll"), top = scroll.getBoundingClientRect().top;
    const one = [...document.querySelectorAll("#log .run")].find(run => run.getBoundingClientRect().bottom > top + 60);
    return [one.id, one.getBoundingClientRect().top];
}"""


@pytest.fixture
def path(server: Server, person: Person) -> str:
    thread = f"long-{person.name}"
    ended = server.manage(
        "shell", "-v", "0", "-c", f"from bench.seed import seed; seed({person.name!r}, {thread!r})"
    )
    assert ended.returncode == 0, ended.stderr
    return f"/threads/{thread}/"


def to_the_top(page: Page) -> None:
    """The page follows its newest line until it has heard, in one of the next frames, that somebody scrolled."""
    page.wait_for_function(
        """async () => {
            const scroll = document.getElementById("scroll");
            scroll.scrollTop = 0;
            for (let frame = 0; frame < 5; frame++) await new Promise(requestAnimationFrame);
            return scroll.scrollTop === 0;
        }"""
    )


def count(page: Page) -> int:
    return page.locator("#log .msg").count()


def test_earlier_messages_come_when_asked_and_what_is_read_stays_in_its_place(open_chat: OpenChat, path: str):
    chat = open_chat(path)
    page, link = chat.page, chat.page.get_by_role("link", name="Show earlier messages")
    assert 30 <= count(page) <= 35
    assert page.evaluate("() => document.querySelectorAll('*').length") < 1_500
    to_the_top(page)
    for step in (2, 3):
        before = page.evaluate(FIRST_SEEN)
        shown = count(page)
        page.locator("#status").evaluate("status => { status.textContent = ''; }")
        link.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("n => document.querySelectorAll('#log .msg').length > n", arg=shown)
        expect(page.locator("#status")).to_have_text("Earlier messages are shown.")
        expect(link).to_be_focused()
        id, top = page.evaluate(FIRST_SEEN)
        assert (id, round(top)) == (before[0], round(before[1])), step
    ids = page.locator("#log .run").evaluate_all("all => all.map(one => one.id)")
    assert len(ids) == len(set(ids))
    chat.ask("help").done()
    expect(chat.runs.last.locator(".user .bubble")).to_have_text("help")
    expect(page.locator("#jump")).to_be_hidden()


def test_without_javascript_the_link_leads_to_a_page_that_begins_further_up(
    context_of, person: Person, path: str
):
    page = context_of(person, java_script_enabled=False).new_page()
    page.goto(path)
    shown = count(page)
    newest = page.locator("#log .run").last.get_attribute("id")
    first = page.locator("#log .run").first.get_attribute("id")
    turn_page(page.get_by_role("link", name="Show earlier messages"))
    assert count(page) > shown
    expect(page.locator("#log .run").last).to_have_id(newest)
    expect(page.locator(f"#{first}")).to_be_in_viewport()


def test_a_search_hit_opens_the_thread_at_its_message_by_the_keyboard_alone(open_chat: OpenChat, path: str):
    chat = open_chat("/")
    page = chat.page
    expect(chat.text).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#scroll")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type('"about day 50"')
    page.keyboard.press("Enter")
    hit = page.locator(".found a")
    expect(hit).to_have_count(1)
    page.wait_for_load_state()
    tab_to(page, hit, "Tab")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    found = page.locator("#log .msg:target")
    expect(found).to_contain_text("And what about day 50?")
    expect(found).to_be_in_viewport()
    expect(found).to_be_focused()
    chat.ready()
    assert count(page) < 75
    assert page.locator("#log .run").last.inner_text().count("day 299")
    later = page.get_by_role("link", name="Show later messages")
    later.scroll_into_view_if_needed()
    before, shown = page.evaluate(FIRST_SEEN), count(page)
    later.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("n => document.querySelectorAll('#log .msg').length > n", arg=shown)
    expect(page.locator("#status")).to_have_text("Later messages are shown.")
    id, top = page.evaluate(FIRST_SEEN)
    assert (id, round(top)) == (before[0], round(before[1]))
    page.get_by_role("button", name="Jump to latest").click()
    chat.ask("help").done()
    expect(chat.runs.last.locator(".user .bubble")).to_have_text("help")
    ids = page.locator("#log .run").evaluate_all("all => all.map(one => one.id)")
    assert len(ids) == len(set(ids))
