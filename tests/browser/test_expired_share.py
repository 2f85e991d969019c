"""A link with an end, opened before it and after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.chat import Chat, Watch
from tests.server import Server

pytestmark = pytest.mark.slow

END = """
from datetime import timedelta
from django.utils import timezone
from chatsite.chat.models import Share

link = Share.objects.get(token={token!r})
assert link.expires_at > timezone.now()
Share.objects.filter(pk=link.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
"""


def test_a_link_that_has_ended_leads_nowhere_and_says_what_to_do(
    chat: Chat, context_of: Callable[..., BrowserContext], server: Server, watch: Watch
):
    page, path = chat.page, chat.ask("help").done().path
    page.goto(f"{path}share")
    page.get_by_label("Days until it ends").fill("7")
    page.get_by_role("button", name="Make a link").click()
    link = page.locator(".found a")
    expect(link).to_have_count(1)
    address = link.evaluate("one => one.href")
    reader = context_of().new_page()
    reader.goto(address)
    expect(reader.locator("#log .run")).to_have_count(1)

    ended = server.manage("shell", "-v", "0", "-c", END.format(token=address.rstrip("/").split("/")[-1]))
    assert ended.returncode == 0, ended.stderr
    watch.allow("404")
    answer = reader.goto(address)
    assert answer is not None
    assert answer.status == 404
    expect(reader.locator("h1")).to_have_text("Nothing here")
    expect(reader.locator("main")).to_contain_text("Ask whoever sent it to you for a new one.")
    expect(reader.locator("#log")).to_have_count(0)
    page.goto(f"{path}share")
    expect(page.get_by_role("button", name="Make a link")).to_be_visible()
    expect(link).to_have_count(0)
