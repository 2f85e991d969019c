"""Narrow, dark, without motion, by keyboard alone, and what axe finds."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.chat import WEATHER, Chat, turn_page
from tests.browser.conftest import OpenChat
from tests.browser.tap import Tap
from tests.server import Person, Server
from tests.standin import Say, StandIn

NARROW = {"width": 320, "height": 640}

CONTRAST = """element => {
    const parts = (colour) => {
        const context = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data];
    };
    const over = ([r, g, b, a], ground) =>
        [r, g, b].map((value, i) => (value * a + ground[i] * (255 - a)) / 255);
    const chain = [];
    for (let one = element; one; one = one.parentElement) chain.unshift(getComputedStyle(one).backgroundColor);
    const white = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    const ground = chain.reduce((below, colour) => over(parts(colour), below), white);
    const text = over(parts(getComputedStyle(element).color), ground);
    const light = (colour) => {
        const [r, g, b] = colour
            .map((value) => value / 255)
            .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [low, high] = [light(text), light(ground)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}"""

MAIN_TEXTS = [
    "#title",
    "nav .list a",
    "nav .list h2",
    "nav .me .name",
    "#log .bubble",
    "#log .md p",
    "#log .md code",
    "#log .md a",
    "#log .md td",
    "#log .md blockquote",
    "#log figcaption",
    "#log figure pre",
    "#log figure pre span",
    "#log details.call summary b",
    "#log details.call .brief",
    "#log details.call .st",
    "#log .said",
    "#log .facts",
    "#log button",
    "#text",
    "#model",
    "#keys",
]


PAINTED = """() => new Promise((done) => requestAnimationFrame(
    () => requestAnimationFrame(() => setTimeout(() => done(performance.now())))))"""
"""When all that the page holds has been seen."""

MOVED_SINCE = """began => window.shifts
    .filter((one) => !one.hadRecentInput && one.startTime > began).map((one) => one.value)"""


def full_chat(chat: Chat) -> Chat:
    """A thread that has something of everything."""
    for text in (WEATHER, "Show a long markdown answer", "unknown tool", "error"):
        chat.ask(text).done()
    chat.page.locator("details.call summary").first.click()
    return chat


def overflow(page: Page) -> int:
    page.wait_for_load_state()
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def serious(page: Page) -> list[str]:
    page.wait_for_load_state()
    # What a stylesheet lets fade in is looked at when it is there.
    page.evaluate(
        "Promise.allSettled(document.getAnimations().map(one => one.effect.getTiming().iterations === "
        "Infinity ? null : one.finished))"
    )
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['help']}\n  "
        + "\n  ".join(node["html"] for node in each["nodes"])
        for each in found
        if each["impact"] in {"serious", "critical"}
    ]


@pytest.mark.slow
def test_320_pixels_are_enough(open_chat: OpenChat):
    chat = full_chat(open_chat(viewport=NARROW))
    assert overflow(chat.page) == 0
    for name in ("#text", "#title", ".send"):
        box = chat.page.locator(name).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320
    wider = chat.page.locator("#log *").evaluate_all(
        """all => all.filter(one => one.getBoundingClientRect().right > innerWidth + 1
            && !one.closest("pre, .table")).map(one => one.outerHTML.slice(0, 100))"""
    )
    assert wider == []


@pytest.mark.slow
def test_on_a_narrow_page_the_thread_list_is_a_drawer(open_chat: OpenChat):
    chat = open_chat(viewport=NARROW)
    chat.ask("help").done()
    listed = chat.page.locator("nav .list a")
    expect(listed).to_be_hidden()
    chat.page.get_by_role("button", name="Threads").click()
    expect(listed).to_be_visible()
    assert overflow(chat.page) == 0
    chat.page.keyboard.press("Escape")
    expect(listed).to_be_hidden()
    chat.page.get_by_role("button", name="Threads").click()
    turn_page(listed)
    expect(chat.runs).to_have_count(1)
    chat.page.get_by_role("link", name="New thread").click()
    expect(chat.runs).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(scheme: str, open_chat: OpenChat):
    chat = full_chat(open_chat(color_scheme=scheme))
    ground = chat.page.evaluate("getComputedStyle(document.body).backgroundColor")
    weak: list[str] = []
    for selector in MAIN_TEXTS:
        texts = chat.page.locator(selector).locator("visible=true")
        expect(texts.first, f"nothing to see of {selector}").to_be_visible()
        for text in texts.all()[:40]:
            ratio = text.evaluate(CONTRAST)
            if ratio < 4.5:
                weak.append(f"{selector} {text.inner_text()[:30]!r}: {ratio:.2f}")
    assert weak == [], ground


@pytest.mark.slow
def test_dark_is_dark(open_chat: OpenChat):
    grounds = [
        open_chat(color_scheme=scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert len(set(grounds)) == 2, grounds


@pytest.mark.slow
def test_whoever_wants_no_motion_gets_none(open_chat: OpenChat, standin: StandIn):
    chat = open_chat(reduced_motion="reduce")
    standin.play(Say("Too late.", delay=60))
    chat.ask("Take your time", model="stand-in")
    chat.active()
    expect(chat.stop_button).to_be_visible()
    assert chat.page.evaluate("document.getAnimations().length") == 0
    chat.stop_button.click()
    chat.done()


@pytest.mark.slow
def test_nothing_jumps_while_an_answer_streams(chat: Chat, standin: StandIn):
    chat.ask("Show a long markdown answer").done()
    tap = Tap("One word after the other, " * 40, size=10)
    tap.let(10)
    standin.play(tap.answer())
    chat.page.evaluate(
        """() => {
            window.shifts = [];
            new PerformanceObserver((list) => window.shifts.push(...list.getEntries()))
                .observe({type: "layout-shift", buffered: false});
        }"""
    )
    chat.ask("Go on", model="stand-in")
    # Sending brings the newest line into view; from there on nothing may move that was not scrolled.
    chat.grown(90)
    began = chat.page.evaluate(PAINTED)
    composer = chat.page.locator("#composer").bounding_box()
    tap.let(60)
    chat.grown(600)
    chat.page.evaluate(PAINTED)
    assert chat.page.evaluate(MOVED_SINCE, began) == []
    assert chat.page.locator("#composer").bounding_box() == composer
    tap.rest()
    chat.done()


@pytest.mark.slow
def test_the_keyboard_alone_is_enough(chat: Chat, standin: StandIn):
    page = chat.page
    expect(chat.text).to_be_focused()
    tab_to(page, page.get_by_role("link", name="Skip to the message box"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(chat.text).to_be_focused()
    page.keyboard.type(WEATHER)
    page.keyboard.press("Enter")
    expect(chat.runs).to_have_count(1)
    chat.done()
    expect(chat.text).to_be_focused()

    card = chat.card("get_weather").locator("summary")
    tab_to(page, card, "Shift+Tab")
    page.keyboard.press("Enter")
    expect(chat.card("get_weather").locator("pre").first).to_be_visible()
    assert card.evaluate("e => getComputedStyle(e).outlineStyle") != "none", "the focus cannot be seen"

    standin.play(Say("Too late.", delay=60))
    tab_to(page, page.locator("#model"), "Tab")
    page.keyboard.type("stand")
    tab_to(page, chat.text, "Shift+Tab")
    page.keyboard.type("Take your time")
    page.keyboard.press("Enter")
    chat.active()
    # That it was taken, which brings the keyboard back to the box, may come after the message itself.
    expect(chat.text).to_have_value("")
    tab_to(page, chat.stop_button, "Tab")
    page.keyboard.press("Enter")
    chat.done()
    expect(chat.said).to_contain_text("Stopped by you")
    expect(chat.text).to_be_focused()


def tab_to(page: Page, wanted: Locator, key: str) -> None:
    for _ in range(60):
        if wanted.evaluate("e => e === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} never came to it")


@pytest.mark.slow
def test_a_screen_reader_hears_of_borders_and_not_of_every_word(chat: Chat, standin: StandIn):
    chat.ask("help").done()
    chat.page.evaluate(
        """() => {
            window.heard = [];
            const status = document.getElementById("status");
            new MutationObserver(() => window.heard.push(document.getElementById("status").textContent))
                .observe(status.parentElement, {childList: true, subtree: true, characterData: true});
        }"""
    )
    standin.play(Say("Word after word. " * 40, pieces=10, delay=0.01))
    chat.ask("Go on", model="stand-in").done()
    expect(chat.page.locator("#status")).to_have_text("Answer finished.")
    heard = chat.page.evaluate("window.heard.filter((text, i, all) => text && text !== all[i - 1])")
    assert "Answer finished." in heard
    assert len(heard) <= 4
    assert not [text for text in heard if "Word after" in text]
    expect(chat.page.get_by_role("log")).to_have_attribute("aria-live", "off")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(scheme: str, open_chat: OpenChat):
    chat = open_chat(color_scheme=scheme)
    assert serious(chat.page) == []
    full_chat(chat)
    assert serious(chat.page) == []


@pytest.mark.slow
def test_axe_finds_nothing_serious_in_mid_answer_and_in_the_drawer(open_chat: OpenChat, standin: StandIn):
    chat = open_chat(viewport=NARROW)
    standin.play(Say("Too late.", delay=60))
    chat.ask("Take your time", model="stand-in")
    chat.active()
    assert serious(chat.page) == []
    chat.page.get_by_role("button", name="Threads").click()
    assert serious(chat.page) == []
    chat.page.keyboard.press("Escape")
    chat.stop_button.click()
    chat.done()


@pytest.mark.slow
def test_axe_finds_nothing_serious_on_the_pages_around(context_of, person: Person, server: Server, watch):
    page = context_of().new_page()
    page.goto("/accounts/login/")
    assert serious(page) == []
    watch.allow("404")
    page.goto("/nothing/here/")
    page = context_of(person).new_page()
    page.goto("/threads/nothing/")
    assert serious(page) == []
    page.goto("/presets")
    assert serious(page) == []
    page.goto("/accounts/")
    assert serious(page) == []
    chat = Chat(page).open().ask("Hello").done()
    page.goto(f"{chat.path}settings")
    page.get_by_text("More", exact=True).click()
    assert serious(page) == []
