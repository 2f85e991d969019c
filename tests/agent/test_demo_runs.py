"""The demo model through the real loop: each run is valid AG-UI, and comes back from its log as it was."""

from __future__ import annotations

import json

import pytest

from agent import Agent, RunContext, ToolError, Transcript, apply, run_agent, tool, user_message
from agent.events import Event, RunError, RunFinished
from agent.providers.demo import DemoProvider
from agent.providers.demo_rules import RULES
from agent.wire import agui
from tests.agent.agui_validation import assert_valid_run


@tool
def get_weather(city: str) -> dict:
    """The weather of a city."""
    if city == "Nowhere":
        raise ToolError("There is no weather in Nowhere.")
    return {"city": city, "temperature": 62, "conditions": "cloudy"}


@tool
def get_clothing_advice(temperature: float, conditions: str) -> dict:
    """What to wear."""
    return {"recommendation": "Wear a light jacket"}


async def run(question: str) -> tuple[list[Event], Transcript]:
    agent = Agent(DemoProvider(pace=0), "demo", [get_weather, get_clothing_advice], final_answer=True)
    ctx = RunContext(thread_id="t", run_id="r")
    transcript = Transcript()
    events = []
    async for event in run_agent(agent, transcript, ctx, input=[user_message("u1", question)]):
        transcript = apply(transcript, event)
        events.append(event)
    return events, transcript


QUESTIONS = [*(rule.ask for rule in RULES), "compare Paris and Rome", "weather in Nowhere", "hello"]


@pytest.mark.parametrize("question", QUESTIONS)
async def test_each_rule_makes_a_valid_run(question):
    events, _ = await run(question)
    assert_valid_run([agui.encode_event(event) for event in events], cut_calls=True)
    assert_valid_run([json.loads(agui.encode_event_json(event)) for event in events], cut_calls=True)


@pytest.mark.parametrize("question", QUESTIONS)
async def test_what_the_log_keeps_folds_to_the_same_thread(question):
    events, shown = await run(question)
    kept = [agui.decode_event(json.loads(agui.encode_event_json(event))) for event in events]
    assert kept == events
    folded = Transcript()
    for event in kept:
        folded = apply(folded, event)
    assert folded == shown


@pytest.mark.parametrize("question", QUESTIONS)
async def test_its_transcript_comes_back_from_rows_and_has_a_form_for_each_client(question):
    _, transcript = await run(question)
    for message in transcript:
        assert agui.load_parts(json.loads(json.dumps(agui.dump_parts(message.parts)))) == message.parts
    assert agui.decode_messages(agui.encode_messages(transcript, exact=True)) == transcript.messages
    json.dumps(agui.encode_ui_messages(transcript), allow_nan=False)


async def test_the_weather_question_is_answered_in_three_turns():
    events, transcript = await run("What should I wear in San Francisco today?")
    assert [message.role for message in transcript] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert "wear a light jacket" in transcript[-1].text
    assert isinstance(events[-1], RunFinished)
    assert events[-1].stop_reason == "stop"


@pytest.mark.parametrize(
    ("question", "stop_reason"), [("cut", "length"), ("cut call", "length"), ("filter", "content_filter")]
)
async def test_a_run_says_why_it_ended(question, stop_reason):
    events, _ = await run(question)
    assert events[-1].stop_reason == stop_reason


async def test_a_loop_without_end_is_stopped_and_explained():
    events, transcript = await run("loop")
    assert events[-1].stop_reason.startswith("max_iterations")
    assert "a limit of the server stopped me after 5 turns" in transcript[-1].text


@pytest.mark.parametrize("question", ["error", "break off"])
async def test_a_provider_that_fails_ends_the_run_with_an_error(question):
    events, _ = await run(question)
    assert isinstance(events[-1], RunError)


async def test_nowhere_and_bad_arguments_and_unknown_tools_are_survived():
    for question in ("weather in Nowhere", "bad arguments", "unknown tool"):
        events, _ = await run(question)
        assert events[-1].stop_reason == "stop"
