"""Stop: in every phase, from anywhere, twice; the model's server sees it, and a receipt says what had happened."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from agent import ToolRegistry, tool
from agent.events import RunFinished
from agent.messages import open_calls
from agent.providers import listing
from agent.providers.endpoint import Endpoint
from agent.providers.http import HttpProvider
from agent.providers.scripted import Turn
from agent.wire import anthropic, openai_chat
from chatsite.chat import commands, db, eventlog, runner
from chatsite.chat.agents import Agents, use_agents
from chatsite.chat.commands.values import Send, Stop
from chatsite.chat.models import Run, ToolCall
from chatsite.chat.readers import following
from chatsite.chat.rows import kept_log
from chatsite.chat.sources import Source
from tests.chat.conftest import row_of, until
from tests.chat.test_runs import begin, transcript_of
from tests.standin import Broken, Say, StandIn

WITHIN = 20.0
"""Seconds in which a stop must be through here. The promise is half a second, on a machine that has nothing else to
do; whatever is not stopped at all takes a minute."""


@pytest.fixture
async def upstream():
    async with StandIn() as server:
        yield server
    use_agents(None)


def speak_to(server: StandIn, codec) -> None:
    url = server.openai_url if codec is openai_chat else server.anthropic_url
    use_agents(Agents([], demo=HttpProvider(codec, Endpoint("stand-in", url, "key"))))


async def stopped(person, done) -> Run:
    """Stop it twice, as an impatient person does."""
    began = time.monotonic()
    stop = Stop(run_id=done.run.public_id)
    await commands.perform(person, done.thread.public_id, stop, door="page")
    await commands.perform(person, done.thread.public_id, stop, door="websocket")
    tasks = [work.task for work in runner.running_here() if work.run_pk == done.run.pk]
    if tasks:
        await asyncio.wait(tasks, timeout=60)
    assert time.monotonic() - began < WITHIN
    run = await row_of(done.run)
    assert (run.state, run.stop_reason) == ("cancelled", "cancelled")
    return run


@pytest.mark.parametrize("codec", [openai_chat, anthropic])
@pytest.mark.parametrize(
    ("answer", "during"),
    [
        (Broken("hang"), "waiting"),
        (Broken("hang_body"), "waiting"),
        (Broken("hang_stream"), "text"),
        (Say("One word after the other. " * 400, pieces=5, delay=0.02), "text"),
    ],
    ids=["before the head", "before the first token", "in a text that stalls", "in a text"],
)
async def test_a_stop_closes_the_connection_to_the_model_and_keeps_what_was_written(
    person, settled, upstream, codec, answer, during
):
    speak_to(upstream, codec)
    upstream.play(answer)
    done = await begin(person, "Hello?")
    channel = eventlog.channel_of(done.thread.pk)
    await until(lambda: upstream.exchanges)
    if during == "text":
        await until(lambda: channel.active and channel.active.transcript[-1].role == "assistant")
    run = await stopped(person, done)
    assert await upstream.exchanges[0].gone()
    assert run.receipt == {"during": during, "calls": []}
    kept = await transcript_of(done.thread)
    assert (kept[-1].role == "assistant" and bool(kept[-1].text)) == (during == "text")
    await commands.perform(person, done.thread.public_id, Send(text="And now?"), door="page")
    await settled()
    assert (await transcript_of(done.thread))[-1].text.endswith("And now?")


async def test_a_stop_among_tools_says_which_were_done_and_which_may_have_happened(
    person, plays, settled, monkeypatch
):
    begun = asyncio.Event()

    @tool
    async def quick() -> str:
        """Is done at once."""
        return "done"

    @tool
    async def slow() -> str:
        """Is never done."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @tool(parallel_safe=False)
    async def alone() -> str:
        """Waits for the others."""
        return "never"

    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([quick, slow, alone]))
    plays(Turn(calls=[("a", "quick", {}), ("b", "slow", {}), ("c", "alone", {})]), Turn("Never said."))
    done = await begin(person)
    await begun.wait()
    async with asyncio.timeout(20):
        while (await db.read(ToolCall.objects.get, call_id="a")).state != "done":  # noqa: ASYNC110 (in the rows)
            await asyncio.sleep(0.01)
    run = await stopped(person, done)
    assert run.receipt["during"] == "tools"
    assert [(call["toolName"], call["outcome"]) for call in run.receipt["calls"]] == [
        ("quick", "done"), ("slow", "unknown"), ("alone", "not_run"),
    ]  # fmt: skip
    states = {call.call_id: call.state for call in await db.read(lambda: list(ToolCall.objects.all()))}
    assert states == {"a": "done", "b": "unknown", "c": "cancelled"}
    kept = await transcript_of(done.thread)
    assert open_calls(kept) == ()
    end = (await db.read(kept_log.events_after, run.pk, 0))[-1][1]
    assert isinstance(end, RunFinished)
    assert end.metadata["receipt"] == run.receipt


async def test_the_page_has_the_receipt(person, plays, settled, monkeypatch):
    from chatsite.chat.render.fragments import render_transcript

    begun = asyncio.Event()

    @tool
    async def send_it() -> str:
        """Is never done."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([send_it]))
    plays(Turn(calls=[("a", "send_it", {})]))
    done = await begin(person)
    await begun.wait()
    channel = eventlog.channel_of(done.thread.pk)
    await stopped(person, done)
    live = render_transcript(await following.state_now(channel, done.thread))
    channel.live = None
    assert live == render_transcript(await following.state_now(channel, done.thread))
    assert "Stopped by you. What was written so far is kept. May have happened: send_it." in live


async def test_a_stop_that_comes_late_stops_no_other_run(person, plays, settled):
    gate = asyncio.Event()
    plays(Turn("One."), Turn("Two.", gate=gate))
    done = await begin(person)
    await settled()
    sent = await commands.perform(person, done.thread.public_id, Send(text="More"), door="page")
    late = Stop(run_id=done.run.public_id)
    assert (await commands.perform(person, done.thread.public_id, late, door="page")).run is None
    assert not (await row_of(sent.run)).stop_requested
    gate.set()
    await settled()
    assert (await row_of(sent.run)).state == "finished"


async def test_a_stop_between_two_turns_makes_no_other_turn(person, plays, settled, monkeypatch):
    """The second turn is asked for while the stop is on its way."""
    provider = plays(
        Turn(calls=[("c1", "get_weather", {"city": "Oslo"})]), Turn("Never.", gate=asyncio.Event())
    )
    done = await begin(person)
    await until(lambda: len(provider.requests) == 2)
    run = await stopped(person, done)
    assert run.receipt["during"] == "waiting"
    assert [call["outcome"] for call in run.receipt["calls"]] == ["done"]
    assert provider.closed == 1


class Forgetful:
    """An endpoint that lists its one model, and is silent when it is asked during a run."""

    def __init__(self, model: str) -> None:
        self.model, self.silent = model, asyncio.Event()

    async def __aenter__(self) -> Source:
        self.server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        return Source(
            HttpProvider(openai_chat, Endpoint(self.model, f"http://127.0.0.1:{port}/v1"), retries=0)
        )

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if runner.running_here():
            self.silent.set()
            await reader.read()
        else:
            body = json.dumps({"data": [{"id": self.model}]})
            writer.write(
                f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
            )
        writer.close()

    async def __aexit__(self, *_: object) -> None:
        self.server.close()


async def test_a_stop_is_heard_while_endpoints_are_asked_for_their_models_all_at_once(
    person, settled, monkeypatch
):
    monkeypatch.setattr(listing, "ASK_EVERY", 0.0)
    monkeypatch.setattr(listing, "ASK_FOR", 60.0)
    near, far = Forgetful("near"), Forgetful("far")
    async with near as first, far as second:
        use_agents(Agents([first, second]))
        try:
            done = await begin(person, "Hello?", model="far")
            async with asyncio.timeout(60):
                await near.silent.wait()
                await far.silent.wait()
            run = await stopped(person, done)
        finally:
            use_agents(None)
    assert run.receipt["calls"] == []
    assert [message.role for message in await transcript_of(done.thread)] == ["user"]
