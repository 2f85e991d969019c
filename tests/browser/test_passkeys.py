"""Passkeys, with the authenticator that Chromium plays; and the QR code of an app, as it is painted."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import eventually, turn_page
from tests.server import Person, Server

pytestmark = pytest.mark.slow


@pytest.fixture
def local(server: Server) -> str:
    """A passkey belongs to a name; an address of numbers has none."""
    return server.url.replace("127.0.0.1", "localhost")


def authenticator(page: Page) -> Any:
    """What the browser's own prompt would ask a person for is given at once."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    made = session.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2",
                "transport": "internal",
                "hasResidentKey": True,
                "hasUserVerification": True,
                "isUserVerified": True,
                "automaticPresenceSimulation": True,
            }
        },
    )
    return session, made["authenticatorId"]


def sign_in(page: Page, local: str, person: Person) -> None:
    page.goto(f"{local}/accounts/login/")
    page.get_by_label("User name").fill(person.name)
    page.get_by_label("Password", exact=True).fill(person.password)
    turn_page(page.get_by_role("button", name="Sign in", exact=True))


def test_a_passkey_is_added_and_then_opens_without_a_password(browser, watch, local, person: Person):
    with browser.new_context() as context:
        watch.follow(context, local)
        page = context.new_page()
        session, key = authenticator(page)
        sign_in(page, local, person)
        page.goto(f"{local}/accounts/")
        page.get_by_role("link", name="Add", exact=True).click()
        page.get_by_label("Password").fill(person.password)
        turn_page(page.get_by_role("button", name="Go on"))
        page.get_by_label("Name").fill("telephone")
        page.get_by_role("button", name="Add it").click()
        expect(page.locator("h1")).to_have_text("Recovery codes")
        assert len(session.send("WebAuthn.getCredentials", {"authenticatorId": key})["credentials"]) == 1
        page.goto(f"{local}/accounts/")
        expect(page.locator(".rows").first).to_contain_text("telephone")
        page.goto(f"{local}/")
        turn_page(page.get_by_role("button", name="Sign out"))
        page.get_by_role("button", name="Use a passkey").click()
        expect(page).to_have_url(f"{local}/")
        expect(page.locator("nav .me")).to_contain_text(person.name)

        # With the password it is asked for as the second factor.
        turn_page(page.get_by_role("button", name="Sign out"))
        sign_in(page, local, person)
        expect(page.locator("h1")).to_have_text("Second factor")
        page.get_by_role("button", name="Use a passkey").click()
        expect(page).to_have_url(f"{local}/")

        # A key that nobody here knows opens nothing, and says so.
        turn_page(page.get_by_role("button", name="Sign out"))
        session.send("WebAuthn.clearCredentials", {"authenticatorId": key})
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_role("alert")).to_contain_text("That did not work")


def test_the_picture_for_an_app_is_painted(browser, watch, local, person: Person):
    with browser.new_context() as context:
        watch.follow(context, local)
        page = context.new_page()
        sign_in(page, local, person)
        page.goto(f"{local}/accounts/2fa/totp/activate/")
        page.get_by_label("Password").fill(person.password)
        turn_page(page.get_by_role("button", name="Go on"))
        picture = page.locator("img.qr")
        expect(picture).to_be_visible()
        eventually(page, lambda: picture.evaluate("image => image.complete && image.naturalWidth > 0"), True)
        page.get_by_label("Code").fill("000000")
        page.get_by_role("button", name="Switch it on").click()
        expect(page.locator(".errorlist")).to_contain_text("Incorrect code")
