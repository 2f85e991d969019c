"""Tools of another server in runs of the chat: ordinary tools, from the model's call to the row of its result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agent.events import Custom
from agent.mcp import Servers, read_servers
from agent.messages import ImagePart, Transcript, open_calls
from agent.providers.scripted import Turn
from agent.reducer import apply
from chatsite.chat import commands, db, eventlog
from chatsite.chat.agents import agents
from chatsite.chat.commands.values import Send, Stop
from chatsite.chat.readers import following
from chatsite.chat.tools import every_tool, remote
from chatsite.gateway.hooks import server_tools
from tests.chat.conftest import recover, row_of, until
from tests.chat.dying import kill
from tests.chat.test_approvals import answer, asked, ledger, yes
from tests.chat.test_policies import everybody_may
from tests.chat.test_runs import begin, told, transcript_of
from tests.mcp_server import PNG, SECRET, StandIn, be_patient, stand_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with stand_in(tmp_path_factory.mktemp("mcp")) as running:
        yield running


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`has(server)`: the tools of this process are its."""
    be_patient(monkeypatch)

    def use(*servers: StandIn, **more: Any) -> Servers:
        entries = [{"name": f"s{n}", "url": each.at(), **more} for n, each in enumerate(servers)]
        found = Servers(read_servers(entries))
        remote.use_servers(found)
        return found

    yield use
    remote.use_servers(None)


def call(name: str, id: str = "c1", **arguments: Any) -> tuple[str, str, dict[str, Any]]:
    return id, f"s0__{name}", arguments


async def first_of(kind: type, done: Any) -> Any:
    """What a reader of the run hears first of this kind."""
    channel = eventlog.channel_of(done.thread.pk)
    async for heard in following.follow_run(channel, done.run.pk, done.run.public_id):
        for _, event in heard.events:
            if isinstance(event, kind):
                return event
    raise AssertionError(f"the run ended without {kind.__name__}")


async def test_what_a_server_did_is_told_kept_and_read_by_the_model_next(person, plays, settled, has, server):
    has(server)
    provider = plays(
        Turn(calls=[call("add", a=2, b=3), call("picture", "c2"), call("fails", "c3"), call("nope", "c4")]),
        Turn(calls=[call("add", "c5", a="two"), call("big", "c6")]),
        Turn("Five."),
        Turn("Yes."),
    )
    done = await begin(person)
    events = await told(done)
    await settled()
    kept = await transcript_of(done.thread)
    assert reduce(apply, events, Transcript()) == kept
    results = {part.tool_call_id: part for message in kept for part in message.tool_results}
    assert results["c1"].content == "5"
    assert ImagePart("image/png", data=PNG) in results["c2"].content
    assert (results["c3"].error, json.loads(results["c3"].content)) == (
        "tool_error",
        {"error": "The disk is full."},
    )
    assert results["c4"].error == "unknown_tool"
    assert results["c5"].error == "invalid_arguments"
    assert "b: Field required" in results["c5"].content
    assert len(results["c6"].content) < 101_000
    assert "of 5,000,000 bytes are not shown" in results["c6"].content
    assert (await ledger("c1")).state == "done"
    offered = {spec.name for spec in provider.requests[0].tools}
    assert {"s0__add", "s0__write", "get_weather"} <= offered
    await commands.perform(person, done.thread.public_id, Send(text="Sure?"), door="page")
    await settled()
    assert provider.requests[-1].transcript.messages[:-1] == kept.messages


async def test_a_person_is_asked_and_a_denied_tool_is_not_there(person, plays, settled, has, server):
    has(server)
    provider = plays(Turn(calls=[call("write", words="hi")]), Turn("Written."), Turn("No."))
    before = len(server.calls("write"))
    done, rows = await asked(person, settled)
    assert len(server.calls("write")) == before
    assert (await row_of(done.run)).state == "interrupted"
    await answer(person, done.thread, yes(rows[0], edited_args={"words": "ho"}))
    await settled()
    assert server.calls("write")[before:] == ["begun", "done"]
    kept = await transcript_of(done.thread)
    assert kept[2].tool_results[0].content == 'write: {"words": "ho"}'
    await everybody_may(tools={"s0__write": "deny", "s0__put": "allow"})
    await begin(person, "Again")
    await settled()
    offered = {spec.name for spec in provider.requests[-1].tools}
    assert "s0__write" not in offered
    assert "s0__put" in offered


async def test_stop_ends_the_call_at_the_server_and_says_that_it_may_have_happened(
    person, plays, settled, has, server
):
    has(server)
    await everybody_may(tools={"s0__slow": "allow"})
    plays(Turn(calls=[call("slow")]), Turn("Never said."))
    before = len(server.calls("slow"))
    done = await begin(person)
    async with asyncio.timeout(30):
        assert (await first_of(Custom, done)).value["toolCallId"] == "c1"
    await commands.perform(person, done.thread.public_id, Stop(), door="page")
    await settled()
    assert (await row_of(done.run)).state == "cancelled"
    await until(lambda: server.calls("slow")[before:] == ["begun", "cancelled"], seconds=30)
    assert open_calls(await transcript_of(done.thread)) == ()
    assert (await ledger()).state == "unknown"


async def test_a_server_that_dies_in_mid_call_leaves_the_outcome_unknown_and_the_run_goes_on(
    person, plays, settled, has, tmp_path
):
    with stand_in(tmp_path) as own:
        has(own, needs_approval=False)
        plays(Turn(calls=[call("slow")]), Turn("It may have happened."))
        done = await begin(person)
        await until(lambda: own.calls("slow") == ["begun"], seconds=30)
        own.stop()
        await settled()
    assert own.calls("slow") == ["begun"], "it was asked once"
    row = await ledger()
    assert (row.state, row.error_code) == ("unknown", "outcome_unknown")
    assert (await transcript_of(done.thread))[-1].text == "It may have happened."


async def test_what_only_reads_runs_again_when_this_server_comes_back(person, plays, settled, has, server):
    has(server)
    plays(Turn(calls=[call("slow_read")]), Turn("Never said."))
    before = len(server.calls("slow_read"))
    done = await begin(person)
    await until(lambda: server.calls("slow_read")[before:] == ["begun"], seconds=30)
    await kill(done.run)
    has(server)  # nobody has asked it yet
    assert [each.fate for each in await recover()] == ["continued"]
    await until(lambda: server.calls("slow_read")[before:].count("begun") == 2, seconds=30)
    await commands.perform(person, done.thread.public_id, Stop(), door="page")
    await settled()


async def test_a_server_that_is_away_stops_no_run(person, plays, settled, has, tmp_path):
    gone = StandIn(tmp_path, 9)
    has(gone)
    provider = plays(Turn("Hello."))
    done = await begin(person)
    await settled()
    assert (await row_of(done.run)).state == "finished"
    assert not any(spec.name.startswith("s0__") for spec in provider.requests[0].tools)


async def test_programs_find_them_by_name_and_one_of_our_own_keeps_its_name(has, server):
    hook = server_tools.ServerTools(every_tool)
    assert "s0__add" not in hook.serves
    await has(server).look()
    assert {"s0__add", "get_weather"} <= hook.serves
    assert "s0__add" in agents().tools_with().names
    assert await db.read(lambda: server_tools.tools_from_settings().names) == every_tool().names


async def test_an_admin_sees_each_tool_and_why_those_of_a_server_are_missing(has, server, client_of):
    gone = StandIn(server.log.parent, 9)
    await has(server, gone, headers={"Authorization": SECRET}).look()
    admin = await db.write(User.objects.create_superuser, "root", "", "a long enough secret")
    client = await db.read(client_of, admin)
    page = await client.get(reverse("admin:operator_toolserver_changelist"))
    shown = page.content.decode()
    for words in ("s0__add", "get_weather", "there (protocol 2026-07-28)", "away: it cannot be reached"):
        assert words in shown
    assert "deep: its schema is more than 24 deep" in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script>alert(1)" not in shown
    assert "s3cret" not in shown
    german = await client.get(
        reverse("admin:operator_toolserver_changelist"), headers={"accept-language": "de"}
    )
    assert "er ist nicht erreichbar" in german.content.decode()
    assert "deep: sein Schema ist mehr als 24 Ebenen tief" in german.content.decode()
