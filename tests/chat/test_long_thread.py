"""The door to what stands further up in a long thread."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.db import connection

from bench.seed import seed
from chatsite.chat import db
from chatsite.chat.models import Message, Thread
from chatsite.chat.rows import search

PATH = "/threads/long/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def client(person, client_of):
    seed(person.username, "long")
    return client_of(person)


@pytest.fixture
def strangers_client(stranger, client_of):
    return client_of(stranger)


async def test_a_page_of_a_thousand_messages_holds_about_thirty(client):
    page = (await client.get(PATH)).content.decode()
    assert 30 <= page.count("<article") <= 35
    assert len(page) < 150_000


async def test_what_stands_before_comes_as_a_piece_that_takes_the_links_place(client):
    page = (await client.get(PATH)).content.decode()
    link = re.search(r'hx-get="(\?before=[^"]+)"', page)[1]
    reply = await client.get(PATH + link, headers=HTMX)
    piece = reply.content.decode()
    assert piece.startswith("<p id=older ")
    assert 30 <= piece.count("<article") <= 35
    assert not set(re.findall(r"<section id=(\S+)", piece)) & set(re.findall(r"<section id=(\S+)", page))


async def test_a_run_that_is_not_here_any_more_leads_to_the_page_as_it_is(client):
    reply = await client.get(PATH + "?before=rNothing", headers=HTMX)
    assert (reply.status_code, reply.headers["HX-Redirect"]) == (204, PATH)
    assert (await client.get(PATH + "?before=rNothing")).status_code == 200


async def test_nobody_else_reads_further_up(client, strangers_client):
    reply = await strangers_client.get(PATH + "?before=rNothing", headers=HTMX)
    assert reply.status_code == 404


async def test_a_search_hit_leads_to_its_message_in_a_window_around_it(client, person):
    message = await db.read(
        lambda: Message.objects.filter(role="user", text__contains=" ").order_by("pk")[40]
    )
    words = " ".join(message.text.split()[:12])
    await db.write(lambda: Message.objects.filter(pk=message.pk).update(text=f"needle {words}"))
    await db.write(search.fill, connection) if connection.vendor == "sqlite" else None
    found = (await client.get("/search?q=needle")).content.decode()
    address = re.search(r'href="(/threads/long/\?at=[^"]+)"', found)[1]
    path, _, mark = address.partition("#")
    page = (await client.get(path)).content.decode()
    assert page.count(f"<article id={mark} ") == 1
    assert 50 <= page.count("<article") <= 75
    link = unescape(re.search(r'hx-get="(\?after=[^"]+)"', page)[1])
    piece = (await client.get(PATH + link, headers=HTMX)).content.decode()
    assert 28 <= piece.count("<article") <= 35
    assert "<p id=newer " in piece


async def test_a_message_of_another_branch_is_offered_and_one_of_nobody_is_not(client, person):
    def branch() -> str:
        thread = Thread.objects.get(public_id="long")
        other = Message.objects.create(
            public_id="aside", thread=thread, role="user", parts=[], text="Aside", parent_id=thread.head_id
        )
        return other.public_id

    await db.write(branch)
    page = (await client.get(PATH + "?at=aside")).content.decode()
    assert 'form="branch-form" name="message" value="aside"' in page
    for at in ("nothing", "%00", "%F0", "x" * 5000, "u1%0D%0A"):
        assert "What was found" not in (await client.get(f"{PATH}?at={at}")).content.decode()
