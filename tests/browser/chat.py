"""The chat page as a person uses it, and what is noticed about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, expect

WEATHER = "What should I wear in San Francisco today?"
ACTIVE = re.compile(r"\bon\b")


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

    def ask(self, text: str, *, model: str = "") -> Chat:
        """Type and send, and wait until the page shows the message."""
        if model:
            self.page.locator("#model").select_option(model)
        before = self.runs.count()
        self.text.fill(text)
        self.text.press("Enter")
        expect(self.runs).to_have_count(before + 1)
        return self

    def done(self, seconds: float = 20) -> Chat:
        """Wait until nothing is being answered any more, as the page says it."""
        expect(self.page.locator("#live")).not_to_have_class(ACTIVE, timeout=seconds * 1000)
        expect(self.page.locator("#log .busy")).to_have_count(0)
        return self

    def active(self) -> Chat:
        expect(self.page.locator("#live")).to_have_class(ACTIVE)
        return self

    def grown(self, more_than: int = 0) -> int:
        """Wait until the newest answer is longer than that; its length."""
        self.page.wait_for_function(
            "n => [...document.querySelectorAll('#log > .run:last-child .bot > .md')]"
            ".map(e => e.textContent).join('').length > n",
            arg=more_than,
        )
        return len(self.answer_text())

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
        assert not self.log.locator(".st.busy, .end.busy").count()
        expect(self.stop_button).to_be_hidden()
        expect(self.send_button).to_be_visible()
