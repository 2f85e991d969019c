"""What a person or a model writes is text. It runs nothing, loads nothing and breaks no page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat, Watch, turn_page
from tests.browser.conftest import OpenChat
from tests.browser.test_look import NARROW, overflow, serious
from tests.server import Person, Server
from tests.standin import Say, StandIn

HOSTILE = {
    "script": "<script>window.hurt = 1</script>",
    "handler": "<img src=x onerror='window.hurt = 1'><svg onload='window.hurt = 1'></svg>",
    "link": "[press](javascript:window.hurt=1) <a href='javascript:window.hurt=1'>here</a>",
    "data link": "[press](data:text/html,<script>window.hurt=1</script>)",
    "image": "![beacon](http://evil.example/b.png) ![beacon][1]\n\n[1]: http://evil.example/c.png",
    "html image": "<img src='http://evil.example/b.png'><iframe src='http://evil.example/'></iframe>",
    "htmx attributes": "<div hx-get='/accounts/logout/' hx-trigger='load'>x</div><b hx-on:click='window.hurt=1'>y</b>",
    "htmx elements": (
        "<hx-partial hx-target='#title' hx-swap='innerHTML'>owned</hx-partial>"
        "<hx-up to=log><p id=title>owned</p></hx-up><hx-set to=title k=0>owned</hx-set>"
        "<template hx type=partial hx-target='#title'>owned</template>"
    ),
    "our ids": "<p id=live class=on>x</p><div id=stream>y</div><form id=composer></form><div id=log></div>",
    "unclosed fence": "```html\n<script>window.hurt = 1</script>\n</code></pre></div><h1 id=title>owned",
    "unclosed tags": "</div></article></section></main><style>body{display:none}</style><!-- <textarea>",
    "form": "<form action='http://evil.example/'><input name=password><button>Log in</button></form>",
    "sse frame": 'x\n\nid: 9:9\ndata: <hx-partial hx-target="#title">owned</hx-partial>\n\n: y',
    "style": "<p style='position:fixed;inset:0;background:red'>big</p><link rel=stylesheet href=//evil.example/a.css>",
    "terminal": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "zalgo": "Z" + "\u0301\u0489\u0316" * 300 + " and \u202eright to left\u2066 without an end",
    "out of band": (
        "<div id=title hx-swap-oob='true'>owned</div><template hx-swap-oob='innerHTML:#title'>owned</template>"
        "<hx-partial hx-target='#composer' hx-swap='delete'></hx-partial>"
    ),
    "control": "bidi \u202e txt \u0007 \ufeff \u2028 line \x0b tab",
}


def expect_unharmed(page: Page, title: str) -> None:
    assert page.evaluate("window.hurt") is None
    expect(page.locator("#title")).to_have_text(title)
    expect(page.locator("#title")).to_have_count(1)
    for id in ("log", "live", "stream", "composer", "text"):
        expect(page.locator(f"#{id}")).to_have_count(1)
    inside = page.locator(
        "#log :is(script, style, iframe, form, link, template, textarea, hx-up, hx-partial)"
    )
    expect(inside).to_have_count(0)
    odd = page.locator("#log .bubble, #log .md, #log .call").evaluate_all(
        """all => all.flatMap(one => [...one.querySelectorAll("*")]).flatMap(element =>
            [...element.attributes]
                .filter(({name, value}) => /^(on|hx-on|hx-(get|post|trigger))|^style$/.test(name)
                    || /^\\s*(javascript|data):/i.test(value))
                .map(({name, value}) => `<${element.localName} ${name}=${value}>`))"""
    )
    assert odd == []
    outside = page.locator("#log img").evaluate_all("all => all.map(img => img.src)")
    assert not [src for src in outside if "evil.example" in src]


# These in each `make test`; all of them in `make test-all`.
QUICK = {"script"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in HOSTILE]
)
def test_hostile_text_is_inert_typed_and_echoed(name: str, chat: Chat, standin: StandIn):
    text = HOSTILE[name]
    chat.ask("Say it back", model="stand-in").done()
    standin.play(Say(f"I say: {text}\n\nand more.", thinking=text, pieces=3))
    chat.ask(text)
    chat.done()
    for _ in range(2):
        expect_unharmed(chat.page, "Say it back")
        chat.expect_settled()
        for link in chat.log.locator("a:not(.edit, .quote)").all():
            assert (link.get_attribute("href") or "").startswith(("http://", "https://", "mailto:"))
        chat.page.reload()
    chat.ask("Still here?").done()
    expect(chat.answer).to_contain_text("You said: Still here?")


@pytest.mark.slow
def test_hostile_names_arguments_and_results_of_tools_are_inert(chat: Chat, standin: StandIn):
    everything = "".join(HOSTILE.values())
    chat.ask("Say it back", model="stand-in").done()
    standin.play(
        Say(calls=[("c1", "<img src=x onerror='window.hurt=1'>", {"a": everything})]),
        Say(calls=[("c2", "get_weather", {"city": everything[:200]}), ("c3", "get_weather", "<b>no json")]),
        Say("Done."),
    )
    chat.ask("Use tools").done()
    for summary in chat.last.locator("details.call > summary").all():
        summary.click()
    expect_unharmed(chat.page, "Say it back")
    expect(chat.last.locator("details.call")).to_have_count(3)
    chat.page.reload()
    expect_unharmed(chat.page, "Say it back")


@pytest.mark.slow
def test_a_hostile_title_is_text_everywhere(chat: Chat, server: Server, person: Person):
    title = "<img src=x onerror='window.hurt=1'></title><script>window.hurt=1</script>"
    chat.ask(title).done()
    assert chat.page.evaluate("window.hurt") is None
    expect(chat.page.locator("nav .list li")).to_contain_text("<img src=x")
    chat.page.reload()
    assert chat.page.evaluate("window.hurt") is None
    assert chat.page.title().startswith("<img src=x")


@pytest.mark.slow
def test_hostile_text_is_inert_for_whoever_has_the_link_and_in_the_files(
    chat: Chat, standin: StandIn, context_of, watch: Watch
):
    """Every channel at once, as it is shared, exported and opened again by whoever is nobody here."""
    everything = "\n\n".join(HOSTILE.values())
    name = "<img src=x onerror='window.hurt=1'>\u202e"
    standin.play(
        Say(
            thinking=everything,
            calls=[("c1", name, {"a": everything}), ("c2", "get_weather", {"city": everything})],
        ),
        Say(everything, reason="length"),
    )
    chat.ask(everything[:3000], model="stand-in").done()
    page = chat.page
    files = {}
    for kind in ("md", "json"):
        answer = page.request.get(f"{chat.path}export.{kind}")
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
        files[kind] = answer.body()
    shares = f"{chat.path}share"
    page.goto(shares)
    turn_page(page.get_by_role("button", name="Make a link"))
    reader = context_of().new_page()
    address = page.locator(".found a").get_attribute("href")
    reader.goto(address)
    assert reader.evaluate("window.hurt") is None
    expect(reader.locator("#log details.call")).to_have_count(2)
    for summary in reader.locator("#log details > summary:visible").all():
        summary.click()
    inside = reader.locator(
        "#log :is(script, style, iframe, form, link, template, textarea, hx-up, hx-partial)"
    )
    expect(inside).to_have_count(0)
    expect(reader.locator("#log :is([hx-get], [hx-swap-oob], [onerror], [onload], [style])")).to_have_count(0)
    expect(reader.locator("button:visible")).to_have_count(0)
    assert serious(reader) == []
    assert overflow(reader) == 0
    page.goto("/archive")
    page.locator("#file").set_input_files(
        {"name": "../<b>.json", "mimeType": "application/json", "buffer": files["json"]}  # type: ignore[arg-type]
    )
    turn_page(page.get_by_role("button", name="Import"))
    expect(page.locator("#log details.call")).to_have_count(2)
    assert page.evaluate("window.hurt") is None
    # What is taken back leads nowhere, from the next look on.
    watch.allow("404")
    page.goto(shares)
    turn_page(page.get_by_role("button", name="Take back"))
    reader.reload()
    expect(reader.locator("#log")).to_have_count(0)


HUGE = {
    "nested quotes": ">" * 100_000,
    "nested lists": "- " * 50_000,
    "one line": "x" * 1_000_000,
    "open fence": "```\n" + "y" * 300_000,
}


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", HUGE)
def test_huge_text_neither_freezes_the_page_nor_widens_it(name: str, open_chat: OpenChat, standin: StandIn):
    chat = open_chat(viewport=NARROW)
    standin.play(Say(HUGE[name], pieces=20_000))
    chat.ask("Say it", model="stand-in").done(100)
    chat.text.fill("Still here?")
    assert overflow(chat.page) == 0
    assert chat.page.evaluate("() => document.querySelectorAll('#log *').length") < 3_000
    chat.page.reload()
    assert overflow(chat.page) == 0
    expect(chat.text).to_have_value("Still here?")
