"""The door to what stands further up in a long thread."""

from __future__ import annotations

import re

import pytest

from bench.seed import seed

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
