"""The thread of the first start: each state a person may meet stands in it, at each width and in both themes."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.test_look import NARROW, overflow, serious

pytestmark = pytest.mark.slow

CALLS = {
    "done", "failed", "cut off", "skipped", "denied", "cancelled", "outcome unknown", "waiting for you",
    "timed out", "unknown tool",
}  # fmt: skip
ENDS = {"Cut off: the answer", "Stopped by you", "could not be reached"}


def open_tour(chat: Chat) -> Chat:
    chat.page.get_by_role("button", name="Open a thread that shows every state").click()
    expect(chat.page.locator("#log .ask")).to_be_attached()
    return chat.ready()


def test_every_state_stands_in_the_first_thread_and_axe_finds_nothing(chat: Chat):
    page = open_tour(chat).page
    states = chat.log.locator(".st").evaluate_all("all => all.map(one => one.firstChild.textContent)")
    assert set(states) >= CALLS
    said = " ".join(chat.log.locator(".said").all_inner_texts())
    assert [end for end in ENDS if end not in said] == []
    chat.log.locator("details.call").evaluate_all("all => all.forEach(one => { one.open = true; })")
    for width in (320, 768, 1280):
        page.set_viewport_size({**NARROW, "width": width})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            assert serious(page) == [], (width, scheme)
        assert overflow(page) == 0, width


def test_what_is_written_in_it_is_what_the_renderer_can(chat: Chat):
    log = open_tour(chat).log
    expect(log.locator("math[display=block]")).to_have_count(1)
    assert log.locator("math").first.evaluate("one => one.getBoundingClientRect().height") > 8
    expect(log.locator(".md table td").first).to_be_visible()
    expect(log.locator(".md input[type=checkbox]:checked")).to_have_count(1)
    expect(log.locator("figure.code figcaption").first).to_contain_text("python")
    expect(log.get_by_text("What the model saw")).to_have_count(1)
    expect(log.locator("details.fold > summary", has_text="Thought for")).to_have_count(1)
