"""Pictures of the page in its states, to look at:

    python -m tests.browser.shots [FOLDER]      (default var/screenshots)

One of each: light, dark and narrow; home, streaming, done, long, error, and the admin's transcript.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chat import WEATHER, Chat
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.server import SESSION_COOKIE, Person, Server
from tests.site.processes import ROOT

LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 800}},
    "narrow": {"color_scheme": "light", "viewport": {"width": 320, "height": 640}, "device_scale_factor": 2},
    "narrow-dark": {
        "color_scheme": "dark",
        "viewport": {"width": 320, "height": 640},
        "device_scale_factor": 2,
    },
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, Server(Path(data)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for look in LOOKS:
            take(browser, server, look, folder)
        browser.close()


def take(browser: Browser, server: Server, look: str, folder: Path) -> None:
    context = browser.new_context(base_url=server.url, **LOOKS[look])  # type: ignore[arg-type]

    def be(person: Person) -> None:
        context.add_cookies([{"name": SESSION_COOKIE, "value": person.session, "url": server.url}])

    def shoot(name: str) -> None:
        page.screenshot(path=folder / f"{look}-{name}.png")

    page = context.new_page()
    page.goto("/")
    shoot("login")
    admin = server.people(1, staff=True)[0]
    be(admin)
    chat = Chat(page).open()
    shoot("home")

    chat.ask("What should I wear in Oslo, Lisbon and Nowhere today?").done()
    shoot("calls")
    chat.open().ask(WEATHER).done()
    shoot("done")
    chat.card("get_weather").locator("summary").click()
    chat.card("get_clothing_advice").locator("summary").click()
    page.mouse.move(5, 5)
    shoot("cards-open")
    thread = chat.path
    chat.ask("error").done()
    shoot("error")
    chat.ask("cut").done()
    shoot("cut")
    chat.ask("think").done()
    chat.last.locator("details.fold summary").click()
    shoot("thoughts")
    chat.open().ask("progress")
    expect(page.locator("#log progress")).to_be_visible()
    shoot("progress")
    chat.done().ask("colleague: What should I wear in Oslo?").done()
    chat.card("ask_colleague").first.locator("> summary").click()
    page.locator(".behind > summary").click()
    shoot("subagent")
    chat.open().ask("colleague: Send an email to ada@example.org").done()
    shoot("question")
    asked = chat.path
    for name, path in (
        ("search", "/search?q=wear"),
        ("archive", "/archive"),
        ("share", f"{asked}share"),
        ("settings", f"{asked}settings"),
    ):
        page.goto(path)
        shoot(name)
    chat.open().ask("Show a long markdown answer").done()
    shoot("long-end")
    for step in range(3):
        page.locator("#scroll").evaluate(f"s => s.scrollTop = {step} * 600")
        shoot(f"long-{step}")
    chat.open().ask("slow")
    chat.grown(250)
    shoot("streaming")
    chat.text.fill("x" * 100_001)
    page.evaluate(
        "document.getElementById('text').value = 'Another question, while this one is being answered'"
    )
    chat.text.press("Enter")
    expect(page.locator("#queue li")).to_be_visible()
    shoot("queued")
    page.locator("#queue").get_by_role("button", name="Cancel").click()
    chat.stop_button.click()
    chat.done()
    shoot("stopped")
    if look.startswith("narrow"):
        page.get_by_role("button", name="Threads").click()
        shoot("drawer")
    page.goto("/admin/chat/thread/")
    shoot("admin-list")
    page.locator("#result_list tbody tr", has_text="San Francisco").locator("a").first.click()
    shoot("admin-thread")
    page.get_by_role("link", name="Transcript").first.click()
    shoot("admin-transcript")
    page.goto(thread)
    page.set_viewport_size({"width": page.viewport_size["width"], "height": 450})
    shoot("low")
    page.goto("/nothing/")
    shoot("404")
    context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "var" / "screenshots")
