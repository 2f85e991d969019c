"""What the README shows does what it says."""

from __future__ import annotations

import re
from pathlib import Path

from agent import Agent, RunContext, Transcript, run_agent, tool, user_message
from agent.events import RunFinished, ToolCallResult
from agent.providers.scripted import ScriptedProvider, Turn

README = Path(__file__).parents[2] / "README.md"


def shown(name: str) -> dict:
    """What the README's sample that defines `name` leaves behind when it is run."""
    samples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.S)
    [sample] = [text for text in samples if re.search(rf"^(async )?(def|class) {name}\b", text, flags=re.M)]
    scope: dict = {}
    exec(sample, scope)
    return scope


@tool
def send_email(to: str) -> str:
    """Would send an email."""
    return "sent"


@tool
def fails() -> str:
    """Always fails."""
    raise ValueError("in vain")


async def play(provider, tools, **more) -> list:
    agent = Agent(provider, "m", tools, **more)
    ctx = RunContext(thread_id="t", run_id="r")
    return [event async for event in run_agent(agent, Transcript(), ctx, input=[user_message("u", "Go")])]


async def test_the_tool_has_its_signature_as_its_schema():
    look_up = shown("look_up")["look_up"]
    assert look_up.parameters["required"] == ["order"]
    provider = ScriptedProvider(Turn(calls=[("c", "look_up", {"order": "7"})]), Turn("Shipped."))
    events = await play(provider, [look_up])
    assert '"shipped"' in next(event.content for event in events if isinstance(event, ToolCallResult))


async def test_the_strategy_stops_behind_a_failed_call_by_its_name():
    strategy = shown("not_twice_in_vain")["strategy"]
    provider = ScriptedProvider(Turn(calls=[("c", "fails", {})]), Turn("Never asked."))
    events = await play(provider, [fails], strategy=strategy)
    assert isinstance(events[-1], RunFinished)
    assert events[-1].stop_reason == "not_twice_in_vain"
    assert len(provider.requests) == 1


async def test_the_middleware_sends_no_email_at_night():
    office_hours = shown("OfficeHours")["OfficeHours"]
    for hour, said in ((3, "nobody gets an email now"), (10, "sent")):
        provider = ScriptedProvider(Turn(calls=[("c", "send_email", {"to": "ada"})]), Turn("Well."))
        events = await play(provider, [send_email], middleware=[lambda hour=hour: office_hours(lambda: hour)])
        assert said in next(event.content for event in events if isinstance(event, ToolCallResult))
