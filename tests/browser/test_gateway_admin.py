"""The gateway's pages in admin, in a real browser: readable in every look, and nothing of theirs runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.chat import turn_page
from tests.browser.shots import LOOKS
from tests.browser.test_look import overflow
from tests.server import Person, Server

SEED = """
import json
from decimal import Decimal
from agent.messages import Usage
from chatsite.accounts.models import ApiKey
from chatsite.gateway import rows
from chatsite.gateway.models import ExchangeCall
from chatsite.gateway.records import ExchangeRecord, RoundRecord

HOSTILE = "</pre><script>document.title='broken'</script><img src=x onerror=alert(1)>"
key = ApiKey.objects.order_by("-pk").first()
call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
question = {"role": "user", "content": "What should I wear in Oslo? " + HOSTILE}
answer = lambda message, reason: json.dumps({"id": "x", "choices": [{"index": 0, "finish_reason": reason,
    "message": {"role": "assistant", **message}}]})
rerun = [question, {"role": "assistant", "content": None, "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "c1", "content": "It is 62 there. " + HOSTILE}]
said = answer({"content": "Wear a **light** jacket.\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\n" + HOSTILE}, "stop")
common = {"endpoint": "openai", "model": "fox-1-2026-11-30", "dialect": "openai", "status": 200}
record = ExchangeRecord(
    request_id="req-of-the-browser-test", key_pk=key.pk, user_id=key.user_id, keep="full", dialect="openai",
    model="fox-1", stream=True, status=200, ms=1540, first_byte_ms=210,
    request={"model": "fox-1", "messages": [{"role": "system", "content": "Be brief."}, question], "tools": [
        {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]},
    response=said,
    rounds=[
        RoundRecord(**common, ms=140, stop_reason="tool_calls", usage=Usage(1200, 34, 10, 800), cost=Decimal("0.0031"),
            request={"model": "fox-1-2026-11-30", "messages": [question]},
            response=answer({"content": None, "tool_calls": [call]}, "tool_calls")),
        RoundRecord(**common, depth=1, asked_by="Weather", ms=1400, stop_reason="stop", usage=Usage(1400, 60),
            cost=Decimal("0.0042"), request={"model": "fox-1-2026-11-30", "messages": rerun}, response=said),
    ],
)
record.complete()
rows.insert([record, *(ExchangeRecord(request_id=f"req-{n}", key_pk=key.pk, user_id=key.user_id, model="owl-2",
    status=[200, 429, 502][n % 3], error_code=["", "rate_limit_exceeded", "provider_unavailable"][n % 3], ms=n)
    for n in range(20))])
ExchangeCall.objects.create(exchange_id=record.id, call_id="c1", name="get_weather", state="done", key=key)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def admin(server: Server) -> Person:
    admin = server.people(1, staff=True)[0]
    done = server.manage("shell", "--no-imports", "-c", SEED)
    assert done.returncode == 0, done.stderr
    return admin


def picture(page: object, name: str) -> None:
    """Pictures to look at, where a folder for them is named."""
    if folder := os.environ.get("SHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)  # type: ignore[attr-defined]


@pytest.mark.parametrize("look", LOOKS)
def test_an_exchange_is_found_and_read_in_every_look(context_of, admin: Person, look: str):
    page = context_of(admin, **LOOKS[look]).new_page()
    page.goto("/admin/gateway/exchange/")
    expect(page.locator("#result_list tbody tr")).to_have_count(21)
    picture(page, f"{look}-list")
    page.goto("/admin/gateway/exchange/?q=req-of-the-browser-test")
    turn_page(page.locator("#result_list tbody th a").first)
    expect(page.locator("#log")).to_contain_text("What should I wear in Oslo?")
    expect(page.get_by_role("heading", name="Round 2: rerun 1, asked for by Weather")).to_be_visible()
    expect(page.locator("#log strong").first).to_have_text("light")
    expect(page).to_have_title(re.compile("^req-of-the-browser-test"))
    assert overflow(page) == 0
    picture(page, f"{look}-exchange")
    page.locator("details.loom-kept summary").last.click()
    picture(page, f"{look}-exchange-kept")
    assert overflow(page) == 0
    kept = page.request.get(page.get_by_role("link", name="As plain text").last.get_attribute("href"))
    assert kept.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("look", ["light", "narrow-dark"])
def test_a_key_is_made_shown_once_limited_and_revoked(context_of, admin: Person, look: str):
    page = context_of(admin, **LOOKS[look]).new_page()
    page.goto("/admin/accounts/apikey/add/")
    page.get_by_label("User name").fill(admin.name)
    page.get_by_label("Label").fill(f"of {look}")
    page.get_by_label("chat: the chat").uncheck()
    page.get_by_role("textbox", name="Models").fill("fox-1\nowl-2")
    page.get_by_label("Requests per minute").fill("60")
    picture(page, f"{look}-key-form")
    turn_page(page.get_by_role("button", name="Save", exact=True))
    key = page.get_by_label("API key").input_value()
    assert key.startswith("tl-")
    picture(page, f"{look}-key-made")
    turn_page(page.get_by_role("link", name="Its limits and use"))
    expect(page.get_by_label("Requests per minute")).to_have_value("60")
    assert key not in page.content()
    picture(page, f"{look}-key")
    page.goto(f"/admin/accounts/apikey/?q=of+{look}")
    picture(page, f"{look}-keys")
    page.locator("input.action-select").first.check()
    page.get_by_label("Action:").select_option("revoke")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_text("Revoked 1 key.")).to_be_visible()


def test_the_hooks_that_are_loaded_are_shown(context_of, admin: Person):
    page = context_of(admin).new_page()
    page.goto("/admin/")
    page.get_by_role("link", name="Loaded hooks").first.click()
    expect(page.get_by_role("heading", name="Loaded hooks")).to_be_visible()
    picture(page, "hooks")
