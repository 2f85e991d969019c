"""No page of this suite may break the content policy. `Watch` hears of each violation; here, that it does."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from tests.browser.chat import Watch, eventually

pytestmark = pytest.mark.slow

PLANTED = {
    "script-src": "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = true\">')",
    "style-src": "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">')",
    "img-src": "new Image().src = 'https://elsewhere.example/x.png'",
    "connect-src": "fetch('https://elsewhere.example/').catch(() => null)",
}


def heard(page: Page, watch: Watch, what: str) -> None:
    """It comes by a way of its own, which may be longer than that of an answer."""
    eventually(page, lambda: any(re.search(what, one) for one in watch.violations), True)
    with pytest.raises(AssertionError, match=what):
        watch.check()
    watch.violations.clear()


@pytest.mark.parametrize("directive", PLANTED)
def test_a_planted_violation_fails_the_test_whatever_it_allows(directive: str, context_of, watch: Watch):
    page = context_of().new_page()
    page.goto("/accounts/login/")
    watch.allow(".")
    with page.expect_event("console", lambda message: "Content Security Policy" in message.text):
        page.evaluate(PLANTED[directive])
    assert page.evaluate("window.ran") is None
    heard(page, watch, f"{directive}.* refused")


def test_it_is_heard_in_the_page_itself_where_the_console_is_silent(context_of, watch: Watch):
    """A report in a frame, or of a policy that only reports, need not stand in the console."""
    page = context_of().new_page()
    page.goto("/accounts/login/")
    page.evaluate(
        "document.dispatchEvent(new SecurityPolicyViolationEvent('securitypolicyviolation', "
        "{effectiveDirective: 'planted', blockedURI: 'inline', documentURI: location.href, "
        "violatedDirective: 'planted', originalPolicy: '', disposition: 'report', statusCode: 200}))"
    )
    heard(page, watch, "planted refused inline")


def test_without_javascript_it_is_heard_from_the_console(context_of, watch: Watch):
    page = context_of(java_script_enabled=False).new_page()
    page.route(
        "**/planted/",
        lambda route: route.fulfill(
            content_type="text/html",
            headers={"Content-Security-Policy": "default-src 'none'"},
            body="<p style='color: red'>planted",
        ),
    )
    page.goto("/planted/")
    heard(page, watch, "Content Security Policy")
