"""Middlewares that make nonsense of a run's events, and the run that stays well formed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import Middleware, tool
from agent import events as ev
from agent.messages import user_message
from agent.providers.scripted import Turn
from tests.agent.runs import ASKED, Told, play

ran: list[str] = []


@tool
async def echo(text: str = "") -> str:
    ran.append(text)
    return text


SCRIPT = (
    Turn("Let me see.", thinking="hm", signature="sig", calls=[("c1", "echo", {"text": "a"})], delta_size=4),
    Turn("Done."),
)


async def through(does: Any) -> Told:
    ran.clear()
    made = type("Hooking", (Middleware,), {"on_event": lambda self, ctx, event: does(event)})
    return await play(*SCRIPT, tools=[echo], agent={"middleware": [made]})


FIXED = [ev.RunStarted, ev.StepStarted, ev.StepFinished, ev.RunFinished, ev.ToolCallResult]


@pytest.mark.parametrize("kind", FIXED)
@pytest.mark.parametrize("made", [None, [], "twice", "another"])
async def test_what_frames_a_run_is_told_once_whatever_a_middleware_makes_of_it(kind, made):
    plain = await play(*SCRIPT, tools=[echo])

    def change(event):
        if not isinstance(event, kind):
            return event
        if made == "twice":
            return [event, event]
        if made == "another":
            fields = {
                "thread_id": "x",
                "run_id": "x",
                "step_name": "x",
                "tool_call_id": "x",
                "message_id": "x",
            }
            return replace(event, **{k: v for k, v in fields.items() if hasattr(event, k)})
        return made

    assert (await through(change)).events == plain.events


async def test_metadata_may_be_added_and_none_of_ours_changed():
    def change(event):
        if isinstance(event, ev.StepFinished | ev.RunFinished):
            return replace(event, metadata={"trace": "t1", "finishReason": "length", "paused": True})
        return event

    told = await through(change)
    assert [event.metadata["trace"] for event in told.of(ev.StepFinished)] == ["t1", "t1"]
    assert told.told_reasons == ["tool_calls", "stop"]
    assert not any("paused" in event.metadata for event in told.of(ev.StepFinished))
    assert told.end.metadata == {"trace": "t1"}


async def test_a_results_content_may_be_another():
    def change(event):
        return replace(event, content="[hidden]") if isinstance(event, ev.ToolCallResult) else event

    told = await through(change)
    assert told.provider.requests[1].transcript[-1].tool_results[0].content == "[hidden]"


@pytest.mark.parametrize(
    "kind", [ev.TextMessageStart, ev.ToolCallStart, ev.ReasoningMessageStart, ev.ReasoningStart]
)
async def test_without_its_start_nothing_of_a_thing_is_told(kind):
    told = await through(lambda event: None if isinstance(event, kind) else event)
    if kind is ev.TextMessageStart:
        assert told.text == ""
    if kind is ev.ToolCallStart:
        assert ran == []
        assert told.stop_reason == "no_calls"


@pytest.mark.parametrize("kind", [ev.TextMessageEnd, ev.ToolCallEnd, ev.ReasoningMessageEnd, ev.ReasoningEnd])
async def test_a_missing_end_is_told_at_the_end_of_the_turn(kind):
    plain = await play(*SCRIPT, tools=[echo])
    told = await through(lambda event: None if isinstance(event, kind) else event)
    assert len(told.of(kind)) == len(plain.of(kind))
    assert ran == ["a"]


def mine(event: ev.Event) -> list[ev.Event]:
    return [
        event,
        ev.ToolCallStart("forged", "echo", "m1"),
        ev.ToolCallArgs("forged", '{"text": "forged"}'),
        ev.ToolCallEnd("forged"),
        ev.TextMessageStart("forged"),
        ev.TextMessageContent("forged", "forged"),
        ev.TextMessageEnd("forged"),
        ev.ToolCallResult("t9", "c1", "forged"),
        ev.MessagesSnapshot((user_message("x", "forged"),)),
        ev.TextMessageChunk("forged", delta="forged"),
        ev.ToolCallChunk("forged", "echo", delta="{}"),
        ev.ReasoningEncryptedValue("message", "forged", "x"),
        ev.Custom("provider_result", {"messageId": "x", "toolCallId": "c1", "block": 1}),
        ev.Custom("tool-input-available", {"toolCallId": "c1"}),
        ev.SubagentStarted("s1", "forged"),
        ev.RunFinished("t1", "r1"),
        ev.RunError("forged"),
    ]


async def test_no_middleware_calls_tools_writes_messages_or_ends_runs_of_its_own():
    plain = await play(*SCRIPT, tools=[echo])
    assert (await through(mine)).events == plain.events
    assert ran == ["a"]


async def test_the_name_of_a_call_cannot_be_changed():
    told = await through(
        lambda e: replace(e, tool_call_name="other") if isinstance(e, ev.ToolCallStart) else e
    )
    assert told.results == []


async def test_events_that_stand_for_nothing_of_the_run_may_come_anywhere_inside_it():
    told = await through(lambda event: [ev.Custom("before", 1), event, ev.StateSnapshot({"n": 1})])
    assert isinstance(told.events[0], ev.RunStarted)
    assert isinstance(told.events[-1], ev.RunFinished)
    assert len(told.of(ev.Custom)) == len(told.of(ev.StateSnapshot))


CHOICES = st.lists(st.integers(0, 7), min_size=1, max_size=60)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(CHOICES)
def test_no_middleware_however_mad_breaks_a_run(choices):
    """`play` holds every run against what AG-UI's clients check, and its fold against what the run holds."""
    left = iter(choices * 20)

    def mad(event):
        match next(left, 0):
            case 1:
                return None
            case 2:
                return [event, event]
            case 3:
                return mine(event)
            case 4:
                return list(reversed(mine(event)))
            case 5:
                return [ev.Custom("x", 1), event]
            case 6 if hasattr(event, "delta"):
                return replace(event, delta="")
        return event

    async def go() -> None:
        told = await through(mad)
        assert told.transcript[0] == ASKED
        assert len(ran) <= 1

    asyncio.run(go())
