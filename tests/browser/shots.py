"""Pictures of the page in its states, to look at:

    python -m tests.browser.shots [FOLDER [LOOK or SCENE...]]      (default var/screenshots, all of them)

Three widths, two themes. A scene leads to its pictures by itself or goes on from the one before it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.chat import WEATHER, Chat
from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.browser.test_files import PNG, attach, chips, file, uploaded
from tests.server import SESSION_COOKIE, Person, Server
from tests.site.processes import ROOT

WIDE = {"viewport": {"width": 1280, "height": 800}}
MEDIUM = {"viewport": {"width": 768, "height": 900}}
NARROW = {"viewport": {"width": 320, "height": 640}, "device_scale_factor": 2}
LOOKS = {
    "light": {"color_scheme": "light", **WIDE},
    "dark": {"color_scheme": "dark", **WIDE},
    "medium": {"color_scheme": "light", **MEDIUM},
    "medium-dark": {"color_scheme": "dark", **MEDIUM},
    "narrow": {"color_scheme": "light", **NARROW},
    "narrow-dark": {"color_scheme": "dark", **NARROW},
}

MODELS = {
    "DEFAULT_MODEL": "demo",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "OPENAI_API_KEY": "sk-nobody-is-asked",
    "OPENAI_MODELS": "large,small",
}
"""Nobody answers there: they are listed."""


@dataclass
class Shoot:
    context: BrowserContext
    page: Page
    chat: Chat
    server: Server
    person: Person
    file: str

    def __call__(self, name: str, *, whole: bool = False) -> None:
        self.page.mouse.move(2, 2)
        self.page.screenshot(path=self.file.format(name), full_page=whole, animations="disabled")

    def enter(self) -> None:
        self.context.add_cookies(
            [{"name": SESSION_COOKIE, "value": self.person.session, "url": self.server.url}]
        )

    def go(self, name: str, path: str, *, whole: bool = True) -> None:
        self.page.goto(path)
        self(name, whole=whole)


def outside(shoot: Shoot) -> None:
    shoot.context.clear_cookies()
    shoot.go("login", "/")
    shoot.page.get_by_label("User name").fill("ada")
    shoot.page.get_by_label("Password").fill("wrong")
    shoot.page.get_by_role("button", name="Sign in").click()
    expect(shoot.page.get_by_role("alert")).to_be_visible()
    shoot("login-refused")
    shoot.go("setup", shoot.server.setup_url)
    shoot.enter()


def tools(shoot: Shoot) -> None:
    chat = shoot.chat.open()
    shoot("home")
    chat.ask("What should I wear in Oslo, Lisbon and Nowhere today?").done()
    shoot("calls")
    chat.open().ask(WEATHER).done()
    chat.last.locator(".user").hover()
    shoot.page.screenshot(path=shoot.file.format("done"), animations="disabled")
    chat.card("get_weather").locator("summary").click()
    chat.card("get_clothing_advice").locator("summary").click()
    shoot("cards-open")
    chat.open().ask("progress")
    expect(shoot.page.locator("#log progress")).to_be_visible()
    shoot("progress")
    chat.done().ask("colleague: What should I wear in Oslo?").done()
    chat.card("ask_colleague").first.locator("> summary").click()
    shoot.page.locator(".behind > summary").click()
    shoot("subagent")


def ends(shoot: Shoot) -> None:
    chat = shoot.chat.open()
    for text in ("error", "cut", "think"):
        chat.ask(text).done()
        if text == "think":
            chat.last.locator("details.fold summary").click()
        shoot(text)


def questions(shoot: Shoot) -> None:
    chat, page = shoot.chat.open(), shoot.page
    chat.ask("Send an email to ada@example.org").done()
    shoot("question")
    page.locator(".ask .reason").fill("Not today")
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".ask")).to_have_count(0)
    expect(chat.answer.last).to_contain_text("was not sent")
    chat.done()
    page.locator("#log details.call > summary").click()
    shoot("denied")
    chat.ask("colleague: Send an email to ada@example.org").done()
    shoot("question-inside")


def steering(shoot: Shoot) -> None:
    chat, page = shoot.chat.open(), shoot.page
    chat.ask("repeat a first thought").done()
    page.locator(".user").hover()
    page.get_by_role("link", name="Edit").click()
    shoot("editing")
    chat.text.fill("repeat a second thought")
    chat.text.press("Enter")
    expect(page.locator(".user .vers")).to_contain_text("2 / 2")
    chat.done()
    chat.last.locator(".end .more summary").click()
    shoot("versions")
    page.get_by_role("button", name="This thread").click()
    shoot("menu")
    page.keyboard.press("Escape")
    page.locator(".user").hover()
    page.locator(".user .more summary").click()
    page.locator(".user .more").get_by_text("Delete", exact=True).click()
    expect(page.locator(".undo")).to_be_visible()
    shoot("removed")
    shoot.page.evaluate("document.getElementById('shortcuts').showPopover()")
    shoot("keys")


def files(shoot: Shoot) -> None:
    chat = shoot.chat.open()
    attach(chat, file("a picture.png", PNG, "image/png"), file("code.py", b"x = 1\n"))
    uploaded(chat, 2)
    attach(chat, file("report.pdf", b"PK\x03\x04" + b"\x14\x00" * 20, "application/pdf"))
    expect(chips(chat).locator("nth=2")).to_have_class("failed")
    shoot("files")
    chips(chat).locator("nth=2").locator(".remove").click()
    chat.ask("What is in these?").done()
    shoot("files-sent")


def writing(shoot: Shoot) -> None:
    chat, page = shoot.chat.open(), shoot.page
    chat.ask("Show a long markdown answer").done()
    shoot("long-end")
    for step in range(3):
        page.locator("#scroll").evaluate(f"s => s.scrollTop = {step} * 600")
        shoot(f"long-{step}")
    chat.open().ask("slow")
    chat.grown(250)
    shoot("streaming")
    chat.text.fill("Another question, while this one is being answered")
    chat.text.press("Enter")
    expect(page.locator("#queue li")).to_be_visible()
    shoot("queued")
    page.locator("#queue").get_by_role("button", name="Cancel").click()
    chat.stop_button.click()
    chat.done()
    shoot("stopped")
    shoot.context.set_offline(True)
    chat.text.fill("Is anybody there?")
    chat.text.press("Enter")
    expect(chat.notice).to_be_visible()
    shoot("offline")
    shoot.context.set_offline(False)


def organizing(shoot: Shoot) -> None:
    chat, page = shoot.chat.open(), shoot.page
    chat.ask("What should I wear in Paris?").done()
    asked = chat.path
    if not page.locator("#find").is_visible():
        page.get_by_role("button", name="Threads").click()
        shoot("drawer")
    shoot.go("search", "/search?q=wear")
    shoot.go("search-nothing", "/search?q=nowhere+to+be+found")
    shoot.go("archive", "/archive")
    shoot.go("settings", f"{asked}settings")
    shoot.go("presets", "/presets")
    shoot.go("share", f"{asked}share")
    page.get_by_role("button", name="Make a link").click()
    shoot("share-made", whole=True)
    shoot.go("shared", page.locator(".found a").first.get_attribute("href") or "")
    page.goto(asked)
    page.get_by_role("button", name="This thread").click()
    page.locator(".menu-sheet").get_by_text("Delete", exact=True).click()
    expect(page.locator(".undo")).to_be_visible()
    shoot("deleted")


def tour(shoot: Shoot) -> None:
    shoot.chat.open()
    shoot.page.get_by_role("button", name="Open a thread that shows every state").click()
    expect(shoot.chat.runs.first).to_be_attached()
    height = shoot.page.locator("#scroll").evaluate("s => s.scrollHeight / s.clientHeight")
    for step in range(min(int(height) + 1, 14)):
        shoot.page.locator("#scroll").evaluate(f"s => s.scrollTop = {step} * (s.clientHeight - 40)")
        shoot(f"tour-{step:02}")


def elsewhere(shoot: Shoot) -> None:
    shoot.go("account", "/accounts/")
    shoot.go("admin", "/admin/", whole=False)
    shoot.go("admin-list", "/admin/chat/thread/", whole=False)
    shoot.go("admin-runs", "/admin/chat/run/", whole=False)
    shoot.page.go_back()
    shoot.page.locator("#result_list tbody tr", has_text="San Francisco").locator("a").first.click()
    shoot("admin-thread")
    shoot.page.get_by_role("link", name="Transcript").first.click()
    shoot("admin-transcript")
    shoot.go("404", "/nothing/")


SCENES: list[Callable[[Shoot], None]] = [
    outside,
    tools,
    ends,
    questions,
    steering,
    files,
    writing,
    organizing,
    tour,
    elsewhere,
]


def take(
    browser: Browser, server: Server, look: str, folder: Path, scenes: list[Callable[[Shoot], None]]
) -> None:
    context = browser.new_context(base_url=server.url, **LOOKS[look])  # type: ignore[arg-type]
    page = context.new_page()
    person = server.people(1, staff=True)[0]
    shoot = Shoot(context, page, Chat(page), server, person, str(folder / f"{look}-{{}}.png"))
    shoot.enter()
    for scene in scenes:
        scene(shoot)
    context.close()


def main(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    scenes = [scene for scene in SCENES if scene.__name__ in names] or SCENES
    with (
        tempfile.TemporaryDirectory() as data,
        Server(Path(data), **MODELS) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for look in [look for look in LOOKS if look in names] or LOOKS:
            take(browser, server, look, folder, scenes)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "var" / "screenshots", *sys.argv[2:])
