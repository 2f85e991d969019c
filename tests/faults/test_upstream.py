"""What a model's endpoint does wrong, as LOOP.md has it: tried again before the first byte, and never behind it."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.faults.sites import Site
from tests.standin import Broken, Raw, Say, StandIn, error_body

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

BEFORE = ["refuse", "reset_before_body", "429", "503"]
BEHIND = ["reset", "cut", "half_character", "error", "garbage"]


@pytest.mark.parametrize("kind", BEFORE)
async def test_what_breaks_before_the_first_byte_is_tried_again_and_nobody_sees_it(
    kind: str, site: Site, standin: StandIn
):
    with site.server() as server:
        site.person(server)
        standin.play(Broken(kind), Say("All is well."))
        async with site.run(server, "Hello") as told:
            assert (await told.ends())["type"] == "RUN_FINISHED"
        assert told.text == "All is well."
        assert len(standin.exchanges) == 2


@pytest.mark.parametrize("kind", BEHIND)
async def test_what_breaks_behind_the_first_byte_is_said_and_never_asked_again(
    kind: str, site: Site, standin: StandIn
):
    """The person may have read it already: a second answer behind half of a first is no continuation."""
    with site.server() as server:
        site.person(server)
        standin.play(Broken(kind), Say("A second answer."))
        async with site.run(server, "Hello") as told:
            end = await told.ends()
        assert end["type"] == "RUN_ERROR"
        assert end["code"]
        assert "�" not in told.text
        assert len(standin.exchanges) == 1
        rows = site.rows("SELECT role, text FROM chat_message ORDER BY id")
        assert rows[0] == ("user", "Hello")
        assert "".join(text for role, text in rows if role == "assistant") == told.text
        assert site.rows("SELECT state FROM chat_run") == [("failed",)]


async def test_a_pause_that_the_endpoint_asks_for_is_kept(site: Site, standin: StandIn):
    asked = Raw([error_body("openai", 429)], 429, "application/json", [("retry-after", "2")])
    with site.server() as server:
        site.person(server)
        standin.play(asked, Say("Here I am."))
        began = time.monotonic()
        async with site.run(server, "Hello") as told:
            assert (await told.ends())["type"] == "RUN_FINISHED"
        assert time.monotonic() - began >= 2
        assert told.text == "Here I am."


async def test_an_endpoint_that_falls_silent_leaves_a_run_that_can_be_stopped(site: Site, standin: StandIn):
    """How long it is waited for is tried in `tests/live/test_hanging_providers.py`, where patience is short."""
    with site.server() as server:
        person = site.person(server)
        for kind in ("hang", "hang_body", "hang_stream"):
            standin.play(Broken(kind))
            asked = len(standin.exchanges) + 1
            async with site.run(server, "Hello") as told:
                await told.until(lambda _, asked=asked: len(standin.exchanges) == asked, "the question")
                with server.client(person) as client:
                    client.get("/")
                    stop = client.post(
                        f"/threads/{told.thread}/stop",
                        data={"csrfmiddlewaretoken": client.cookies.get("csrftoken", "")},
                    )
                assert stop.status_code < 400, stop.text
                end = await told.ends()
            assert end["outcome"] == {"type": "cancelled"}
            assert len(standin.exchanges) == asked
            assert await asyncio.to_thread(standin.exchanges[-1].closed.wait, 60)
