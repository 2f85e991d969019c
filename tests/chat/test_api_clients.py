"""What the real clients of `/api/chat` showed to be wrong with it, said without them (`tests/clients` has them)."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest

from agent.providers.scripted import Turn
from chatsite.accounts import keys
from chatsite.asgi import application
from chatsite.chat import db, eventlog
from chatsite.chat.api import stream
from chatsite.chat.models import Run, Thread
from tests.agent.agui_validation import assert_valid_run
from tests.chat.conftest import row_of
from tests.chat.test_api import body, frames, post
from tests.chat.test_api_waiting import PICK, PICKS, of_type, resume
from tests.chat.test_approvals import ASKS
from tests.communicators import HttpCommunicator

# The first request of a fresh ASGI thread may open connections that the collector closes later.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

PICKED = {"id": "t1", "role": "tool", "toolCallId": "p1", "content": '"blue"'}
QUESTION = {"id": "u1", "role": "user", "content": "Paint"}


@asynccontextmanager
async def reading(key, method="POST", address="/api/chat", sent=None):
    """A client that has the head and the first event; it is gone when this ends."""
    communicator = HttpCommunicator(application, method, address)
    communicator.scope["headers"] = [
        (b"authorization", f"Bearer {key}".encode()),
        (b"content-type", b"application/json"),
        (b"host", b"localhost"),
    ]
    await communicator.send_input(
        {"type": "http.request", "body": json.dumps(sent).encode() if sent else b""}
    )
    assert (await communicator.receive_output())["status"] == 200
    await communicator.receive_output()
    yield
    await communicator.send_input({"type": "http.disconnect"})
    await communicator.wait()


async def get(http, key, **query) -> httpx.Response:
    return await http.get("/api/chat", params=query, headers={"Authorization": f"Bearer {key}"})


# -- results that the client brought -------------------------------------------------------------------------


async def test_a_result_that_the_client_brought_is_not_told_to_it(http, key, plays, settled):
    provider = plays(PICKS, Turn("Blue it is."))
    await post(http, key, body("Paint", tools=[PICK]))
    await settled()
    sent = body(run="r2", messages=[QUESTION, PICKED], tools=[PICK])
    for _ in range(2):  # told and replayed
        events = frames((await post(http, key, sent)).text)
        await settled()
        assert_valid_run(events, resumed=True)
        # @ag-ui/client would hold it twice, and send it twice.
        assert not of_type(events, "TOOL_CALL_RESULT")
    assert provider.requests[-1].transcript[-1].tool_results[0].content == '"blue"'
    read = (await get(http, key, threadId="T1")).json()
    assert "tool-result" in [part["type"] for message in read["messages"] for part in message["parts"]]


async def test_answers_and_the_clients_results_are_taken_together(http, key, plays, settled):
    plays(Turn(calls=[*PICKS.calls, *ASKS.calls]), Turn("Painted and sent."))
    events = frames((await post(http, key, body("Paint", tools=[PICK]))).text)
    await settled()
    [asked] = events[-1]["outcome"]["interrupts"]
    answer = resume(asked["id"], {"approved": True})
    sent = body(run="r2", messages=[QUESTION, PICKED], tools=[PICK], resume=[answer])
    events = frames((await post(http, key, sent)).text)
    await settled()
    # A client that is asked for its tool again runs it again.
    assert not of_type(events, "CUSTOM")
    assert [event["toolCallId"] for event in of_type(events, "TOOL_CALL_RESULT")] == ["c1"]
    assert events[-1]["outcome"] == {"type": "success"}
    assert of_type(events, "TEXT_MESSAGE_CONTENT")


# -- leaving -------------------------------------------------------------------------------------------------


async def test_a_message_of_a_client_that_has_just_left_does_not_wait_for_the_grace(
    http, key, plays, settled
):
    plays(Turn("Hello there.", delta_size=2, gate=asyncio.Event()), Turn("Here."))
    async with reading(key, sent=body()):
        pass
    events = frames((await post(http, key, body("And now?", run="r2", message="u2"))).text)
    await settled()
    assert events[-1]["type"] == "RUN_FINISHED"
    assert [run.state for run in await db.read(lambda: list(Run.objects.order_by("pk")))] == [
        "cancelled",
        "finished",
    ]


async def test_a_message_beside_a_run_that_is_read_is_refused(http, key, plays, settled):
    gate = asyncio.Event()
    plays(Turn("Hello there.", delta_size=2, gate=gate))
    async with reading(key, sent=body()):
        assert (await post(http, key, body("And now?", run="r2", message="u2"))).status_code == 409
        gate.set()
        await settled()
    assert (await row_of(await db.read(Run.objects.get))).state == "finished"


async def test_a_run_that_was_told_to_go_on_is_not_stopped_by_a_message(http, key, plays, settled):
    gate = asyncio.Event()
    plays(Turn("Hello there.", delta_size=2, gate=gate))
    async with reading(key, sent=body(forwardedProps={"onDisconnect": "continue"})):
        pass
    assert (await post(http, key, body("And now?", run="r2", message="u2"))).status_code == 409
    gate.set()
    await settled()
    assert (await row_of(await db.read(Run.objects.get))).state == "finished"


async def test_who_left_one_run_does_not_stop_the_next(person, monkeypatch):
    """The run is over by the end of the grace, and its thread is at something else."""
    monkeypatch.setattr(stream, "GRACE", 0.0)
    thread = await db.read(lambda: Thread.objects.create(owner=person, public_id="T1"))
    make = {"thread": thread, "model": "demo", "owner": "another process"}
    left = await db.read(lambda: Run.objects.create(public_id="r1", state="finished", **make))
    following = await db.read(lambda: Run.objects.create(public_id="r2", state="running", **make))
    await stream.stop_if_alone(eventlog.channel_of(thread.pk), thread, left)
    assert not (await row_of(following)).stop_requested


# -- joining a run -------------------------------------------------------------------------------------------


async def test_a_run_is_read_by_its_id_from_the_start(http, key, plays, settled):
    plays(Turn("Hello there."))
    told = frames((await post(http, key, body())).text)
    await settled()
    joined = await get(http, key, offset="-1", runId="r1")
    assert joined.headers["content-type"].startswith("text/event-stream")
    assert frames(joined.text) == told


async def test_a_run_of_somebody_else_is_not_there(http, key, stranger, plays, settled):
    plays(Turn("Hello there."))
    await post(http, key, body())
    await settled()
    others = await db.read(keys.new_api_key, stranger)
    assert (await get(http, others, runId="r1")).status_code == 404
    for unknown in ("r2", "a\0b", "x" * 300):
        assert (await get(http, key, runId=unknown)).status_code == 404, unknown


async def test_who_joined_keeps_a_run_going_and_stops_it_by_leaving(key, plays, settled, monkeypatch):
    monkeypatch.setattr(stream, "GRACE", 0.01)
    plays(Turn("Hello there.", delta_size=2, gate=asyncio.Event()))
    first = reading(key, sent=body())
    await first.__aenter__()
    async with reading(key, "GET", "/api/chat?offset=-1&runId=r1"):
        await first.__aexit__(None, None, None)
        await asyncio.sleep(0.05)  # longer than the grace: nothing tells that something will not happen
        assert (await row_of(await db.read(Run.objects.get))).state == "running"
    await settled()
    assert (await row_of(await db.read(Run.objects.get))).state == "cancelled"


async def test_who_joined_a_run_that_was_told_to_go_on_does_not_stop_it(key, plays, settled, monkeypatch):
    monkeypatch.setattr(stream, "GRACE", 0.01)
    gate = asyncio.Event()
    plays(Turn("Hello there.", delta_size=2, gate=gate))
    async with reading(key, sent=body(forwardedProps={"onDisconnect": "continue"})):
        pass
    async with reading(key, "GET", "/api/chat?offset=-1&runId=r1"):
        pass
    await asyncio.sleep(0.05)  # longer than the grace
    gate.set()
    await settled()
    assert (await row_of(await db.read(Run.objects.get))).state == "finished"


# -- pages ---------------------------------------------------------------------------------------------------


async def test_a_cursor_leads_through_the_pages(http, key, plays, settled):
    plays(*(Turn(f"Answer {number}.") for number in range(3)))
    for number in range(3):
        await post(http, key, body(f"Question {number}", run=f"r{number}", message=f"u{number}"))
        await settled()
    whole = (await get(http, key, threadId="T1")).json()["messages"]
    page = (await get(http, key, threadId="T1", limit="4")).json()
    older = (await get(http, key, threadId="T1", limit="4", before=page["page"]["cursor"])).json()
    assert older["messages"] + page["messages"] == whole
    assert older["page"] == {"truncated": False}
