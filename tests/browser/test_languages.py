"""The page in another language: no word of the site stays English, each reader of a stream has their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from chatsite import catalogs
from tests.browser.chat import WEATHER, Chat, Watch, turn_page
from tests.browser.conftest import OpenChat
from tests.server import Person

pytestmark = pytest.mark.slow

GERMAN = {"locale": "de-DE"}
GERMAN_PO = catalogs.LOCALE / "de/LC_MESSAGES/django.po"
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w+\}")

SAID = r"""() => {
    for (const one of document.querySelectorAll("details")) one.open = true;
    const said = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const of_others = "[dir=auto], .found, pre, .raw, .err, .brief, code, .fields label, .switch small, "
        + "textarea, option, script, noscript, [lang=en]";
    while (texts.nextNode()) {
        const at = texts.currentNode.parentElement;
        const marked = at.closest("button.copy, figcaption") || !at.closest(of_others);
        if (marked && at.checkVisibility()) said.push(texts.currentNode.textContent);
    }
    for (const one of document.querySelectorAll("[aria-label], [title], [placeholder], [alt]"))
        if (!one.closest("[lang=en]"))
            said.push(...["aria-label", "title", "placeholder", "alt"].map((name) => one.getAttribute(name) || ""));
    return said.map((text) => text.replace(/\s+/g, " ").trim()).filter(Boolean);
}"""
"""What the page says of itself: its texts and names, and not what people, models and tools said."""

ENGLISH = re.compile(r"\b(the|is|of|and|this|your|you|for|with|by|are|not|from|what)\b", re.IGNORECASE)


def english() -> Iterator[re.Pattern[str]]:
    """Every marked sentence whose German is another, as what it looks like with its placeholders filled."""
    for entry in catalogs.brought_up(GERMAN_PO, catalogs.collected()):
        for said, german in zip((entry.key.id, entry.plural), (*entry.forms, "", "")[:2], strict=True):
            if entry.forms and len(PLACEHOLDER.sub("", said)) > 3 and said != german:
                yield re.compile(".+".join(map(re.escape, PLACEHOLDER.split(said))))


@pytest.fixture(scope="module")
def marked() -> list[re.Pattern[str]]:
    return list(english())


def left_over(page: Page, marked: list[re.Pattern[str]]) -> list[str]:
    said = page.evaluate(SAID)
    assert len(said) > 3
    return [text for text in said if ENGLISH.search(text) or any(each.fullmatch(text) for each in marked)]


def test_the_page_in_german_says_nothing_in_english_in_any_of_its_states(
    open_chat: OpenChat,
    context_of: Callable[..., BrowserContext],
    watch: Watch,
    marked: list[re.Pattern[str]],
):
    watch.allow("404")
    chat = open_chat(**GERMAN)
    page = chat.page
    expect(page.locator("html")).to_have_attribute("lang", "de")
    found = {"/": left_over(page, marked)}
    page.locator(".tour button").click()
    expect(chat.runs.first).to_be_visible()
    tour = chat.ready().path
    settings = [
        f"{tour}settings",
        f"{tour}share",
        "/presets",
        "/search?q=weather",
        "/archive",
        "/no/such/page",
    ]
    for path in (tour, *settings):
        page.goto(path)
        found[path] = left_over(page, marked)
    stranger = context_of(**GERMAN).new_page()
    for path in ("/accounts/login/", "/setup/none/"):
        stranger.goto(path)
        found[path] = left_over(stranger, marked)
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_each_reader_of_a_stream_has_their_own_language(
    context_of: Callable[..., BrowserContext], person: Person, marked: list[re.Pattern[str]]
):
    german = Chat(context_of(person, **GERMAN).new_page()).open()
    german.ask(WEATHER).done()
    english = Chat(context_of(person).new_page()).open(german.path)
    german.page.evaluate("window.same = english => english")
    german.ask("slow")
    english.active()
    german.page.locator(".composer button.stop").click()
    expect(english.last).to_contain_text("Stopped by you.")
    expect(german.last).to_contain_text("Auf Wunsch angehalten.")
    english.ask(WEATHER)
    expect(english.last.locator(".st").first).to_contain_text("done")
    expect(german.last.locator(".st").first).to_contain_text("fertig")
    german.done()
    expect(german.last.locator(".facts")).to_contain_text(re.compile(r"\d ms|\d,\d s"))
    assert left_over(german.page, marked) == []
    assert german.page.evaluate("!!window.same"), "the page was not loaded anew"


def test_a_person_chooses_their_language_and_keeps_it(chat: Chat):
    page = chat.page
    chat.ask("error").done()
    expect(chat.last.get_by_role("button", name="Retry")).to_be_visible()
    turn_page(page.get_by_role("button", name="Deutsch"))
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(chat.last.get_by_role("button", name="Erneut versuchen").first).to_be_visible()
    chat.open()
    expect(chat.text).to_have_attribute("placeholder", "Nachricht schreiben")
    chat.text.fill("x" * 10)
    chat.text.evaluate("(one) => { one.dataset.max = 5; }")
    page.get_by_role("button", name="English").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_the_script_of_the_page_speaks_german_too(open_chat: OpenChat, watch: Watch):
    watch.allow("ERR_INTERNET_DISCONNECTED|Failed to fetch")
    chat = open_chat(**GERMAN)
    chat.ask("help").done()
    copy = chat.last.get_by_role("button", name="Kopieren").last
    with chat.will_say("Kopiert"):
        copy.click()
    chat.offline(True)
    chat.text.fill("Hallo")
    chat.text.press("Enter")
    expect(chat.notice).to_contain_text("Der Text bleibt erhalten")
    chat.offline(False)
