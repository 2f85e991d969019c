"""A page left open while its server dies, or goes and comes back: the answer goes on by itself, no word twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from agent.providers.demo_texts import SLOW
from tests.browser.chat import Chat, Watch, eventually, words_of
from tests.browser.test_approvals import ask
from tests.server import SESSION_COOKIE, Person, Server

AWAY = "ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|htmx:sse:error"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@contextmanager
def page_of(browser: Browser, server: Server, person: Person) -> Iterator[Chat]:
    watch = Watch()
    watch.allow(AWAY)
    context = browser.new_context(base_url=server.url)
    context.add_cookies([{"name": SESSION_COOKIE, "value": person.session, "url": server.url}])
    watch.follow(context, server.url)
    yield Chat(context.new_page()).open()
    context.close()
    watch.check()


def letters(text: str) -> str:
    """Where a restart cut a word, its halves stand in two paragraphs."""
    return "".join(words_of(text))


def said(chat: Chat) -> str:
    return letters("".join(chat.log.locator(".bot > .md").all_inner_texts()))


def kill(server: Server) -> None:
    server.kill()


def stop(server: Server) -> None:
    assert server.stop() == 0


@pytest.mark.parametrize("kind", ["daphne", "uvicorn"])
@pytest.mark.parametrize("end", [kill, stop])
def test_an_answer_goes_on_by_itself_on_the_page_that_was_open(
    end: Callable[[Server], None], kind: str, browser: Browser, tmp_path: Path
):
    with Server(tmp_path, SERVER=kind, DEFAULT_MODEL="demo", DRAIN_SECONDS="0.2") as server:
        person = server.people(1)[0]
        with page_of(browser, server, person) as chat:
            chat.ask("slow")
            chat.grown(300)
            chat.page.evaluate("() => { window.notReloaded = true }")
            end(server)
            server.start()
            expect(chat.log.locator(".resumed")).to_have_count(1, timeout=90_000)
            chat.done(90)
            assert said(chat) == letters(SLOW)
            assert chat.page.evaluate("() => window.notReloaded")
            shown = chat.transcript()
            chat.page.reload()
            chat.done()
            eventually(chat.page, chat.transcript, shown)
            chat.ask("help").done()
        assert "Traceback" not in server.output


def test_a_question_outlives_the_server_with_what_was_typed_into_it(browser: Browser, tmp_path: Path):
    with Server(tmp_path, DEFAULT_MODEL="demo") as server:
        person = server.people(1)[0]
        with page_of(browser, server, person) as chat:
            question = ask(chat)
            question.field("subject").fill("Mine alone")
            kill(server)
            server.start()
            question.press("Approve")
            expect(chat.runs).to_have_count(2, timeout=90_000)
            chat.done()
            expect(chat.answer).to_contain_text("with the subject “Mine alone” is sent")
        assert "Traceback" not in server.output
