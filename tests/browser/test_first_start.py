"""From the printed link to the first question, on a machine where nothing was before."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.browser.chat import WEATHER, Chat, Watch, turn_page
from tests.browser.test_look import serious
from tests.server import Server


def test_the_setup_link_makes_the_first_account_and_leads_to_the_chat(browser: Browser, tmp_path):
    watch = Watch()
    with Server(tmp_path) as server, browser.new_context(base_url=server.url) as context:
        watch.follow(context, server.url)
        page = context.new_page()
        page.goto(server.setup_url)
        page.get_by_label("Username:").fill("ada")
        assert serious(page) == []
        page.get_by_label("Password:").fill("correct horse battery")
        page.get_by_label("Password confirmation:").fill("correct horse battery")
        page.get_by_role("button", name="Make the account").click()
        expect(page).to_have_url(f"{server.url}/")
        chat = Chat(page)
        expect(page.locator("nav .me")).to_contain_text("ada")
        expect(page.locator("#keys")).to_contain_text("it is no language model")
        expect(chat.text).to_be_focused()
        chat.ask(WEATHER).done()
        expect(chat.answer.last).to_contain_text("wear a light jacket")

        turn_page(page.get_by_role("link", name="Admin"))
        expect(page.locator("h1").first).to_contain_text("administration")

        chat.open("/")
        turn_page(page.get_by_role("button", name="Sign out"))
        page.goto("/")
        page.get_by_label("User name").fill("ada")
        page.get_by_label("Password").fill("wrong")
        turn_page(page.get_by_role("button", name="Sign in"))
        expect(page.get_by_role("alert")).to_contain_text("not right")
        page.get_by_label("Password").fill("correct horse battery")
        turn_page(page.get_by_role("button", name="Sign in"))
        expect(page.locator("nav .list li")).to_have_count(1)

        watch.allow("404")
        page.goto(server.setup_url)
        expect(page.locator("h1")).to_have_text("This link is worth nothing now")
        watch.check()
        assert "Traceback" not in server.output
