"""The checker that the other tests lean on refuses what AG-UI's clients refuse."""

from __future__ import annotations

import pytest

from agent import events as ev
from tests.agent.verify import verify_events, verify_run

START, END = ev.RunStarted("t", "r"), ev.RunFinished("t", "r")
TEXT = (ev.TextMessageStart("m"), ev.TextMessageContent("m", ""), ev.TextMessageEnd("m"))
CALL = (ev.ToolCallStart("c", "f", "m"), ev.ToolCallArgs("c", "{}"), ev.ToolCallEnd("c"))
RESULT = ev.ToolCallResult("t", "c", "ok")


@pytest.mark.parametrize(
    "events",
    [
        (),
        (START, END),
        (START, *TEXT, *TEXT, *CALL, RESULT, END),
        (START, TEXT[0], CALL[0], TEXT[1], CALL[1], CALL[2], TEXT[2], END),
        (ev.RunError("x"),),
        (START, TEXT[0], ev.RunError("x"), START, END),
        (START, END, ev.RunError("x")),
        (START, ev.TextMessageChunk("m", delta="a"), ev.TextMessageChunk(delta="b"), END),
        (START, ev.SubagentStarted("s", "n"), ev.SubagentError("s", "x"), END),
    ],
)
def test_what_clients_take_passes(events):
    verify_events(events)


@pytest.mark.parametrize(
    "events",
    [
        (END,),
        TEXT,
        (START, START),
        (START, END, END),
        (START, END, *TEXT),
        (ev.RunError("x"), ev.RunError("x")),
        (START, TEXT[0], TEXT[0]),
        (START, TEXT[1]),
        (START, TEXT[2]),
        (START, TEXT[0], END),
        (START, CALL[1]),
        (START, CALL[0], END),
        (START, ev.StepFinished("turn-1")),
        (START, ev.StepStarted("turn-1"), END),
        (START, ev.ReasoningStart("r"), END),
        (START, ev.ReasoningStart("r"), ev.ReasoningMessageEnd("r")),
        (START, ev.ToolCallChunk(delta="x")),
        (START, ev.SubagentStarted("s", "n"), END),
        (START, ev.SubagentStarted("s", "n"), ev.SubagentFinished("s"), ev.SubagentStarted("s", "n")),
    ],
)
def test_what_kills_a_run_at_a_client_is_refused(events):
    with pytest.raises(AssertionError, match="event "):
        verify_events(events)


@pytest.mark.parametrize(
    "events",
    [
        (START, *TEXT),
        (START, END, START, END),
        (START, *CALL, END),
        (START, *CALL, RESULT, RESULT, END),
        (START, *CALL, RESULT, *CALL, END),
        (START, ev.ToolCallStart("", "f"), ev.ToolCallEnd(""), END),
        (START, *CALL, ev.RunFinished("t", "r", ev.Success(("c",)))),
        (START, *CALL, RESULT, ev.Custom("tool-input-available", {"toolCallId": "c"}), END),
    ],
)
def test_a_run_of_ours_promises_more(events):
    with pytest.raises(AssertionError):
        verify_run(events)


def test_a_call_may_stay_open_for_its_client():
    start_it = ev.Custom("tool-input-available", {"toolCallId": "c", "toolName": "f", "input": {}})
    verify_run((START, *CALL, start_it, ev.RunFinished("t", "r", ev.Success(("c",)))))
    asked = ev.Interrupted((ev.Interrupt("i", "tool_call", tool_call_id="c"),))
    verify_run((START, *CALL, ev.RunFinished("t", "r", asked)))
    held = ev.RunFinished("t", "r", asked, metadata={"heldToolCallIds": ["d"]})
    verify_run((START, *CALL, ev.ToolCallStart("d", "g"), ev.ToolCallEnd("d"), held))
