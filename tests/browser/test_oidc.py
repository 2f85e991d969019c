"""Signing in by an identity provider, in a browser: over its page and back, within our content policy."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat import Watch, turn_page
from tests.identity_provider import CLIENT, SECRET, IdentityProvider
from tests.server import Server

pytestmark = pytest.mark.slow


def test_the_button_leads_over_the_provider_into_the_chat(browser: Browser, tmp_path):
    watch = Watch()
    with IdentityProvider().in_thread() as provider:
        provider.person |= {"groups": ["admins"]}
        settings = {
            "OIDC_ISSUER": provider.url,
            "OIDC_CLIENT_ID": CLIENT,
            "OIDC_CLIENT_SECRET": SECRET,
            "OIDC_NAME": "Example ID",
            "OIDC_GROUPS_CLAIM": "groups",
            "OIDC_ADMIN_GROUP": "admins",
        }
        watch.allow(re.escape(provider.url))
        with Server(tmp_path, **settings) as server, browser.new_context(base_url=server.url) as context:
            watch.follow(context, server.url)
            page = context.new_page()
            page.goto("/presets")
            page.get_by_role("button", name="Go on with Example ID").click()
            expect(page).to_have_title("Provider")
            page.get_by_role("button", name="Refuse").click()
            expect(page.get_by_role("alert")).to_contain_text("You did not sign in there.")
            watch.allow("403")
            page.goto("/presets")
            page.get_by_role("button", name="Go on with Example ID").click()
            page.get_by_role("button", name="Allow").click()
            expect(page).to_have_url(f"{server.url}/presets")
            page.goto("/")
            expect(page.locator("nav .me")).to_contain_text("grace")
            turn_page(page.get_by_role("link", name="Admin"))
            expect(page.locator("h1").first).to_contain_text("administration")
            page.goto("/accounts/")
            expect(page.locator(".rows").first).to_contain_text("Example ID connected")
            assert "Traceback" not in server.output
    watch.check()
