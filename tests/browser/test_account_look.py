"""What axe finds on the pages of an account: none of them empty, there are a key, an app, and what was used."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat, turn_page
from tests.browser.test_look import serious
from tests.server import Person

pytestmark = pytest.mark.slow

ACCOUNT = (
    "/accounts/password/change/",
    "/accounts/email/",
    "/account/data",
    "/accounts/2fa/totp/activate/",
    "/accounts/2fa/webauthn/add/",
)
FACTORS = (
    "/accounts/2fa/recovery-codes/generate/",
    "/accounts/2fa/totp/deactivate/",
    "/accounts/",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_pages_of_an_account(scheme: str, context_of, person: Person):
    page = context_of(color_scheme=scheme).new_page()
    sign_in(page, person)
    Chat(page).open().ask("Hello").done()
    page.get_by_role("button", name="Keyboard").click()
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert serious(page) == []
    make_key(page)
    assert serious(page) == []
    for address in ACCOUNT:
        page.goto(address)
        if page.get_by_role("button", name="Go on").count():
            assert serious(page) == []
            page.get_by_label("Password").fill(person.password)
            turn_page(page.get_by_role("button", name="Go on"))
        assert urlsplit(page.url).path == address
        assert serious(page) == [], address
    set_up_app(page)
    expect(page.locator("h1")).to_have_text("Recovery codes")
    assert serious(page) == []
    for address in FACTORS:
        page.goto(address)
        assert urlsplit(page.url).path == address
        assert serious(page) == [], address
    page.context.clear_cookies()
    sign_in(page, person)
    expect(page.locator("h1")).to_have_text("Second factor")
    assert serious(page) == []


def sign_in(page: Page, person: Person) -> None:
    page.goto("/accounts/login/")
    page.get_by_label("User name").fill(person.name)
    page.get_by_label("Password", exact=True).fill(person.password)
    turn_page(page.get_by_role("button", name="Sign in", exact=True))


def make_key(page: Page) -> None:
    page.goto("/accounts/")
    page.get_by_label("Name").last.fill("laptop")
    turn_page(page.get_by_role("button", name="Make a key"))


def set_up_app(page: Page) -> None:
    page.goto("/accounts/2fa/totp/activate/")
    secret = page.locator("section.card code").inner_text()
    page.get_by_label("Code").fill(format_hotp_value(hotp_value(secret, int(time.time()) // 30)))
    turn_page(page.get_by_role("button", name="Switch it on"))
