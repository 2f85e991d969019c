"""The chat page as a person uses it, and what is noticed about it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

WEATHER = "What should I wear in San Francisco today?"
ACTIVE = re.compile(r"\bon\b")

Value = TypeVar("Value")


def eventually(page: Page, read: Callable[[], Value], wanted: Value, seconds: float = 30) -> None:
    """Wait until that is what is read: for all that Playwright's `expect` has no word for."""
    end = time.monotonic() + seconds
    while (found := read()) != wanted and time.monotonic() < end:
        page.wait_for_timeout(50)  # and what the browser tells is heard meanwhile
    assert found == wanted


def turn_page(link: Locator) -> None:
    """Press what leads to another page, and wait until that one is there."""
    with link.page.expect_navigation():
        link.click()


def reload_until(page: Page, text: str) -> None:
    """Without a script a page shows more when it is loaded anew, and says so for as long as there is more to come."""

    def is_whole() -> bool:
        if page.locator("noscript p").count():  # Playwright's own eyes do not look into it
            page.reload()
        return not page.locator("noscript p").count()

    eventually(page, is_whole, True, seconds=60)
    expect(page.locator("#log")).to_contain_text(text)


def words_of(text: str) -> list[str]:
    """The text word by word, without markdown's marks: how it was wrapped does not matter."""
    return re.sub(r"[*_`]", "", text).split()


TELL_OF_VIOLATIONS = """document.addEventListener("securitypolicyviolation",
    ({effectiveDirective, blockedURI, sample, documentURI}) =>
        toldOfViolation(`${effectiveDirective} refused ${blockedURI} ${sample} on ${documentURI}`))"""
"""In every page and frame, before its own scripts."""


@dataclass
class Watch:
    """What went wrong in the pages of a test that looked well. No test may allow what breaks the content policy."""

    complaints: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)

    def allow(self, pattern: str) -> None:
        """The test provokes this one; the browser writes a line for each request that is refused."""
        self.allowed.append(pattern)

    def follow(self, context: BrowserContext, url: str) -> None:
        own = urlsplit(url).netloc
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(f"page error: {error.error}"))
        context.on("request", lambda request: self._request(request, own))
        context.expose_binding("toldOfViolation", lambda _, told: self.violations.append(told))
        context.add_init_script(TELL_OF_VIOLATIONS)

    def _console(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:  # the only word of a page that runs no script
            self.violations.append(f"console: {message.text}")
        elif message.type in {"error", "warning"}:
            self.complaints.append(f"console {message.type}: {message.text} ({message.location['url']})")

    def _request(self, request: Request, own: str) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob"} and parts.netloc != own:
            self.complaints.append(f"a request to another host: {request.url}")

    def check(self) -> None:
        assert not self.violations, "\n".join(self.violations)
        left = [line for line in self.complaints if not any(re.search(each, line) for each in self.allowed)]
        assert not left, "\n".join(left)


class Chat:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.text = page.locator("#text")
        self.log = page.locator("#log")
        self.runs = page.locator("#log > section.run")
        self.last = self.runs.last
        self.answer = self.last.locator(".bot > .md")
        self.said = self.last.locator(".said")
        self.notice = page.locator("#composer-notice .notice")
        self.stop_button = page.get_by_role("button", name="Stop")
        self.send_button = page.get_by_role("button", name="Send")

    def open(self, path: str = "/") -> Chat:
        self.page.goto(path)
        expect(self.text).to_be_visible()
        return self

    @property
    def path(self) -> str:
        return urlsplit(self.page.url).path

    def ready(self) -> Chat:
        """Wait until the page and its scripts are there, and none of its forms waits for an answer."""
        self.page.wait_for_function(
            "() => document.readyState === 'complete' && document.getElementById('text')"
            " && !document.querySelector('form.htmx-request')"
        )
        return self

    def ask(self, text: str, *, model: str = "") -> Chat:
        """Type and send, and wait until the page shows the message and has heard that it was taken."""
        self.ready()
        if model:
            self.page.locator("#model").select_option(model)
        before = self.runs.count()
        self.text.fill(text)
        self.text.press("Enter")
        expect(self.runs).to_have_count(before + 1)
        self.ready()
        expect(self.text).to_have_value("")
        return self

    def done(self, seconds: float = 60) -> Chat:
        """Wait until nothing is being answered any more, as the page says it."""
        self.ready()
        expect(self.page.locator("#live")).not_to_have_class(ACTIVE, timeout=seconds * 1000)
        expect(self.page.locator("#log .busy")).to_have_count(0)
        return self

    def active(self) -> Chat:
        expect(self.page.locator("#live")).to_have_class(ACTIVE)
        return self

    def grown(self, more_than: int = 0) -> int:
        """Wait until the newest answer is longer than that; its length."""
        length = self.page.wait_for_function(
            """n => {
                const texts = [...document.querySelectorAll("#log > .run:last-child .bot > .md")];
                const { length } = texts.map((one) => one.textContent).join("");
                return length > n && length;
            }""",
            arg=more_than,
        )
        return int(length.json_value())

    @contextmanager
    def will_say(self, words: str) -> Iterator[None]:
        """Within it the transcript says this, though it may be gone before anybody looks."""
        expect(self.log).not_to_contain_text(words)
        self.log.evaluate(
            """(log, words) => {
                log.heard = false;
                new MutationObserver(() => { log.heard ||= log.textContent.includes(words); })
                    .observe(log, {childList: true, subtree: true, characterData: true});
            }""",
            words,
        )
        yield
        self.page.wait_for_function("() => document.getElementById('log').heard")

    def offline(self, away: bool) -> None:
        """Take the network from the browser, or give it back, and wait until the page knows."""
        self.page.context.set_offline(away)
        self.page.wait_for_function("away => navigator.onLine !== away", arg=away)

    def answer_text(self) -> str:
        return "\n".join(self.answer.all_inner_texts())

    def card(self, name: str) -> Locator:
        return self.last.locator("details.call", has=self.page.locator("summary b", has_text=name))

    def transcript(self) -> str:
        """All that the conversation shows, but for what it took."""
        return self.log.evaluate(
            """log => {
                const facts = [...log.querySelectorAll(".facts")].map((one) => one.innerText);
                return log.innerText.split("\\n").filter((line) => line.trim() && !facts.includes(line)).join("\\n");
            }"""
        )

    def expect_settled(self) -> None:
        """No spinner, no state that says something is still on its way."""
        self.done()
        expect(self.stop_button).to_be_hidden()
        expect(self.send_button).to_be_visible()
