"""A card shows what a person wants to know, and what the model was given where that is another text."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from django.test import override_settings

from agent import ToolRegistry, Transform, tool
from agent.middleware import Middleware
from agent.middlewares import Redact
from agent.providers.scripted import ScriptedProvider, Turn
from chatsite.chat import db, eventlog, store
from chatsite.chat.agents import Agents, use_agents
from chatsite.chat.readers import following
from chatsite.chat.render.fragments import render_transcript
from tests.chat.test_organizing import now
from tests.chat.test_runs import begin

HOSTILE = "<script>alert(1)</script>"
LONG = HOSTILE + "x" * 500 + "the very end"


@tool(max_output=100)
def read_file(name: str) -> str:
    """Read a long file."""
    return LONG


async def shown(person, settled, monkeypatch, call: Turn) -> list[str]:
    """The page by the log and by the rows; both must say the same."""
    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([read_file]))
    use_agents(Agents([], demo=ScriptedProvider(call, Turn("Read."))))
    try:
        done = await begin(person)
        channel = eventlog.channel_of(done.thread.pk)
        await asyncio.wait_for(settled(), 20)
        live = await following.state_now(channel, await now(done.thread))
        kept = await db.read(store.load_state, await now(done.thread))
    finally:
        use_agents(None)
    return [render_transcript(live), render_transcript(kept)]


async def test_a_result_that_was_cut_is_shown_whole_with_what_the_model_saw_folded(
    person, settled, monkeypatch
):
    call = Turn(calls=[("c1", "read_file", {"name": "a"})])
    for html in await shown(person, settled, monkeypatch, call):
        whole, saw = html.split("<summary>What the model saw</summary>")
        assert "the very end" in whole
        assert "the very end" not in saw
        assert "&lt;script&gt;" in saw
        assert "<script" not in html


class Renames(Middleware):
    def on_before_tool_call(self, ctx, call):
        return Transform({"name": "/safe/a"})


async def test_arguments_that_a_middleware_changed_stand_beside_the_models_own(person, settled, monkeypatch):
    call = Turn(calls=[("c1", "read_file", {"name": "/etc/passwd"})])
    with override_settings(CHAT_MIDDLEWARE=["tests.chat.test_seen_by_the_model.Renames"]):
        for html in await shown(person, settled, monkeypatch, call):
            assert html.index("/etc/passwd") < html.index("What the tool was given") < html.index("/safe/a")


class Summary(Middleware):
    def on_after_tool_call(self, ctx, call, result):
        return replace(result, content="A file about <b>x</b>.")


class Refuses(Middleware):
    def on_after_tool_call(self, ctx, call, result):
        return replace(result, content='{"error": "Too long to be read."}', error="too_long")


class Hides(Redact):
    def __init__(self):
        super().__init__("the very end")

    def fresh(self):
        return Hides()


async def test_a_result_that_a_middleware_replaced_is_the_tools_for_the_person_and_the_other_for_the_model(
    person, settled, monkeypatch
):
    call = Turn(calls=[("c1", "read_file", {"name": "a"})])
    with override_settings(CHAT_MIDDLEWARE=["tests.chat.test_seen_by_the_model.Summary"]):
        for html in await shown(person, settled, monkeypatch, call):
            whole, saw = html.split("<summary>What the model saw</summary>")
            assert "the very end" in whole
            assert "A file about &lt;b&gt;x&lt;/b&gt;." in saw
    with override_settings(CHAT_MIDDLEWARE=["tests.chat.test_seen_by_the_model.Refuses"]):
        for html in await shown(person, settled, monkeypatch, call):
            error, gave = html.split("<summary>What the tool gave</summary>")
            assert "Too long to be read." in error
            assert "the very end" in gave


async def test_what_is_hidden_is_hidden_from_the_person_too(person, settled, monkeypatch):
    call = Turn(calls=[("c1", "read_file", {"name": "a"})])
    both = ["tests.chat.test_seen_by_the_model.Summary", "tests.chat.test_seen_by_the_model.Hides"]
    with override_settings(CHAT_MIDDLEWARE=both):
        for html in await shown(person, settled, monkeypatch, call):
            assert "the very end" not in html
            assert "[hidden]" in html


async def test_what_the_model_read_as_it_is_shown_is_shown_once(person, plays, settled):
    plays(Turn(calls=[("c1", "get_weather", {"city": "Oslo"})]), Turn("Mild."))
    done = await begin(person)
    await settled()
    html = render_transcript(await db.read(store.load_state, await now(done.thread)))
    assert "What the model saw" not in html
    assert "What the tool was given" not in html
