"""What goes on in open calls: told while it does, and nothing of it stays behind."""

from __future__ import annotations

import asyncio

from agent import Agent, ToolContext, subagent_tool, tool
from agent import events as ev
from agent.messages import Transcript
from agent.providers.scripted import ScriptedProvider, Turn
from agent.reducer import apply
from agent.underway import NOTHING, take
from tests.agent.runs import play


@tool
async def count(ctx: ToolContext) -> str:
    for done in range(3):
        ctx.emit("count", {"done": done, "total": 3})
        await asyncio.sleep(0)
    return "counted"


def helper(*turns: Turn, name: str = "helper", tools=(count,)):
    return subagent_tool(Agent(ScriptedProvider(*turns), "inner", tools), name=name, description="Helps.")


async def watched(*turns: Turn, tools):
    """(event, what goes on behind it), for each event of a run."""
    told = await play(*turns, tools=tools)
    transcript, underway, seen = Transcript(), NOTHING, []
    for event in told.events:
        transcript = apply(transcript, event)
        underway = take(underway, event, transcript)
        seen.append((event, underway))
    return seen


async def test_progress_is_there_until_its_call_has_a_result():
    seen = await watched(Turn(calls=[("c1", "count", {})]), Turn("Done."), tools=[count])
    values = [underway.progress.get("c1") for event, underway in seen if isinstance(event, ev.Custom)]
    assert values == [{"done": done, "total": 3} for done in range(3)]
    result = next(place for place, (event, _) in enumerate(seen) if isinstance(event, ev.ToolCallResult))
    assert all(not underway.progress for _, underway in seen[result:])


async def test_a_subagents_words_and_calls_grow_as_it_works_and_are_left_to_the_result():
    inner = helper(Turn("Let me count.", calls=[("x", "count", {})]), Turn("Three."))
    seen = await watched(Turn(calls=[("c1", "helper", {"task": "Count"})]), Turn("Done."), tools=[inner])
    runs = [underway.behind("c1") for _, underway in seen]
    said = [run.transcript for run in runs if run is not None]
    assert said[0] == Transcript()
    assert [message.role for message in said[-1]] == ["assistant", "tool", "assistant"]
    assert said[-1][-1].text == "Three."
    assert any(underway.progress for _, underway in seen), "what its own call told is told, too"
    event, underway = next(each for each in reversed(seen) if isinstance(each[0], ev.ToolCallResult))
    assert underway == NOTHING
    kept = [wire for wire in event.metadata["subagent"]["messages"] if wire["role"] != "user"]
    assert [wire["role"] for wire in kept] == ["assistant", "tool", "assistant"]


async def test_what_is_further_in_makes_what_is_around_it_another_object():
    innermost = helper(Turn("A long word.", delta_size=2), name="third", tools=())
    middle = helper(Turn(calls=[("y", "third", {"task": "Say"})]), Turn("Said."), tools=(innermost,))
    seen = await watched(Turn(calls=[("c1", "helper", {"task": "Ask"})]), Turn("Done."), tools=[middle])
    deltas = [(underway.behind("c1"), len(underway.inner)) for event, underway in seen if _is_word(event)]
    deepest = [run for run, depth in deltas if depth == 2]
    assert len(deepest) > 3
    assert len(set(map(id, deepest))) == len(deepest)


def _is_word(event: ev.Event) -> bool:
    return isinstance(event, ev.TextMessageContent) and event.subagent_run_id is not None


async def test_nothing_goes_on_behind_a_runs_end():
    seen = await watched(Turn(calls=[("c1", "count", {})]), Turn("Done."), tools=[count])
    assert seen[-1][1] == NOTHING
    assert take(seen[1][1], ev.RunError(message="gone"), Transcript()) == NOTHING
