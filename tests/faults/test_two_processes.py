"""Two processes on one database, with and without Redis between them: whoever is asked, the thread is the same."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults.sites import Site, Told
from tests.server import Person, Server
from tests.site.processes import opened_socket
from tests.site.test_several_processes import redis_database
from tests.standin import Say, StandIn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

LONG = Say("".join(f"word {n}, " for n in range(600)), pieces=10, delay=0.03)


@pytest.fixture(params=["alone", "redis"])
def site(request, tmp_path: Path, standin: StandIn, database: dict[str, str]) -> Site:
    settings = {}
    if request.param == "redis":
        settings["REDIS_URL"] = redis_database(2)
    return Site(tmp_path, standin, database, **settings)


async def command(server: Server, person: Person, thread: str, body: str) -> None:
    """One command over a socket, until the server has said that it took it."""
    url = f"{server.url.replace('http', 'ws')}/ws/threads/{thread}/"
    async with opened_socket(url, additional_headers=person.bearer) as sock:
        await sock.send(body)
        async for said in sock:
            if '"id": 1' in said or '"id":1' in said:
                assert "error" not in said, said
                return


async def test_a_run_is_followed_and_stopped_through_the_other_process(
    site: Site, standin: StandIn, gate: threading.Event
):
    with site.server() as one, site.server() as two:
        person = site.person(one)
        standin.play(Say("One word after the other. " * 20, pieces=10, gate=gate))
        async with site.run(one, "Hello") as here:
            await here.hears(20)
            async with site.follow(two, here.thread) as there:
                await there.hears(50)
                assert here.end is None, "it is heard while it is written"
                gate.set()
                await here.ends()
                await there.ends()
            assert there.text == here.text
        gate.clear()  # only the stop ends this answer
        standin.play(replace(LONG, delay=0, gate=gate))
        async with site.run(one, "Go on", here.thread) as here:
            await here.hears(100)
            await command(two, person, here.thread, '{"type": "stop", "id": 1}')
            end = await here.ends(20)
        assert end["outcome"] == {"type": "cancelled"}
        assert await standin.exchanges[-1].gone()
        assert "Traceback" not in one.output + two.output


async def test_a_message_sent_to_both_at_once_is_one_message_and_one_run(site: Site, standin: StandIn):
    with site.server() as one, site.server() as two:
        site.person(one)
        for number in range(5):
            standin.play(Say("Here once."))
            ids = {"threadId": f"t{number}", "runId": f"r{number}"}
            messages = [{"id": f"m{number}", "role": "user", "content": "Hello"}]

            async def send(server: Server, ids: dict[str, str] = ids, messages: Any = messages) -> Told:
                async with site.run(server, "", ids["threadId"], messages=messages, **ids) as told:
                    await told.over.wait()
                return told

            both = await asyncio.gather(send(one), send(two))
            assert {told.text for told in both} == {"Here once."}, [(told.status, told.body) for told in both]
        assert site.value("SELECT count(*) FROM chat_message WHERE role = 'user'") == 5
        assert site.value("SELECT count(*) FROM chat_run") == 5
        assert len(standin.exchanges) == 5
        assert "Traceback" not in one.output + two.output


async def test_a_question_of_one_process_is_answered_through_the_other_and_once(site: Site, standin: StandIn):
    with site.server() as one, site.server() as two:
        person = site.person(one)
        standin.play(Say("May I?", [("c1", "sign", {"paper": "the lease"})]))
        async with site.run(one, "Sign it") as asked:
            end = await asked.ends()
        [interrupt] = end["outcome"]["interrupts"]
        standin.play(*[Say("It is signed.")] * 2)
        answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}

        async def say_yes(server: Server) -> Told:
            async with site.run(server, "", asked.thread, messages=[], resume=[answer]) as told:
                await told.over.wait()
            return told

        both = await asyncio.gather(say_yes(one), say_yes(two))
        finished = [told for told in both if told.end is not None and told.end["type"] == "RUN_FINISHED"]
        assert finished, [(told.status, told.body, told.events) for told in both]
        assert {told.text for told in finished} == {"It is signed."}
        assert site.counted() == ["sign the lease"]
        assert site.value("SELECT count(*) FROM chat_interrupt WHERE status = 'approved'") == 1
        with two.client(person) as client:
            assert "It is signed." in client.get(f"/threads/{asked.thread}/").text
        assert "Traceback" not in one.output + two.output


async def test_what_a_process_leaves_behind_the_other_finds(site: Site, standin: StandIn):
    with site.server() as one, site.server() as two:
        site.person(one)
        standin.play(LONG)
        async with site.run(one, "Hello") as told:
            await told.hears(300)
            async with site.follow(two, told.thread) as there:
                await there.hears(100)
                heard = told.text
                await asyncio.to_thread(one.kill)
                assert (await there.ends())["type"] == "RUN_ERROR"
        await asyncio.to_thread(site.all_runs_end)
        # Closed and gone on with, once, by the one that lives.
        assert site.rows("SELECT state FROM chat_run ORDER BY id") == [("lost",), ("finished",)]
        rows = site.rows("SELECT text FROM chat_message WHERE role = 'assistant' ORDER BY id")
        assert rows[0][0].startswith(heard[:50])
        await asyncio.sleep(6)  # longer than the layer's reads of nothing take
        async with site.run(two, "And now?", told.thread) as again:
            assert (await again.ends())["type"] == "RUN_FINISHED"
        assert "Traceback" not in two.output
