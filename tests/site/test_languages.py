"""Who reads which language: the choice, what it changes, and that two readers of one stream each read their own."""

import pytest
from django.template.loader import render_to_string
from django.test import AsyncClient
from django.utils.translation import override

from chatsite.languages import language_of


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        ("", "", "en"),
        ("de", "", "de"),
        ("en", "de", "en"),
        ("fr", "de-AT,en;q=0.5", "de"),
        ("", "fr,de;q=0.4,en;q=0.9", "en"),
        ("", "fr, it;q=0.5", "en"),
        ("", "*, de;q=0.5", "en"),
        ("", "DE", "de"),
        ("", "x" * 600, "en"),
        ("../../etc", "\x00;q=nan", "en"),
    ],
)
def test_a_choice_goes_before_the_browser_and_that_before_the_site(chosen, accepted, language):
    assert language_of(chosen, accepted) == language


def test_without_a_wish_it_is_the_languages_of_the_site(settings):
    settings.LANGUAGE_CODE = "de"
    assert language_of("", "fr") == "de"
    assert language_of("", "en-GB") == "en"


async def test_a_page_says_in_which_language_it_is_and_that_it_depends_on_the_reader():
    answer = await AsyncClient().get("/accounts/login/", headers={"accept-language": "de"})
    assert '<html lang="de">' in answer.content.decode()
    assert answer.headers["Content-Language"] == "de"
    assert {"Accept-Language", "Cookie"} <= set(answer.headers["Vary"].split(", "))
    assert '<html lang="en">' in (await AsyncClient().get("/accounts/login/")).content.decode()


async def test_a_language_is_chosen_by_a_form_that_a_foreign_page_cannot_send():
    client = AsyncClient(enforce_csrf_checks=True)
    asked = {"language": "de", "next": "/accounts/login/"}
    assert (await client.post("/language", asked)).status_code == 403
    await client.get("/accounts/login/")
    token = client.cookies["csrftoken"].value
    answer = await client.post("/language", {**asked, "csrfmiddlewaretoken": token})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/accounts/login/")
    page = await client.get("/accounts/login/", headers={"accept-language": "en"})
    assert '<html lang="de">' in page.content.decode()
    away = {"language": "en", "next": "https://evil.example/", "csrfmiddlewaretoken": token}
    assert "evil" not in (await client.post("/language", away)).headers["Location"]


def test_a_language_that_is_written_from_right_to_left_turns_the_page():
    with override("ar"):
        assert '<html lang="ar" dir="rtl">' in render_to_string("404.html")
    with override("de"):
        assert '<html lang="de">' in render_to_string("404.html")
