"""The main flow in Firefox ESR, as Debian brings it: sign in, ask, look into a card, stop, approve, come back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chat import WEATHER
from tests.browser.firefox import ENTER, FIREFOX, Firefox
from tests.server import Person, Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

READY = "document.readyState === 'complete' && !document.querySelector('form.htmx-request')"
DONE = "!document.querySelector('#live.on') && !document.querySelector('#log .busy')"
LAST = "document.querySelector('#log > .run:last-child')"
SHOWN = """[...document.querySelectorAll("#log :is(.bubble, .md, summary b, .st, .answered, .said, .facts)")]
    .map((one) => one.textContent).join("\\n")"""

PLANTED = """new Promise((done) => {
    addEventListener("securitypolicyviolation", () => done(true));
    document.body.insertAdjacentHTML("beforeend", '<p style="color: red">');
})"""
"""So that it is seen that the test would hear of one."""


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    if FIREFOX is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Firefox ESR, and CI must have one")
        pytest.skip("there is no Firefox ESR on this machine")
    with Firefox(tmp_path) as firefox:
        yield firefox


def test_the_main_flow_works_in_firefox(firefox: Firefox, server: Server, person: Person):
    sign_in(firefox, server, person)

    ask(firefox, WEATHER)
    firefox.until(f"{LAST}.innerText.includes('wear a light jacket') && {DONE}")
    assert firefox.value("document.querySelectorAll('#log details.call .st.done').length") == 2
    firefox.click("#log details.call > summary")
    firefox.until("document.querySelector('#log details.call[open] pre')?.checkVisibility()")

    ask(firefox, "slow")
    firefox.until(f"{LAST}.querySelector('.bot > .md')?.textContent.length > 50")
    firefox.click("button.stop")
    firefox.until(f"{LAST}.querySelector('.said')?.textContent.includes('Stopped by you') && {DONE}")

    ask(firefox, "Send an email to ada@example.org")
    firefox.until(f"{LAST}.querySelector('.ask')?.checkVisibility()")
    firefox.click("#log .ask button[value=approved]")
    firefox.until(f"{LAST}.innerText.includes('is sent') && {DONE}")

    assert firefox.complaints == []

    shown = firefox.value(SHOWN)
    firefox.reload()
    firefox.until(f"{READY} && {DONE}")
    assert firefox.value(SHOWN) == shown
    # The stream of the page that was left: Firefox calls that an error of its own.
    assert [one for one in firefox.complaints if "Error in input stream" not in one] == []

    assert firefox.value(PLANTED), "the content policy does not hold"
    firefox.hear("Content-Security-Policy")


def sign_in(firefox: Firefox, server: Server, person: Person) -> None:
    firefox.open(f"{server.url}/accounts/login/")
    firefox.type("input[name=login]", person.name)
    firefox.type("input[name=password]", person.password + ENTER)
    firefox.until("document.querySelector('#text')?.checkVisibility()")


def ask(firefox: Firefox, text: str) -> None:
    firefox.until(READY)
    before = firefox.value("document.querySelectorAll('#log > .run').length")
    firefox.type("#text", text + ENTER)
    firefox.until(f"document.querySelectorAll('#log > .run').length === {before + 1}")
    firefox.until(f"{READY} && !document.querySelector('#text').value")
