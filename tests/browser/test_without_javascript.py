"""With JavaScript switched off, plain forms do: log in, send, read, stop, retry."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import WEATHER, reload_until, turn_page
from tests.server import Person
from tests.standin import Say, StandIn

pytestmark = pytest.mark.slow


@pytest.fixture
def page(context_of, person: Person) -> Page:
    page = context_of(java_script_enabled=False).new_page()
    page.goto("/")
    page.get_by_label("User name").fill(person.name)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("nav .me")).to_contain_text(person.name)
    return page


def send(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    turn_page(page.get_by_role("button", name="Send"))


def read_answer(page: Page, text: str) -> None:
    reload_until(page, text)
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def test_a_question_is_sent_and_its_answer_read_after_a_reload(page: Page):
    send(page, WEATHER)
    expect(page.locator("#log .user")).to_contain_text(WEATHER)
    read_answer(page, "wear a light jacket")
    page.locator("details.call summary").first.click()
    expect(page.locator("details.call pre").first).to_contain_text("San Francisco")
    send(page, "help")
    read_answer(page, "I am the built-in demo model.")
    expect(page.locator("#log > .run")).to_have_count(2)


def test_an_answer_is_stopped_and_asked_for_again(page: Page, standin: StandIn):
    standin.play(Say("Too late.", delay=60))
    page.get_by_label("Model").select_option("stand-in")
    send(page, "Take your time")
    # Playwright's own eyes do not look into <noscript>.
    expect(page.locator("noscript p")).to_contain_text("An answer is being written.")
    turn_page(page.get_by_role("button", name="Stop"))
    read_answer(page, "Stopped by you")
    turn_page(page.get_by_role("button", name="Retry"))
    read_answer(page, "You said: Take your time")
    expect(page.locator("#log > .run")).to_have_count(1)


@pytest.mark.slow
def test_what_cannot_be_sent_is_said_and_stays_in_the_box(page: Page, watch):
    send(page, "help")
    read_answer(page, "I am the built-in demo model.")
    watch.allow("413|422")
    long = "x" * 100_001
    send(page, long)
    expect(page.get_by_role("alert")).to_contain_text("100,000")
    expect(page.get_by_label("Message")).to_have_value(long)
    send(page, "   ")
    expect(page.get_by_role("alert")).to_contain_text("empty")
    expect(page.locator("#log > .run")).to_have_count(1)


@pytest.mark.slow
def test_a_send_while_an_answer_is_written_says_so_and_keeps_the_text(page: Page, standin: StandIn, watch):
    standin.play(Say("Too late.", delay=60))
    page.get_by_label("Model").select_option("stand-in")
    send(page, "Take your time")
    watch.allow("409")
    page.get_by_label("Message").fill("Also this")
    with page.expect_navigation():
        page.get_by_label("Message").evaluate("box => box.form.submit()")
    expect(page.get_by_role("alert")).to_contain_text("still being written")
    expect(page.get_by_label("Message")).to_have_value("Also this")
    turn_page(page.get_by_role("button", name="Stop"))
    read_answer(page, "Stopped by you")
