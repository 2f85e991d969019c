"""For everybody: text from right to left, large zoom, 320 pixels on each page, and the page as an app of its own."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat
from tests.browser.conftest import OpenChat
from tests.browser.test_look import NARROW, overflow, serious
from tests.standin import Say, StandIn

pytestmark = pytest.mark.slow

ARABIC = "مرحبا بك\n\n- واحد\n- اثنان\n\n```python\nprint(1)\n```\n\nEnglish in between.\n"
SIDE = "one => getComputedStyle(one).direction"
FROM_RIGHT = """one => {
    const range = document.createRange();
    range.selectNodeContents(one);
    const text = range.getBoundingClientRect(), box = one.getBoundingClientRect();
    return box.right - text.right < 2 && text.left - box.left > 20;
}"""


def test_text_from_right_to_left_begins_at_the_right(chat: Chat, standin: StandIn):
    standin.play(Say(ARABIC))
    chat.ask("ما هو الطقس؟ (weather)", model="stand-in").done()
    answer = chat.answer.last
    assert chat.last.locator(".bubble").evaluate(SIDE) == "rtl"
    assert answer.evaluate(SIDE) == "rtl"
    assert answer.locator("p").first.evaluate(FROM_RIGHT)
    assert answer.locator("ul").evaluate("one => getComputedStyle(one).paddingRight") != "0px"
    assert answer.locator("figure pre").evaluate(SIDE) == "ltr"
    assert not answer.locator("p").last.evaluate(FROM_RIGHT)
    chat.text.fill("ما هو")
    assert chat.text.evaluate(SIDE) == "rtl"


def test_the_page_works_at_twice_its_size(open_chat: OpenChat):
    """A window of 1280 by 800 pixels at 200 %."""
    chat = open_chat(viewport={"width": 640, "height": 400}, device_scale_factor=2)
    chat.ask("Show a long markdown answer").done()
    assert overflow(chat.page) == 0
    assert chat.page.locator("#scroll").bounding_box()["height"] > 140
    expect(chat.text).to_be_in_viewport()
    expect(chat.send_button).to_be_in_viewport()
    chat.text.fill("line\n" * 40)
    expect(chat.send_button).to_be_in_viewport()
    assert chat.page.locator("#scroll").bounding_box()["height"] > 60


def test_each_page_is_good_at_320_pixels(open_chat: OpenChat):
    chat = open_chat(viewport=NARROW)
    chat.ask("A word without an end: " + "x" * 300).done()
    for path in (chat.path, "/search?q=word", "/archive", f"{chat.path}share"):
        chat.page.goto(path)
        assert overflow(chat.page) == 0, path
        assert serious(chat.page) == [], path


def test_the_page_can_be_installed(chat: Chat):
    page = chat.page
    link = page.locator("link[rel=manifest]").get_attribute("href")
    manifest = page.evaluate("async (link) => (await fetch(link)).json()", link)
    assert (manifest["name"], manifest["start_url"], manifest["display"]) == ("Threadloom", "/", "standalone")
    sizes = page.evaluate(
        """async (icons) => Promise.all(icons.map(async ({src}) => {
            const image = Object.assign(new Image(), {src});
            await image.decode();
            return [src.split(".").pop(), image.naturalWidth];
        }))""",
        manifest["icons"],
    )
    assert [each for each in sizes if each[0] == "png"] == [["png", 192], ["png", 512], ["png", 512]]
    # As the browser itself reads it, through the page's content policy.
    found = page.context.new_cdp_session(page).send("Page.getAppManifest")
    assert found["url"].endswith(link)
    assert found["errors"] == []
