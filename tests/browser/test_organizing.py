"""Threads as a person keeps them: named, pinned, put away, deleted and taken back, shared, exported and taken in."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat, eventually, turn_page
from tests.browser.test_look import serious

pytestmark = pytest.mark.slow


def choose(chat: Chat, name: str) -> None:
    chat.page.get_by_role("button", name="This thread").click()
    turn_page(chat.page.locator(".menu-sheet").get_by_text(name, exact=True))


def group_of(page: Page, title: str) -> str:
    item = page.locator("nav .list li", has_text=title)
    return item.evaluate("one => one.closest('ul').previousElementSibling.textContent")


def test_a_thread_is_named_pinned_put_away_deleted_and_taken_back(chat: Chat):
    page = chat.page
    chat.ask("What should I wear?").done()
    page.get_by_role("button", name="This thread").click()
    assert serious(page) == []
    name = page.get_by_label("Name", exact=True)
    page.keyboard.press("Escape")
    expect(name).to_be_hidden()
    page.get_by_role("button", name="This thread").click()
    page.locator("#title").click()  # a click beside the menu shuts it
    expect(name).to_be_hidden()
    page.get_by_role("button", name="This thread").click()
    name.fill("Clothes")
    turn_page(page.get_by_role("button", name="Rename"))
    expect(page.locator("#title")).to_have_text("Clothes")
    eventually(page, lambda: group_of(page, "Clothes"), "Today")
    choose(chat, "Pin to the top")
    expect(page.locator("#title")).to_have_text("Clothes")
    eventually(page, lambda: group_of(page, "Clothes"), "Pinned")
    choose(chat, "Archive")
    page.goto("/archive")
    expect(page.locator("nav .list li")).to_have_count(0)
    turn_page(page.get_by_role("link", name="Clothes"))
    choose(chat, "Take out of the archive")
    choose(chat, "Delete")
    expect(page.locator(".undo")).to_contain_text("The thread is deleted.")
    turn_page(page.get_by_role("button", name="Undo"))
    expect(page.locator("#title")).to_have_text("Clothes")
    expect(chat.runs).to_have_count(1)


def test_what_is_exported_is_taken_in_again_with_all_that_was_shown(chat: Chat):
    page = chat.page
    chat.ask("What should I wear in Oslo today?").done()
    shown = chat.transcript()
    page.get_by_role("button", name="This thread").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as JSON").click()
    content = download.value.path().read_bytes()
    assert json.loads(content)["format"] == "threadloom-thread"
    page.goto("/archive")
    page.locator("#file").set_input_files(
        {"name": "thread.json", "mimeType": "application/json", "buffer": content}  # type: ignore[arg-type]
    )
    turn_page(page.get_by_role("button", name="Import"))
    expect(chat.runs).to_have_count(1)
    eventually(page, chat.transcript, shown)
    expect(page.locator("nav .list li")).to_have_count(2)


def test_all_of_ones_data_is_taken_in_again_as_an_archive(chat: Chat):
    page = chat.page
    for said in ("help", "think"):
        chat.open().ask(said).done()
    page.goto("/archive")
    turn_page(page.get_by_role("link", name="Take all your data out"))
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    content = download.value.path().read_bytes()
    page.goto("/archive")
    page.locator("#file").set_input_files(
        {"name": "all.zip", "mimeType": "application/zip", "buffer": content}  # type: ignore[arg-type]
    )
    turn_page(page.get_by_role("button", name="Import"))
    expect(page.get_by_role("status")).to_contain_text("2 threads were imported.")
    assert serious(page) == []
    chat.open()
    expect(page.locator("nav .list li")).to_have_count(4)


def test_a_live_link_follows_a_snapshot_stays_and_one_taken_back_leads_nowhere(chat: Chat, context_of, watch):
    page, path = chat.page, chat.ask("help").done().path
    links = []
    for form in ("as it is now", "said later"):
        page.goto(f"{path}share")
        page.get_by_label(form).check()
        turn_page(page.get_by_role("button", name="Make a link"))
        links += [
            each
            for each in page.locator(".found a").evaluate_all("all => all.map(a => a.href)")
            if each not in links
        ]
    chat.open(path).ask("think").done()
    reader = context_of().new_page()
    for link, runs in zip(links, (1, 2), strict=True):
        reader.goto(link)
        expect(reader.locator("#log .run")).to_have_count(runs)
        assert serious(reader) == []
        expect(reader.locator("#log form, #log .steer")).to_have_count(0)
    page.goto(f"{path}share")
    for left in (1, 0):
        turn_page(page.get_by_role("button", name="Take back").first)
        expect(page.get_by_role("button", name="Take back")).to_have_count(left)
    watch.allow("404")
    for link in links:
        reader.goto(link)
        expect(reader.locator("h1")).to_have_text("Nothing here")


def test_a_link_to_a_thread_that_was_deleted_leads_nowhere_and_says_so(chat: Chat, context_of, watch):
    page, path = chat.page, chat.ask("help").done().path
    page.goto(f"{path}share")
    turn_page(page.get_by_role("button", name="Make a link"))
    link = page.locator(".found a").evaluate("one => one.href")
    reader = context_of().new_page()
    reader.goto(link)
    expect(reader.locator("#log .run")).to_have_count(1)
    chat.open(path)
    choose(chat, "Delete")
    expect(page.locator(".undo")).to_contain_text("The thread is deleted.")
    watch.allow("404")
    reader.goto(link)
    expect(reader.locator("h1")).to_have_text("Nothing here")
