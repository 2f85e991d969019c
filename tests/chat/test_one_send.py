"""One send is one message, by every door: sent twice at once, sent again when the answer got lost, from two tabs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import pytest
from django.test import AsyncClient

from agent.providers.scripted import Turn
from chatsite.chat import db, runner
from chatsite.chat.models import Message, Run, Thread
from tests.chat.conftest import until
from tests.chat.test_api import body
from tests.chat.test_doors import HTMX, by_key, socket
from tests.chat.test_runs import begin

DOORS = ["form", "htmx", "api", "websocket"]
TAKEN = {"form": 303, "htmx": 204, "api": 200, "websocket": 200}


@dataclass
class Sender:
    """Sends into a thread by one door; the answer as a status."""

    door: str
    page: AsyncClient
    http: object
    key: str
    thread: str

    async def send(self, id: str, text: str) -> int:
        match self.door:
            case "form" | "htmx":
                response = await self.page.post(
                    f"/threads/{self.thread}/send",
                    {"text": text, "client_id": id},
                    headers=HTMX if self.door == "htmx" else {},
                )
                return response.status_code
            case "api":
                sent = body(text, thread=self.thread, run=f"run-of-{id}", message=id)
                headers = {"Authorization": f"Bearer {self.key}"}
                return (await self.http.post("/api/chat", json=sent, headers=headers)).status_code
            case _:
                return await self._by_socket(id, text)

    async def _by_socket(self, id: str, text: str) -> int:
        communicator = socket(self.thread, by_key(self.key))
        assert (await communicator.connect())[0]
        command = {"type": "send", "text": text, "clientId": id, "id": 1}
        await communicator.send_to(text_data=json.dumps(command))
        while (answer := json.loads(await communicator.receive_from())).get("id") != 1:
            pass
        await communicator.disconnect()
        return 200 if answer["type"] == "done" else 409


@pytest.fixture(params=DOORS)
async def sender(request, person, http, key, plays, settled, client_of) -> Sender:
    plays(Turn("Hi."), Turn("First answer."), Turn("Second answer."))
    done = await begin(person)
    await settled()
    return Sender(request.param, await db.read(client_of, person), http, key, done.thread.public_id)


async def asked() -> list[str]:
    """What people said in all threads, in order."""
    rows = Message.objects.filter(role="user").order_by("pk")
    return await db.read(lambda: [row.text for row in rows])


async def test_sent_twice_at_once_it_is_one_message_and_one_run(sender, settled):
    before = await asked()
    answers = await asyncio.gather(sender.send("m1", "Once"), sender.send("m1", "Once"))
    await settled()
    assert answers == [TAKEN[sender.door]] * 2
    assert await asked() == [*before, "Once"]
    assert await db.read(Run.objects.count) == 2


async def test_sent_again_after_a_lost_answer_it_is_still_one(sender, settled):
    before = await asked()
    for _ in range(3):
        assert await sender.send("m1", "Once") == TAKEN[sender.door]
        await settled()
    assert await asked() == [*before, "Once"]
    assert await db.read(Run.objects.count) == 2


async def test_the_same_id_with_another_text_is_refused_and_changes_nothing(sender, settled):
    before = await asked()
    assert await sender.send("m1", "One") == TAKEN[sender.door]
    await settled()
    if sender.door == "api":
        sender.thread, again = (
            sender.thread,
            body("Another", thread=sender.thread, run="another-run", message="m1"),
        )
        headers = {"Authorization": f"Bearer {sender.key}"}
        refused = await sender.http.post("/api/chat", json=again, headers=headers)
        assert refused.json()["error"]["code"] == "conflict"
        assert refused.status_code == 409
    else:
        assert await sender.send("m1", "Another") == 409
    assert await asked() == [*before, "One"]
    assert await db.read(Run.objects.count) == 2


async def test_while_an_answer_is_written_the_same_send_is_taken_and_another_is_not(
    sender, plays, settled, person
):
    gate = asyncio.Event()
    plays(Turn("Slowly.", delta_size=2, gate=gate))
    before = await asked()
    first = asyncio.ensure_future(sender.send("m1", "Once"))
    await until(runner.running_here)
    assert await sender.send("m2", "Me too") == 409
    again = asyncio.ensure_future(sender.send("m1", "Once"))
    if sender.door != "api":  # whose answer is the run itself
        assert await again == TAKEN[sender.door]
    gate.set()
    assert await first == await again == TAKEN[sender.door]
    await settled()
    assert await asked() == [*before, "Once"]


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["form", "htmx"])
async def test_a_first_message_sent_twice_makes_one_thread(headers, person, plays, settled, client_of):
    plays(Turn("Hi."), Turn("Hi again."))
    page = await db.read(client_of, person)

    async def create(text: str):
        return await page.post("/threads/", {"text": text, "client_id": "m1"}, headers=headers)

    one, two = await asyncio.gather(create("Hello"), create("Hello"))
    await settled()
    three = await create("Hello")
    where = {answer.headers.get("HX-Redirect") or answer.headers["location"] for answer in (one, two, three)}
    assert len(where) == 1
    assert await db.read(Thread.objects.count) == 1
    assert await db.read(Run.objects.count) == 1
    other = await create("Something else")
    assert other.status_code == 409
    assert "another text" in other.content.decode()
    assert await asked() == ["Hello"]
