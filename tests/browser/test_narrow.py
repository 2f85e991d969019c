"""320 pixels: what stands below the message box and behind an answer keeps its line and its edge."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat, turn_page
from tests.browser.conftest import OpenChat

pytestmark = pytest.mark.slow

NARROW = {"width": 320, "height": 640}
LINES = """foot => {
    const range = document.createRange();
    range.selectNodeContents(foot);
    return Math.round(range.getBoundingClientRect().height / parseFloat(getComputedStyle(foot).lineHeight));
}"""
EDGES = """end => {
    // Of a box its border, of words their first letter; of each line what it begins with.
    const left = (one) => {
        const range = document.createRange();
        range.selectNodeContents(one);
        return (one.matches(".said, .act") ? one : range).getBoundingClientRect().left;
    };
    const edges = [];
    let below = 0;
    for (const one of [...end.children].filter((each) => each.getClientRects().length)) {
        const { top, bottom } = one.getBoundingClientRect();
        if (top >= below) edges.push(left(one.querySelector("summary") ?? one));
        below = top >= below ? bottom : Math.max(below, bottom);
    }
    return edges.map((x) => x - end.closest(".run").getBoundingClientRect().left);
}"""


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_line_below_the_message_box_is_one_line(open_chat: OpenChat, language: str):
    chat = open_chat(viewport=NARROW, locale=language)
    expect(chat.page.locator("html")).to_have_attribute("lang", language)
    expect(chat.page.locator(".foot .show-keys")).to_be_visible()
    assert chat.page.locator("#keys").evaluate(LINES) == 1
    chat.ask("help").done()
    chat.page.goto(f"{chat.path}settings")
    chat.page.locator("#system").fill("Be brief.")
    turn_page(chat.page.locator("button.main"))
    chat.open(chat.path.removesuffix("settings"))
    expect(chat.page.locator("#keys a")).to_be_visible()
    assert chat.page.locator("#keys").evaluate(LINES) == 1


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("text", ["error", "cut", "Send an email to ada@example.org"])
def test_every_line_behind_an_answer_begins_at_its_edge(open_chat: OpenChat, text: str, language: str):
    chat: Chat = open_chat(viewport=NARROW, locale=language)
    chat.text.fill(text)
    chat.text.press("Enter")
    end = chat.last.locator("> .end:not(.busy)")
    expect(end).to_be_visible()
    edges = end.evaluate(EDGES)
    assert len(edges) > 1
    assert all(abs(edge) <= 1 for edge in edges), edges
