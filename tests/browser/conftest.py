"""A real Chromium against a real server process. Each test has a person of its own.

What no page may do is checked at the end of each test: complain in the console, throw, break its content
policy, ask another host for anything, or leave a trace in the server's log.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.browser.chat import Chat, Watch
from tests.server import SESSION_COOKIE, Person, Server
from tests.standin import StandIn

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-smooth-scrolling",  # where a wheel leads to is where the page is at once
]
PEOPLE = 40
"""Made at once, since each start of a management command costs a second."""

OpenChat = Callable[..., Chat]

expect.set_options(timeout=30_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.browser)


# Not for the session: Playwright keeps an event loop in this thread, which other tests could not bear.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("there is no Chromium, and CI must have one")
        pytest.skip("there is no Chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def standin() -> Iterator[StandIn]:
    with StandIn().in_thread() as standin:
        yield standin


@pytest.fixture(autouse=True)
def _nothing_left_to_say(standin: StandIn) -> None:
    """What a test before had it play, and did not come to, is not for this one."""
    standin.forget()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, standin: StandIn) -> Iterator[Server]:
    """The demo model, and `stand-in` behind HTTP, which says what a test wants it to."""
    settings = {
        "DEFAULT_MODEL": "demo",
        "OPENAI_BASE_URL": standin.openai_url,
        "OPENAI_API_KEY": "sk-browser-tests-0123456789",
        "OPENAI_MODELS": "stand-in",
    }
    with Server(tmp_path_factory.mktemp("site"), **settings) as server:
        yield server


@pytest.fixture(scope="session")
def _people(server: Server) -> list[Person]:
    return []


@pytest.fixture
def person(server: Server, _people: list[Person]) -> Person:
    if not _people:
        _people.extend(server.people(PEOPLE))
    return _people.pop()


@pytest.fixture
def watch(server: Server) -> Iterator[Watch]:
    server.news()
    watch = Watch()
    yield watch
    watch.check()
    news = server.news()
    assert "Traceback" not in news, news
    assert " ERROR " not in news, news


@pytest.fixture
def context_of(browser: Browser, server: Server, watch: Watch) -> Iterator[Callable[..., BrowserContext]]:
    """`context_of(person, **options)`: a browser of that person's; without one, nobody is logged in."""
    made: list[BrowserContext] = []

    def make(who: Person | None = None, **options: object) -> BrowserContext:
        context = browser.new_context(base_url=server.url, **options)  # type: ignore[arg-type]
        if who is not None:
            context.add_cookies([{"name": SESSION_COOKIE, "value": who.session, "url": server.url}])
        watch.follow(context, server.url)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()


@pytest.fixture
def open_chat(context_of: Callable[..., BrowserContext], person: Person) -> OpenChat:
    """`open_chat(path, **options)`: a page of the test's person, in a browser of its own."""

    def make(path: str = "/", **options: object) -> Chat:
        return Chat(context_of(person, **options).new_page()).open(path)

    return make


@pytest.fixture
def chat(open_chat: OpenChat) -> Chat:
    return open_chat()
