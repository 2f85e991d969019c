"""The pictures of the README, from the tour (`manage.py demothread`): `python -m tests.browser.readme_shots`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chat import Chat
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.server import SESSION_COOKIE, Person, Server
from tests.site.processes import ROOT

FOLDER = ROOT / "docs"
WIDE = {"width": 1200, "height": 800}
NARROW = {"width": 390, "height": 800}


def shoot(
    browser: Browser, server: Server, person: Person, path: str, name: str, *, top: str, **look: object
) -> None:
    """The thread, with the element `top` at the upper edge."""
    context = browser.new_context(base_url=server.url, **look)  # type: ignore[arg-type]
    context.add_cookies([{"name": SESSION_COOKIE, "value": person.session, "url": server.url}])
    chat = Chat(context.new_page()).open(path)
    expect(chat.runs.first).to_be_attached()
    chat.page.locator(top).first.evaluate("one => one.scrollIntoView({block: 'start'})")
    chat.page.mouse.move(2, 2)
    chat.page.screenshot(path=FOLDER / name)
    context.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as data, Server(Path(data)) as server, sync_playwright() as playwright:
        person = replace(server.people(1)[0], name="ada")
        server.manage("shell", "-c", "User.objects.update(username='ada')")
        path = server.manage("demothread", "--user", person.name).stdout.strip()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        first, asks = "#log .run", "#log .run:has(.ask) .bot"
        shoot(browser, server, person, path, "screenshot.png", top=first, viewport=WIDE, color_scheme="light")
        shoot(browser, server, person, path, "approval.png", top=asks, viewport=WIDE, color_scheme="dark")
        shoot(browser, server, person, path, "narrow.png", top=first, viewport=NARROW, color_scheme="light")
        browser.close()


if __name__ == "__main__":
    main()
