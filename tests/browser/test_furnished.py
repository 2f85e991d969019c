"""What only a furnished site shows: a rule between its tools and models, models of several kinds, names by a model."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.chat import Chat, Watch, eventually
from tests.browser.conftest import OpenChat
from tests.browser.furnished import SHORT
from tests.browser.test_hostile_text import expect_unharmed
from tests.browser.test_look import NARROW, overflow, serious, tab_to
from tests.server import Person, Server
from tests.site.processes import wait_until
from tests.standin import Say, StandIn

pytestmark = pytest.mark.slow

FACTS = {"stand-in": {"context": 128_000, "images": True, "tools": True}, "stand-in-mini": {"context": 8_000}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, standin: StandIn) -> Iterator[Server]:
    settings = {
        "DJANGO_SETTINGS_MODULE": "tests.browser.furnished",
        "DEFAULT_MODEL": "stand-in",
        "OPENAI_BASE_URL": standin.openai_url,
        "OPENAI_API_KEY": "sk-browser-tests-0123456789",
        "OPENAI_MODELS": "stand-in,stand-in-mini",
        "MODEL_FACTS": json.dumps(FACTS),
        "CHAT_AUTO_TITLE": "true",
    }
    with Server(tmp_path_factory.mktemp("furnished"), **settings) as server:
        yield server


@pytest.fixture(scope="module")
def _people(server: Server) -> list[Person]:
    return server.people(8)


@pytest.fixture
def stranger(_people: list[Person]) -> Person:
    return _people.pop()


def read_by_the_model(standin: StandIn) -> str:
    """The last result that was sent to it."""
    asked = [
        exchange.json["messages"] for exchange in standin.exchanges if exchange.path.endswith("completions")
    ]
    return next(said[-1]["content"] for said in reversed(asked) if said[-1]["role"] == "tool")


def asks_for_weather(chat: Chat, standin: StandIn, city: str) -> None:
    standin.play(
        Say(calls=[("c1", "get_weather", {"city": city})]), Say("Take a coat."), Say("A coat for the trip")
    )
    chat.ask("What should I wear?").done()
    expect(chat.page.locator("#title")).to_have_text("A coat for the trip")


def test_what_the_model_saw_opens_from_the_answer_by_the_keyboard_and_is_what_it_was_sent(
    chat: Chat, standin: StandIn
):
    asks_for_weather(chat, standin, "Paris")
    page, card = chat.page, chat.card("get_weather")
    expect(chat.text).to_be_focused()
    assert read_by_the_model(standin) == SHORT
    saw = card.locator("details.fold", has_text="What the model saw")
    for _ in ("as it came", "as it is loaded"):
        tab_to(page, card.locator("> summary"), "Shift+Tab")
        page.keyboard.press("Enter")
        expect(card).to_contain_text('"conditions"')
        expect(saw.locator("pre")).to_be_hidden()
        tab_to(page, saw.locator("summary"), "Tab")
        page.keyboard.press("Enter")
        expect(saw.locator("pre")).to_be_visible()
        assert saw.locator("pre").evaluate("pre => pre.textContent") == read_by_the_model(standin)
        expect_unharmed(page, "A coat for the trip")
        assert serious(page) == []
        page.keyboard.press("Enter")
        expect(saw.locator("pre")).to_be_hidden()
        page.reload()
        expect(chat.text).to_be_focused()


def test_what_the_tool_was_given_stands_beside_what_the_model_wrote(open_chat: OpenChat, standin: StandIn):
    chat = open_chat(viewport=NARROW)
    asks_for_weather(chat, standin, "Secret")
    card = chat.card("get_weather")
    card.locator("> summary").click()
    labels = card.locator(".lab")
    eventually(chat.page, lambda: labels.all_inner_texts()[:2], ["Arguments", "What the tool was given"])
    expect(card.locator("pre").nth(0)).to_contain_text("Secret")
    expect(card.locator("pre").nth(1)).to_contain_text("Oslo")
    card.get_by_text("What the model saw").click()
    assert overflow(chat.page) == 0


def test_nobody_else_opens_what_a_model_saw(
    chat: Chat, standin: StandIn, context_of, stranger: Person, watch: Watch
):
    asks_for_weather(chat, standin, "Paris")
    watch.allow("404")
    reader = context_of(stranger).new_page()
    for path in (
        chat.path,
        f"{chat.path}events?format=html",
        f"{chat.path}export.json",
        f"{chat.path}settings",
    ):
        answer = reader.goto(path)
        assert answer is not None
        assert answer.status == 404, path
        assert "Mild." not in answer.text()


def test_a_thread_gets_its_name_from_a_small_call_while_the_page_is_open(chat: Chat, standin: StandIn):
    standin.play(Say("Salt, water, flour."), Say('"<b>Bread</b>\nat home"'))
    chat.ask("What is in bread? Tell me all of it.").done()
    title, listed = chat.page.locator("#title"), chat.page.locator("nav [aria-current] span")
    expect(title).not_to_contain_text("Tell me all of it")
    expect(title).to_contain_text("<b>Bread</b>")
    expect(listed).to_have_text(title.inner_text())
    assert standin.exchanges[-1].json["max_tokens"] == 60
    chat.page.reload()
    expect(title).to_contain_text("<b>Bread</b>")


def test_the_picker_says_what_a_model_takes_and_offers_only_what_is_theirs(
    chat: Chat, server: Server, person: Person, watch: Watch
):
    watch.allow("422")
    models = chat.page.locator("#model option")
    expect(models.filter(has_text="stand-in ·")).to_have_text("stand-in · OpenAI · 128K · images")
    expect(models.filter(has_text="stand-in-mini")).to_have_text("stand-in-mini · OpenAI · 8K")
    allowed = (
        "from django.contrib.auth.models import Group, User\n"
        "from chatsite.policies.models import GroupPolicy\n"
        "few = Group.objects.create(name='few')\n"
        "GroupPolicy.objects.create(group=few, allowed_models=['stand-in'])\n"
        f"few.user_set.add(User.objects.get(username={person.name!r}))\n"
    )
    ended = server.manage("shell", "-v", "0", "-c", allowed)
    assert ended.returncode == 0, ended.stderr

    def is_gone() -> bool:
        chat.page.reload()
        return models.filter(has_text="stand-in-mini").count() == 0

    wait_until(is_gone, "a picker without what is not theirs")
    # A page that was opened before offers it still: it is refused in words, and what was typed stays.
    chat.page.locator("#composer [name=model]").evaluate(
        """one => one.replaceWith(
            Object.assign(document.createElement("input"), {name: "model", value: "stand-in-mini"}))"""
    )
    chat.text.fill("Kept")
    chat.text.press("Enter")
    expect(chat.notice).to_contain_text("stand-in-mini")
    expect(chat.text).to_have_value("Kept")


def test_threads_stand_under_the_age_of_their_last_word(chat: Chat, server: Server, person: Person):
    for said in ("Aunt", "Uncle", "Cousin"):
        chat.open().ask(said, model="stand-in-mini").done()
    aged = (
        "from datetime import timedelta\n"
        "from django.utils import timezone\n"
        "from chatsite.chat.models import Thread\n"
        f"rows = Thread.objects.filter(owner__username={person.name!r}).order_by('pk')\n"
        "for row, days in zip(rows, (30, 3, 0)):\n"
        "    Thread.objects.filter(pk=row.pk).update(updated_at=timezone.now() - timedelta(days=days))\n"
    )
    ended = server.manage("shell", "-v", "0", "-c", aged)
    assert ended.returncode == 0, ended.stderr
    chat.open()
    groups = chat.page.locator("nav .list h2")
    expect(groups).to_have_text(["Today", "This week", "Older"])
    expect(chat.page.locator("nav .list ul")).to_have_count(3)
    assert serious(chat.page) == []
