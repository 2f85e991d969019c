"""The one question of the tour: two tools, one after the other, and an answer that streams in."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.chat import WEATHER, Chat, eventually


def test_the_weather_question_shows_both_cards_and_then_the_answer(chat: Chat):
    chat.ask(WEATHER)
    assert chat.path.startswith("/threads/")
    weather, advice = chat.card("get_weather"), chat.card("get_clothing_advice")
    expect(weather).to_be_visible()
    expect(advice).to_be_visible()
    chat.done()
    for card in (weather, advice):
        expect(card.locator(".st")).to_contain_text("done")
    weather.locator("summary").click()
    expect(weather.locator("pre").first).to_contain_text('"city": "San Francisco"')
    expect(weather.locator("pre").last).to_contain_text('"temperature": 62')
    advice.locator("summary").click()
    expect(advice.locator("pre").first).to_contain_text('"conditions": "cloudy"')
    expect(advice.locator("pre").last).to_contain_text("Wear a light jacket")
    expect(chat.answer.last).to_contain_text("wear a light jacket")
    assert chat.last.locator("details.call, .bot > .md").evaluate_all(
        "all => all.map(one => one.matches('.call') ? one.querySelector('b').textContent : 'text')"
    ) == ["get_weather", "get_clothing_advice", "text"]
    chat.expect_settled()
    shown = chat.transcript()
    weather.locator("summary").click()
    advice.locator("summary").click()
    folded = chat.transcript()
    chat.page.reload()
    eventually(chat.page, chat.transcript, folded)
    assert len(shown) > len(folded)


def test_an_answer_grows_while_it_is_read(chat: Chat):
    chat.ask("slow")
    lengths = [chat.grown()]
    for _ in range(3):
        lengths.append(chat.grown(lengths[-1]))
    assert lengths == sorted(set(lengths))
    chat.stop_button.click()
    chat.done()


@pytest.mark.slow
def test_an_open_card_stays_open_while_its_result_comes(chat: Chat):
    chat.ask(WEATHER)
    card = chat.card("get_weather")

    def opened() -> bool:
        """A click on what is replaced just then is lost."""
        if card.get_attribute("open") is None:
            card.locator("summary").click()
        return card.get_attribute("open") is not None

    eventually(chat.page, opened, True)
    chat.done()
    expect(card).to_have_attribute("open", "")
    expect(card.locator("pre").last).to_contain_text("62")


@pytest.mark.slow
def test_a_second_question_of_the_thread_knows_its_place(chat: Chat):
    chat.ask(WEATHER).done()
    path = chat.path
    chat.ask("Compare Paris and Rome").done()
    assert chat.path == path
    expect(chat.runs).to_have_count(2)
    expect(chat.last.locator("details.call")).to_have_count(4)
    expect(chat.page.locator("nav a[aria-current=page]")).to_contain_text("San Francisco")
