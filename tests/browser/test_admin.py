"""What an admin finds of a thread: its transcript, with every finish reason."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.chat import WEATHER, Chat, Watch, turn_page
from tests.browser.test_look import overflow, serious
from tests.server import Person, Server

pytestmark = pytest.mark.slow


@pytest.fixture
def admin(server: Server) -> Person:
    return server.people(1, staff=True)[0]


def test_an_admin_reads_the_transcript_with_its_finish_reasons(chat: Chat, context_of, admin: Person):
    chat.ask(WEATHER).done()
    chat.ask("cut").done()
    thread = chat.path.split("/")[2]
    page = context_of(admin).new_page()
    page.goto("/admin/chat/thread/")
    page.get_by_role("textbox").first.fill(thread)
    page.keyboard.press("Enter")
    expect(page.locator("#result_list tbody tr")).to_have_count(1)
    page.locator("#result_list tbody tr a").first.click()
    page.get_by_role("link", name="Transcript").first.click()
    page.get_by_label("Reason").fill("A test of the page")
    page.get_by_role("button", name="Open it").click()
    log = page.locator("#log")
    expect(log).to_contain_text(WEATHER)
    expect(log).to_contain_text("wear a light jacket")
    expect(log.locator("details.call")).to_have_count(2)
    reasons = log.locator(".loom-turns td:nth-child(2) code")
    expect(reasons).to_have_text(["tool_calls", "tool_calls", "stop", "length"])
    assert overflow(page) == 0
    assert serious(page) == []


@pytest.mark.slow
def test_the_lists_of_admin_open_without_a_complaint(chat: Chat, context_of, admin: Person):
    chat.ask(WEATHER).done()
    page = context_of(admin).new_page()
    for kind in ("chat/thread", "chat/message", "chat/run", "chat/toolcall", "accounts/apikey"):
        page.goto(f"/admin/{kind}/")
        expect(page.locator("#changelist")).to_be_visible()
        first = page.locator("#result_list tbody th a, #result_list tbody td a").first
        if first.count():
            turn_page(first)
            expect(page.locator("#content h1, #content h2").first).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (768, "light")])
def test_a_list_of_many_columns_has_the_width_of_a_narrow_page_and_keeps_its_first_column(
    width: int, scheme: str, chat: Chat, context_of, admin: Person
):
    chat.ask(WEATHER).done()
    page = context_of(admin, viewport={"width": width, "height": 800}, color_scheme=scheme).new_page()
    for kind in ("thread", "run"):
        page.goto(f"/admin/chat/{kind}/")
        results = page.locator("#changelist-form .results")
        expect(results).to_be_visible()
        assert overflow(page) == 0
        assert results.bounding_box()["width"] > 0.85 * width
        first, head = results.locator("tbody th").first, results.locator("thead th").nth(1)
        for cell in (first, head):
            results.evaluate("one => { one.scrollLeft = one.scrollWidth; }")
            box = cell.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] < width
            ground = cell.evaluate("one => getComputedStyle(one).backgroundColor")
            assert ground not in {"transparent", "rgba(0, 0, 0, 0)"}, "what moves beneath it shows through"
        last = results.locator("thead th").last.bounding_box()
        assert last["x"] + last["width"] <= width


@pytest.mark.slow
def test_somebody_who_is_no_admin_sees_none_of_it(chat: Chat, context_of, person: Person, watch: Watch):
    watch.allow("403")
    page = context_of(person).new_page()
    page.goto("/admin/chat/thread/")
    expect(page.locator("#result_list")).to_have_count(0)
    expect(page.locator("h1")).to_have_text("Not for this account")
    assert serious(page) == []
    page.get_by_role("button", name="Use another account").click()
    page.wait_for_url("**/accounts/login/?next=/admin/chat/thread/")


def test_an_admin_opens_a_thread_with_a_reason_replays_its_run_and_reads_its_requests(
    chat: Chat, context_of, admin: Person
):
    chat.ask(WEATHER).done()
    page = context_of(admin).new_page()
    page.goto(f"/admin/chat/thread/?q={chat.path.split('/')[2]}")
    turn_page(page.get_by_role("link", name="Read", exact=True))
    expect(page.locator("body")).not_to_contain_text("light jacket")
    page.get_by_label("Reason").fill("A complaint about the weather")
    page.keyboard.press("Enter")
    expect(page.locator("#log")).to_contain_text("light jacket")
    page.get_by_label("Search in this thread").fill("jacket")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Found in")
    axe_is_content(page)

    page.get_by_role("link", name="Replay").first.click()
    stage = page.locator(".loom-stage")
    expect(stage).to_contain_text(WEATHER)
    expect(stage).not_to_contain_text("light jacket")
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".loom-steps")).to_contain_text("2 of")
    page.get_by_role("button", name="Play").click()
    # At the pace at which it ran, which is that of the machine.
    expect(stage).to_contain_text("light jacket", timeout=60_000)
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=60_000)
    axe_is_content(page)

    page.get_by_role("link", name="Requests").first.click()
    expect(page.locator("#turn-2 .loom-new").first).to_contain_text("tool-call")
    page.locator("#turn-1 summary", has_text="The whole request").click()
    expect(page.locator("#turn-1")).to_contain_text("get_clothing_advice")
    axe_is_content(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_usage_page_reads_in_both_themes(
    scheme: str, chat: Chat, context_of, server: Server, admin: Person
):
    chat.ask(WEATHER).done()
    assert server.manage("upkeep").returncode == 0
    page = context_of(admin, color_scheme=scheme).new_page()
    page.goto("/admin/usage/day/")
    expect(page.get_by_role("img", name="Runs a day")).to_be_visible()
    expect(page.get_by_role("img", name="By tool")).to_contain_text("get_weather")
    expect(page.get_by_role("table").first).to_be_attached()
    axe_is_content(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="By model, as CSV").click()
    assert download.value.suggested_filename.startswith("usage-models-")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def axe_is_content(page) -> None:
    page.wait_for_load_state()
    found = [
        each for each in Axe().run(page).response["violations"] if each["impact"] in ("serious", "critical")
    ]
    assert not found, [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found]
