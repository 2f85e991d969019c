"""The AG-UI codec: events both ways, messages, and what it refuses of a client's body."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from copy import copy
from datetime import date
from typing import get_args

import pytest
from ag_ui.core import Message as WireMessage
from ag_ui.core import RunAgentInput
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from agent import events
from agent.errors import InvalidRequest
from agent.messages import (
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
    Usage,
    user_message,
)
from agent.wire import agui
from agent.wire.agui_shape import run_agent_input
from tests.agent import agui_values
from tests.agent.agui_validation import assert_valid_event, assert_valid_run

EVENTS = get_args(events.Event)

# -- events --------------------------------------------------------------------------------------------------


def test_there_are_thirty_one_events():
    assert len(EVENTS) == 31


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_what_is_decoded_is_what_was_encoded(event):
    @given(agui_values.of(event))
    @settings(max_examples=60, deadline=None)
    def holds(value):
        assert agui.decode_event(agui.encode_event(value)) == value
        assert agui.decode_event(json.loads(agui.encode_event_json(value))) == value

    holds()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_is_valid_to_the_protocols_own_types(event):
    @given(agui_values.of(event))
    @settings(max_examples=30, deadline=None)
    def holds(value):
        assert_valid_event(agui.encode_event(value))

    holds()


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_the_json_text_is_the_compact_form_of_the_dict(event):
    @given(agui_values.of(event))
    @settings(max_examples=20, deadline=None)
    def holds(value):
        expected = json.dumps(agui.encode_event(value), ensure_ascii=False, separators=(",", ":"))
        assert agui.encode_event_json(value) == expected

    holds()


DELTAS = [
    lambda text: events.TextMessageContent(message_id="m", delta=text),
    lambda text: events.ReasoningMessageContent(message_id="m", delta=text),
    lambda text: events.ToolCallArgs(tool_call_id="c", delta=text),
    lambda text: events.TextMessageContent(message_id=text, delta="d", metadata={"a": 1}),
    lambda text: events.Custom(name="n", value={"deep": [text]}),
]


@pytest.mark.parametrize("make", DELTAS)
@pytest.mark.parametrize("text", ["", "\x00", "a\r\nb\u2028", "naïve 😀", "\ud83d", "x\ude00y", '"\\'])
def test_json_text_is_one_line_of_valid_utf8_whatever_the_model_says(make, text):
    line = agui.encode_event_json(make(text))
    assert "\n" not in line
    assert "\r" not in line
    read = agui.decode_event(json.loads(line.encode("utf-8")))
    safe = text.replace("\ud83d", "\ufffd").replace("\ude00", "\ufffd")
    assert read == make(safe)


def test_two_halves_of_a_surrogate_pair_that_meet_become_one_character():
    line = agui.encode_event_json(events.TextMessageContent(message_id="m", delta="\ud83d\ude00"))
    assert json.loads(line)["delta"] == "😀"


def test_non_ascii_text_is_not_escaped():
    assert "naïve" in agui.encode_event_json(events.TextMessageContent(message_id="m", delta="naïve"))


def test_a_tools_odd_values_still_make_strict_json():
    value = {"nan": math.nan, "deep": [math.inf, (1, 2)], "day": date(2026, 1, 2), "set": {1}}
    line = agui.encode_event_json(events.Custom(name="n", value=value))
    read = json.loads(line, parse_constant=pytest.fail)["value"]
    assert read == {"nan": None, "deep": [None, [1, 2]], "day": "2026-01-02", "set": [1]}


def test_a_value_that_holds_itself_ends_somewhere():
    value: list = []
    value += [{"again": value, ("odd", "key"): 1}, value, value]
    read = json.loads(agui.encode_event_json(events.Custom(name="n", value=value)))["value"]
    deep = "(nested too deep)"
    assert read == [{"again": deep, "('odd', 'key')": 1}, deep, deep]


def test_a_value_that_is_nested_beyond_reason_is_cut_off():
    value: list = []
    for _ in range(100_000):
        value = [value]
    line = agui.encode_event_json(events.Custom(name="n", value=value))
    assert len(line) < 1_000


def test_the_dict_holds_nothing_but_json_too():
    event = events.Custom(
        name="n", value=(math.nan, date(2026, 1, 2), "\ud83d"), metadata={"at": {1: date.max}}
    )
    wire = agui.encode_event(event)
    assert wire["value"] == [None, "2026-01-02", "\ufffd"]
    assert wire["metadata"] == {"at": {"1": "9999-12-31"}}
    assert json.loads(json.dumps(wire, allow_nan=False)) == wire


def test_run_started_always_says_the_protocol_version():
    wire = agui.encode_event(events.RunStarted("t", "r"))
    assert wire == {"type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0"}


def test_run_started_echoes_its_input_unless_told_not_to():
    event = events.RunStarted("t", "r", input=(user_message("u1", "hello"),))
    assert agui.encode_event(event)["input"] == {
        "threadId": "t",
        "runId": "r",
        "state": {},
        "messages": [{"id": "u1", "role": "user", "content": "hello"}],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    assert "input" not in agui.encode_event(event, echo_input=False)
    assert "input" not in json.loads(agui.encode_event_json(event, echo_input=False))


def test_run_finished_says_how_and_why_it_ended():
    usage = (events.ModelUsage("m", Usage(10, 5, cached_input_tokens=4), provider="p"),)
    event = events.RunFinished(
        "t", "r", usage=usage, finish_reason="tool_calls", stop_reason="max_iterations(5)", model="m"
    )
    assert agui.encode_event(event) == {
        "type": "RUN_FINISHED",
        "threadId": "t",
        "runId": "r",
        "outcome": {"type": "success"},
        "usage": [
            {
                "provider": "p",
                "model": "m",
                "inputTokens": 10,
                "outputTokens": 5,
                "totalTokens": 15,
                "cachedInputTokens": 4,
            }
        ],
        "metadata": {
            "stopReason": "max_iterations(5)",
            "tanstack": {"finishReason": "tool_calls", "model": "m"},
        },
    }


@pytest.mark.parametrize(
    ("outcome", "wire"),
    [
        (events.Success(("c1",)), {"type": "success", "pendingToolCallIds": ["c1"]}),
        (events.Cancelled(), {"type": "cancelled"}),
        (
            events.Interrupted((events.Interrupt("i1", "tool_call", tool_call_id="c1"),)),
            {
                "type": "interrupt",
                "interrupts": [{"id": "i1", "reason": "tool_call", "toolCallId": "c1"}],
            },
        ),
    ],
)
def test_each_outcome_has_its_shape(outcome, wire):
    assert agui.encode_event(events.RunFinished("t", "r", outcome=outcome))["outcome"] == wire


def test_a_failed_result_is_marked_for_both_clients():
    event = events.ToolCallResult("m2", "c1", '{"error":"no"}', error="tool_error", duration_ms=12)
    assert agui.encode_event(event) == {
        "type": "TOOL_CALL_RESULT",
        "messageId": "m2",
        "toolCallId": "c1",
        "content": '{"error":"no"}',
        "role": "tool",
        "metadata": {
            "errorCode": "tool_error",
            "durationMs": 12,
            "tanstack": {"state": "output-error"},
        },
    }


def test_a_result_that_went_well_has_no_error_marks():
    assert "metadata" not in agui.encode_event(events.ToolCallResult("m2", "c1", "{}"))


def test_metadata_of_others_stays_beside_ours():
    event = events.ToolCallResult("m", "c", "{}", error="x", metadata={"a": 1, "tanstack": {"b": 2}})
    wire = agui.encode_event(event)
    assert wire["metadata"]["tanstack"] == {"b": 2, "state": "output-error"}
    assert agui.decode_event(wire) == event


def test_encoding_leaves_the_event_as_it_was():
    mine = {"a": 1, "tanstack": {"b": 2}}
    event = events.RunFinished("t", "r", model="m", metadata=mine)
    agui.encode_event(event)
    assert mine == {"a": 1, "tanstack": {"b": 2}}


def test_values_that_may_be_anything_may_be_null():
    assert agui.encode_event(events.Custom("n", None))["value"] is None
    assert agui.encode_event(events.StateSnapshot(None))["snapshot"] is None
    assert agui.encode_event(events.Raw(None))["event"] is None


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        ({}, "type: "),
        ({"type": "THINKING_START"}, "type: 'THINKING_START' is no AG-UI event"),
        ({"type": ["x"]}, "type: "),
        ({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m"}, "delta: TEXT_MESSAGE_CONTENT needs it"),
        ({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c"}, "content: "),
    ],
)
def test_what_is_no_event_is_refused_in_words(wire, says):
    with pytest.raises(InvalidRequest) as refusal:
        agui.decode_event(wire)
    assert str(refusal.value).startswith(says)


def test_fields_that_we_do_not_keep_are_dropped():
    wire = {"type": "STEP_STARTED", "stepName": "turn-1", "subagentRunId": "s", "rawEvent": {}, "new": 1}
    assert agui.decode_event(wire) == events.StepStarted("turn-1", subagent_run_id="s")


def test_a_whole_run_is_valid_to_all_three_opinions():
    run = [
        events.RunStarted("t", "r", input=(user_message("u1", "hello"),), timestamp=1),
        events.StepStarted("turn-1"),
        events.ReasoningStart("m1-reasoning-1"),
        events.ReasoningMessageStart("m1-reasoning-1"),
        events.ReasoningMessageContent("m1-reasoning-1", "hm"),
        events.ReasoningMessageEnd("m1-reasoning-1"),
        events.ReasoningEncryptedValue("message", "m1-reasoning-1", "sig"),
        events.ReasoningEnd("m1-reasoning-1"),
        events.TextMessageStart("m1"),
        events.TextMessageContent("m1", "Let me look."),
        events.TextMessageEnd("m1"),
        events.ToolCallStart("c1", "get_weather", parent_message_id="m1"),
        events.ToolCallArgs("c1", "{}"),
        events.ToolCallEnd("c1"),
        events.StepFinished("turn-1", metadata={"finishReason": "tool_calls"}),
        events.Custom("tool_progress", {"toolCallId": "c1"}),
        events.ToolCallResult("m2", "c1", "{}", error="tool_error", duration_ms=3),
        events.RunFinished("t", "r", finish_reason="tool_calls", stop_reason="max_iterations"),
    ]
    assert_valid_run([agui.encode_event(event) for event in run])


BROKEN_RUNS = {
    "no start": lambda run: run[1:],
    "no end": lambda run: run[:-1],
    "two ends": lambda run: [*run, run[-1]],
    "open text": lambda run: [event for event in run if event["type"] != "TEXT_MESSAGE_END"],
    "text never begun": lambda run: [event for event in run if event["type"] != "TEXT_MESSAGE_START"],
    "open call": lambda run: [event for event in run if event["type"] != "TOOL_CALL_END"],
    "no result": lambda run: [event for event in run if event["type"] != "TOOL_CALL_RESULT"],
    "null": lambda run: [run[0] | {"parentRunId": None}, *run[1:]],
    "own field": lambda run: [run[0] | {"mine": 1}, *run[1:]],
}


@pytest.mark.parametrize("breakage", BROKEN_RUNS)
def test_the_validation_helper_sees_each_breakage(breakage):
    run = [
        events.RunStarted("t", "r"),
        events.TextMessageStart("m1"),
        events.TextMessageContent("m1", "x"),
        events.TextMessageEnd("m1"),
        events.ToolCallStart("c1", "f", parent_message_id="m1"),
        events.ToolCallEnd("c1"),
        events.ToolCallResult("m2", "c1", "{}"),
        events.RunFinished("t", "r"),
    ]
    wires = [agui.encode_event(event) for event in run]
    assert_valid_run(wires)
    with pytest.raises(AssertionError):
        assert_valid_run(BROKEN_RUNS[breakage](wires))


# -- messages ------------------------------------------------------------------------------------------------

WIRE_MESSAGES: TypeAdapter[list] = TypeAdapter(list[WireMessage])

TURN = Message(
    "m1",
    "assistant",
    (
        ThinkingPart("hm", signature="sig"),
        ThinkingPart(redacted="secret"),
        TextPart("Let me look."),
        ToolCallPart("c1", "get_weather", '{"city":"Oslo"}'),
        ToolCallPart("c2", "web_search", "{}", provider_executed=True),
    ),
    finish_reason="tool_calls",
    metadata={"model": "demo"},
)


@given(agui_values.part_lists)
@settings(deadline=None)
def test_parts_come_back_from_their_rows_as_they_were(parts):
    rows = json.loads(json.dumps(agui.dump_parts(parts)))
    assert agui.load_parts(rows) == parts


def test_a_row_of_an_unknown_kind_is_an_error_and_not_a_gap():
    with pytest.raises(ValueError, match="hologram"):
        agui.load_parts([{"type": "hologram"}])


@given(agui_values.message_lists)
@settings(deadline=None)
def test_messages_encoded_exactly_come_back_as_they_were(messages):
    wires = json.loads(json.dumps(agui.encode_messages(messages, exact=True)))
    assert agui.decode_messages(wires) == messages


@pytest.mark.parametrize(
    "own", [[], 1, {}, {"role": "user"}, {"role": "user", "parts": 1, "metadata": None}], ids=repr
)
def test_metadata_may_have_a_name_that_the_encoding_uses_itself(own):
    message = Message("m-1", "user", (TextPart("Hello"),), metadata={"exact": own})
    assert agui.decode_messages(agui.encode_messages([message], exact=True)) == (message,)


@pytest.mark.parametrize("own", [[], 1, {}, {"role": "user"}], ids=repr)
def test_what_was_not_taken_along_is_read_as_metadata(own):
    message = Message("m-1", "user", (TextPart("Hello"),), metadata={"exact": own})
    assert agui.decode_messages(agui.encode_messages([message])) == (message,)


@given(agui_values.message_lists)
@settings(deadline=None)
def test_messages_are_valid_to_the_protocols_own_types(messages):
    WIRE_MESSAGES.validate_python(agui.encode_messages(messages))
    WIRE_MESSAGES.validate_python(agui.encode_messages(messages, exact=True))


def test_a_turn_is_its_thoughts_then_one_assistant_message():
    assert agui.encode_message(TURN) == [
        {"id": "m1-reasoning-1", "role": "reasoning", "content": "hm", "encryptedValue": "sig"},
        {
            "id": "m1-reasoning-2",
            "role": "reasoning",
            "content": "",
            "encryptedValue": "secret",
            "metadata": {"redacted": True},
        },
        {
            "id": "m1",
            "role": "assistant",
            "content": "Let me look.",
            "toolCalls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
                },
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "web_search", "arguments": "{}"},
                    "metadata": {"providerExecuted": True},
                },
            ],
            "metadata": {"model": "demo", "finishReason": "tool_calls"},
        },
    ]


def test_a_common_turn_needs_no_exact_copy():
    assert agui.encode_message(TURN, exact=True) == agui.encode_message(TURN)


def test_each_result_is_a_tool_message_of_its_own():
    message = Message(
        "m2",
        "tool",
        (
            ToolResultPart("c1", '{"ok":1}', duration_ms=5),
            ToolResultPart("c2", '{"error":"There is no such city."}', error="tool_error"),
        ),
    )
    first, second = agui.encode_message(message)
    assert first == {
        "id": "m2",
        "role": "tool",
        "toolCallId": "c1",
        "content": '{"ok":1}',
        "metadata": {"durationMs": 5},
    }
    assert second["id"] == "m2-2"
    assert second["error"] == "There is no such city."
    assert second["metadata"]["tanstack"] == {"state": "output-error"}


@pytest.mark.parametrize("content", ["plain words", '{"error": {"deep": 1}}', "[]", "[" * 100_000])
def test_a_result_without_words_in_its_json_says_itself(content):
    (wire,) = agui.encode_message(Message("m", "tool", (ToolResultPart("c", content, error="timeout"),)))
    assert wire["error"] == content


def test_an_empty_failed_result_says_its_code():
    (wire,) = agui.encode_message(Message("m", "tool", (ToolResultPart("c", "", error="timeout"),)))
    assert wire["error"] == "timeout"


def test_a_picture_and_its_words_are_a_list_of_parts():
    parts = (TextPart("what is this?"), ImagePart("image/png", "aGk="), FilePart(url="https://x/y", name="y"))
    (wire,) = agui.encode_message(Message("u", "user", parts))
    assert wire["content"] == [
        {"type": "text", "text": "what is this?"},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "url", "value": "https://x/y"}, "metadata": {"name": "y"}},
    ]


# -- TanStack's UIMessages -----------------------------------------------------------------------------------


def test_a_transcript_as_tanstack_shows_it():
    transcript = Transcript(
        [
            user_message("u1", "weather?"),
            TURN,
            Message("m2", "tool", (ToolResultPart("c1", '{"temperature":62}'),)),
            Message("m3", "assistant", (TextPart("It is 62."),), "stop"),
        ]
    )
    user, turn, answer = agui.encode_ui_messages(transcript, {"u1": "2026-01-02T03:04:05Z"})
    assert user == {
        "id": "u1",
        "role": "user",
        "parts": [{"type": "text", "content": "weather?"}],
        "createdAt": "2026-01-02T03:04:05Z",
    }
    assert turn == {
        "id": "m1",
        "role": "assistant",
        "parts": [
            {"type": "thinking", "content": "hm"},
            {"type": "text", "content": "Let me look."},
            {
                "type": "tool-call",
                "id": "c1",
                "name": "get_weather",
                "arguments": '{"city":"Oslo"}',
                "input": {"city": "Oslo"},
                "state": "complete",
                "output": {"temperature": 62},
            },
            {
                "type": "tool-call",
                "id": "c2",
                "name": "web_search",
                "arguments": "{}",
                "input": {},
                "metadata": {"providerExecuted": True},
                "state": "input-complete",
            },
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "content": '{"temperature":62}',
                "state": "complete",
            },
        ],
        "metadata": {"finishReason": "tool_calls", "tanstack": {"model": "demo"}},
    }
    assert answer["parts"] == [{"type": "text", "content": "It is 62."}]


EDITED = ToolCallPart("c1", "mail", '{"to":"a"}', edited='{"to":"b"}')


def test_an_edited_call_shows_both_versions_everywhere():
    message = Message("m1", "assistant", (EDITED,), "tool_calls")
    (wire,) = agui.encode_message(message)
    assert wire["toolCalls"][0]["function"]["arguments"] == '{"to":"a"}'
    assert wire["toolCalls"][0]["metadata"] == {"editedArguments": '{"to":"b"}'}
    assert agui.decode_messages([wire]) == (message,)
    ((part,),) = [message["parts"] for message in agui.encode_ui_messages([message])]
    assert (part["arguments"], part["input"]) == ('{"to":"a"}', {"to": "b"})
    assert part["metadata"] == {"editedArguments": '{"to":"b"}'}


def test_a_call_that_a_person_is_asked_about_says_so():
    asked = events.Interrupt("i1", "tool_call", tool_call_id="c1")
    message = Message("m1", "assistant", (ToolCallPart("c1", "f"), ToolCallPart("c2", "f")))
    (shown,) = agui.encode_ui_messages([message], interrupts=[asked])
    assert shown["parts"][0]["state"] == "approval-requested"
    assert shown["parts"][0]["approval"] == {"id": "i1", "needsApproval": True}
    assert shown["parts"][1]["state"] == "input-complete"


def test_a_failed_call_is_an_error_part_with_its_words():
    transcript = [
        Message("m1", "assistant", (ToolCallPart("c1", "f", '{"cut'),)),
        Message("m2", "tool", (ToolResultPart("c1", '{"error":"cut off"}', error="max_tokens"),)),
    ]
    ((call, result),) = [message["parts"] for message in agui.encode_ui_messages(transcript)]
    assert (call["state"], call["output"]) == ("error", {"error": "cut off"})
    assert "input" not in call
    assert (result["state"], result["error"]) == ("error", "cut off")


def test_media_and_developer_messages_have_their_tanstack_shape():
    transcript = [
        Message("d", "developer", (TextPart("be kind"),)),
        Message("u", "user", (ImagePart("image/png", "aGk="), FilePart("audio", url="https://x/y"))),
    ]
    developer, user = agui.encode_ui_messages(transcript)
    assert developer["role"] == "system"
    assert user["parts"] == [
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "audio", "source": {"type": "url", "value": "https://x/y"}},
    ]


@given(agui_values.message_lists)
@settings(deadline=None)
def test_every_transcript_has_a_ui_form_in_json(messages):
    json.dumps(agui.encode_ui_messages(messages), allow_nan=False)


# -- what a client asks for ----------------------------------------------------------------------------------

AG_UI_BODY = {
    "threadId": "T1",
    "runId": "557dc123",
    "protocolVersion": "1.0",
    "state": {},
    "messages": [
        {"id": "u1", "role": "user", "content": "hello"},
        {"id": "msg_0f72", "role": "assistant", "content": "Hello!"},
        {"id": "u2", "role": "user", "content": "and now?"},
    ],
    "tools": [],
    "context": [],
    "forwardedProps": {},
}

TANSTACK_BODY = {
    "threadId": "thread-1",
    "runId": "run-2",
    "parentRunId": "run-1",
    "state": {},
    "messages": [
        {
            "id": "msg-1",
            "role": "user",
            "content": "weather?",
            "metadata": {"tanstack": {"createdAt": "2026-09-22T10:00:00.000Z"}},
        },
        {"role": "reasoning", "id": "msg-2-reasoning-abc", "content": "hm", "encryptedValue": "sig"},
        {
            "id": "msg-2",
            "role": "assistant",
            "content": "It is 62.",
            "toolCalls": [
                {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "locate", "arguments": "{}"}},
                {"id": "c3", "type": "function", "function": {"name": "pay", "arguments": "{}"}},
            ],
            "metadata": {"tanstack": {"createdAt": "2026-09-22T10:00:01.000Z"}},
        },
        {
            "role": "tool",
            "id": "tool-c1",
            "toolCallId": "c1",
            "content": '{"temperature":62}',
            "metadata": {"tanstack": {"toolResult": {}}},
        },
        {"role": "tool", "id": "tool-c2", "toolCallId": "c2", "content": "null", "error": "no GPS"},
        {
            "role": "tool",
            "id": "tool-c3",
            "toolCallId": "c3",
            "content": '{"approved":true,"pendingExecution":true,"message":"User approved this action"}',
        },
    ],
    "tools": [{"name": "locate", "parameters": {"type": "object"}}],
    "context": [],
    "forwardedProps": {"model": "demo"},
    "data": {"model": "demo"},
    "resume": [{"interruptId": "i1", "status": "resolved", "payload": {"approved": True}}],
}


def body(**changes):
    return AG_UI_BODY | changes


def saying(content):
    return body(messages=[{"id": "u1", "role": "user", "content": content}])


def test_reads_what_the_ag_ui_client_sends():
    run_input = agui.decode_run_input(AG_UI_BODY)
    assert run_input == agui.RunInput(
        thread_id="T1",
        run_id="557dc123",
        last_user_message=user_message("u2", "and now?"),
        user_message_ids=("u1", "u2"),
    )


def test_reads_what_tanstacks_client_sends():
    run_input = agui.decode_run_input(TANSTACK_BODY)
    assert run_input.parent_run_id == "run-1"
    assert run_input.last_user_message == user_message("msg-1", "weather?")
    assert run_input.resume == (agui.ResumeAnswer("i1", "resolved", {"approved": True}),)
    assert run_input.forwarded_props == {"model": "demo"}
    (tool,) = run_input.client_tools
    assert (tool.name, tool.description) == ("locate", "")
    assert tool.parameters == {"type": "object", "properties": {}}


def test_tool_results_are_read_but_not_tanstacks_note_of_an_approval():
    results = agui.decode_run_input(TANSTACK_BODY).tool_results
    assert results == (
        ToolResultPart("c1", '{"temperature":62}'),
        ToolResultPart("c2", '{"error": "no GPS"}', error="tool_error"),
    )


def test_a_result_that_only_mentions_the_note_is_a_result():
    message = {"role": "tool", "id": "x", "toolCallId": "c1", "content": "about pendingExecution"}
    (result,) = agui.decode_run_input(body(messages=[message])).tool_results
    assert result.content == "about pendingExecution"


def test_optional_fields_may_be_missing_or_null():
    minimal = {key: AG_UI_BODY[key] for key in ("threadId", "runId", "messages")}
    nulls = dict.fromkeys(("state", "tools", "context", "forwardedProps", "resume", "parentRunId"))
    assert agui.decode_run_input(minimal) == agui.decode_run_input(minimal | nulls)


def test_forwarded_props_that_are_no_object_hold_no_settings():
    assert agui.decode_run_input(body(forwardedProps="x")).forwarded_props == {}


def test_a_resume_needs_no_message():
    resume = [{"interruptId": "i1", "status": "cancelled"}]
    run_input = agui.decode_run_input(body(messages=[], resume=resume))
    assert run_input.last_user_message is None
    assert run_input.resume == (agui.ResumeAnswer("i1", "cancelled"),)


def test_a_picture_comes_with_its_words():
    content = [
        {"type": "text", "text": "what?"},
        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "url", "value": "https://x/y"}, "metadata": {"name": "y"}},
    ]
    message = agui.decode_run_input(saying(content)).last_user_message
    assert message.parts == (
        TextPart("what?"),
        ImagePart("image/png", "aGk="),
        FilePart("document", url="https://x/y", name="y"),
    )


def test_half_a_surrogate_pair_in_a_question_is_made_safe():
    assert agui.decode_run_input(saying("a\ud83d")).last_user_message.text == "a\ufffd"


def test_older_messages_may_be_empty():
    messages = [{"id": "u0", "role": "user", "content": ""}, *AG_UI_BODY["messages"]]
    assert agui.decode_run_input(body(messages=messages)).last_user_message.id == "u2"


def image(**source):
    return [{"type": "image", "source": source}]


TOOL = {"name": "f", "description": "d", "parameters": {}}

REFUSALS = [
    ("no object", [], "The body must be a JSON object."),
    ("text", "hello", "The body must be a JSON object."),
    ("no thread", {"runId": "r", "messages": []}, "threadId: "),
    ("no run", {"threadId": "t", "messages": []}, "runId: "),
    ("no messages", {"threadId": "t", "runId": "r"}, "messages: "),
    ("number for an id", body(threadId=5), "threadId: "),
    ("null for an id", body(runId=None), "runId: "),
    ("empty id", body(threadId=""), "threadId: "),
    ("long id", body(threadId="x" * 201), "threadId: it is longer than 200"),
    ("unprintable id", body(runId="a\nb"), "runId: "),
    ("NUL in an id", body(runId="a\x00"), "runId: "),
    ("odd parent", body(parentRunId="a\x00"), "parentRunId: "),
    ("messages no list", body(messages={}), "messages: "),
    ("messages null", body(messages=None), "messages: "),
    ("message no object", body(messages=["hi"]), "messages.0: "),
    ("no role", body(messages=[{"id": "u", "content": "x"}]), "messages.0: "),
    ("unknown role", body(messages=[{"id": "u", "role": "wizard", "content": "x"}]), "messages.0: "),
    ("no message id", body(messages=[{"role": "user", "content": "x"}]), "messages.0.id: "),
    ("no content", body(messages=[{"id": "u", "role": "user"}]), "messages.0.content: "),
    ("content a number", saying(5), "messages.0.content: "),
    ("content null", saying(None), "messages.0.content: "),
    ("part of unknown type", saying([{"type": "hologram"}]), "messages.0.content.0: "),
    ("part without text", saying([{"type": "text"}]), "messages.0.content.0.text: "),
    ("part text a number", saying([{"type": "text", "text": 1}]), "messages.0.content.0.text: "),
    ("part without source", saying([{"type": "image"}]), "messages.0.content.0.source: "),
    ("no mime type", saying(image(type="data", value="aGk=")), "messages.0.content.0.source.mimeType: "),
    ("file handle", saying(image(type="file", value="f-1")), "messages.0.content.0.source: "),
    ("javascript", saying(image(type="url", value="javascript:x")), "messages.0.content.0.source.value: "),
    (
        "no base64",
        saying(image(type="data", value="!", mimeType="image/png")),
        "messages.0.content.0.source.value: ",
    ),
    ("empty text", saying(""), "messages.0.content: the message is empty"),
    ("blank text", saying(" \n "), "messages.0.content: the message is empty"),
    ("no parts", saying([]), "messages.0.content: the message is empty"),
    ("long text", saying("x" * 1_000_001), "messages.0.content: the text is longer"),
    ("nothing to do", body(messages=[]), "messages: there is no user message"),
    (
        "only the assistant's",
        body(messages=AG_UI_BODY["messages"][1:2]),
        "messages: there is no user message",
    ),
    (
        "calls no list",
        body(messages=[{"id": "a", "role": "assistant", "toolCalls": "x"}]),
        "messages.0.toolCalls: ",
    ),
    (
        "call without function",
        body(messages=[{"id": "a", "role": "assistant", "toolCalls": [{"id": "c"}]}]),
        "messages.0.toolCalls.0.function: ",
    ),
    (
        "result without a call",
        body(messages=[{"id": "x", "role": "tool", "content": ""}]),
        "messages.0.toolCallId: ",
    ),
    (
        "long result",
        body(messages=[{"id": "x", "role": "tool", "toolCallId": "c", "content": "x" * 1_000_001}]),
        "messages.0.content: the result is longer",
    ),
    ("tools no list", body(tools={}), "tools: "),
    ("tool no object", body(tools=["f"]), "tools.0: "),
    ("tool without a name", body(tools=[{"description": "d"}]), "tools.0.name: "),
    ("tool name empty", body(tools=[TOOL | {"name": ""}]), "tools.0.name: "),
    ("two tools of a name", body(tools=[TOOL, TOOL]), "tools.1.name: "),
    ("parameters no schema", body(tools=[TOOL | {"parameters": "x"}]), "tools.0.parameters: "),
    ("parameters of a list", body(tools=[TOOL | {"parameters": {"type": "array"}}]), "tools.0.parameters: "),
    ("too many tools", body(tools=[TOOL] * 201), "tools: "),
    ("resume no list", body(resume="x"), "resume: "),
    ("resume without an id", body(resume=[{"status": "resolved"}]), "resume.0.interruptId: "),
    ("resume undecided", body(resume=[{"interruptId": "i", "status": "maybe"}]), "resume.0.status: "),
    ("context no list", body(context="x"), "context: "),
]


@pytest.mark.parametrize(("what", "sent", "says"), REFUSALS, ids=[what for what, _, _ in REFUSALS])
def test_a_bad_body_is_refused_with_the_path_of_what_is_wrong(what, sent, says):
    with pytest.raises(InvalidRequest) as refusal:
        agui.decode_run_input(sent)
    assert str(refusal.value).startswith(says)


@pytest.mark.parametrize(
    "sent",
    [saying("x" * 1_000_001), body(tools=[TOOL] * 201), body(messages=AG_UI_BODY["messages"] * 10_000)],
    ids=["text", "tools", "messages"],
)
def test_what_is_too_large_has_a_code_of_its_own(sent):
    with pytest.raises(InvalidRequest) as refusal:
        agui.decode_run_input(sent)
    assert refusal.value.code == "too_large"


def test_the_longest_text_is_the_callers_to_say():
    assert agui.decode_run_input(saying("x" * 10), max_text=10)
    with pytest.raises(InvalidRequest):
        agui.decode_run_input(saying("x" * 11), max_text=10)


def test_a_refusal_never_repeats_a_long_input():
    wizard = {"id": "u", "role": "w" * 100_000, "content": "x"}
    with pytest.raises(InvalidRequest) as refusal:
        agui.decode_run_input(body(messages=[wizard]))
    assert len(str(refusal.value)) < 400


EVERY_KIND = body(
    protocolVersion="1.0",
    context=[{"description": "where", "value": "here"}],
    messages=[
        {"id": "m1", "role": "system", "content": "Be short.", "name": "boss", "subagentRunId": "s"},
        {"id": "m2", "role": "developer", "content": "Be kind."},
        {"id": "m3", "role": "activity", "activityType": "search", "content": {"step": 1}, "metadata": {}},
        {
            "id": "m4",
            "role": "user",
            "content": [
                {"type": "text", "id": "p", "text": "Look:"},
                {"type": "image", "source": {"type": "url", "value": "https://a/b", "mimeType": "image/png"}},
                {"type": "audio", "source": {"type": "data", "value": "aGk=", "mimeType": "audio/wav"}},
                {"type": "document", "source": {"type": "file", "value": "f", "provider": "p"}},
            ],
        },
    ],
)


def changed_once(value):
    """The value with one thing in it left out, or another in its place."""
    if not isinstance(value, dict | list):
        return
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        for other in (None, 5, "x", [], {}, ["x"], *changed_once(inner)):
            changed = copy(value)
            changed[key] = other
            yield changed
        if isinstance(value, dict):
            yield {name: each for name, each in value.items() if name != key}


def is_taken(validate, sent):
    try:
        validate(sent)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("sent", [AG_UI_BODY, TANSTACK_BODY, EVERY_KIND], ids=["ag-ui", "tanstack", "kinds"])
def test_a_body_has_the_shape_that_the_protocols_own_type_asks_for(sent):
    ours, theirs = run_agent_input().validate_python, RunAgentInput.model_validate
    assert is_taken(ours, EVERY_KIND)
    for changed in changed_once(sent):
        assert is_taken(ours, changed) is is_taken(theirs, changed), changed


def test_a_name_that_only_python_gives_a_field_is_refused_and_no_fault():
    with pytest.raises(InvalidRequest, match="threadId"):
        agui.decode_run_input({"thread_id": "t"} | {key: AG_UI_BODY[key] for key in ("runId", "messages")})


json_bodies = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "role", "content", "source", "type", "name"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(TANSTACK_BODY)), json_bodies))
@settings(deadline=None, max_examples=200)
def test_any_json_at_all_is_read_or_refused_and_never_crashes(changes):
    with suppress(InvalidRequest):
        agui.decode_run_input(TANSTACK_BODY | changes)
