"""Three opinions on a recorded AG-UI stream: the protocol's types, ag-ui-validate, and our stricter rules.

assert_valid_run(events)                     one run: RUN_STARTED ... RUN_FINISHED or RUN_ERROR
assert_valid_run(events, cut_calls=True)     a call may have been cut, so that its arguments are no JSON
assert_valid_run(events, resumed=True)       results may answer calls of an earlier run
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import ag_ui.core
from ag_ui_validate.pytest_plugin import validate_agui
from pydantic import TypeAdapter

Wire = dict[str, Any]

EVENT: TypeAdapter[Any] = TypeAdapter(ag_ui.core.Event)
TERMINAL = {"RUN_FINISHED", "RUN_ERROR"}

# What opens, what goes on, what closes, and the field with the name of the thing.
PAIRS = [
    ("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "messageId"),
    ("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "toolCallId"),
    ("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", "messageId"),
    ("REASONING_START", None, "REASONING_END", "messageId"),
    ("STEP_STARTED", None, "STEP_FINISHED", "stepName"),
]


def assert_valid_run(events: Sequence[Wire], *, cut_calls: bool = False, resumed: bool = False) -> None:
    for event in events:
        assert_valid_event(event)
    assert_validator_is_content(events, cut_calls=cut_calls, resumed=resumed)
    assert_nesting(events)
    assert_one_result_per_call(events, resumed=resumed)


def assert_valid_event(event: Wire) -> None:
    """It validates, has no field that AG-UI does not know, and no optional field that is null."""
    model = EVENT.validate_python(event, strict=False)
    assert not model.model_extra, f"{event['type']} has fields of its own: {model.model_extra}"
    optional = {
        (field.alias or name) for name, field in type(model).model_fields.items() if not field.is_required()
    }
    nulls = [name for name in optional if name in event and event[name] is None]
    assert not nulls, f"{event['type']} has nulls: {nulls}"
    assert json.loads(json.dumps(event, allow_nan=False)) == event


def assert_validator_is_content(
    events: Sequence[Wire], *, cut_calls: bool = False, resumed: bool = False
) -> None:
    allowed = {"AGUI105"}  # an empty delta is odd but legal
    allowed |= {"AGUI204"} if cut_calls else set()
    allowed |= {"AGUI207"} if resumed else set()
    report = validate_agui([dict(event) for event in events])
    assert not report.internal_errors, report.internal_errors
    findings = [
        f"{found.rule} at {found.event_index}: {found.message}"
        for found in report.diagnostics
        # Its tables are older than 1.0, where the content of a result may be a list of parts.
        if found.severity != "info"
        and found.rule not in allowed
        and not (found.event_type == "TOOL_CALL_RESULT" and found.pointer == "/content")
    ]
    assert not findings, findings


def assert_nesting(events: Sequence[Wire]) -> None:
    """@ag-ui/client's verifyEvents, and ours: exactly one terminal event, last, with nothing open."""
    types = [event["type"] for event in events]
    assert types[0] == "RUN_STARTED"
    assert types.count("RUN_STARTED") == 1
    assert types[-1] in TERMINAL
    assert sum(type in TERMINAL for type in types) == 1
    for opens, goes_on, closes, key in PAIRS:
        open_ids: set[tuple[str, str | None]] = set()
        for event in events:
            type, id = event["type"], (event.get(key), event.get("subagentRunId"))
            if type == opens:
                assert id not in open_ids, f"{id} is open already"
                open_ids.add(id)
            elif type in (goes_on, closes):
                assert id in open_ids, f"{type} for {id}, which is not open"
                open_ids -= {id} if type == closes else set()
        assert not open_ids, f"{opens} never closed: {open_ids}"


def assert_one_result_per_call(events: Sequence[Wire], *, resumed: bool = False) -> None:
    called = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
    answered = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert len(answered) == len(set(answered)), "a call has two results"
    if not resumed:
        assert set(answered) <= set(called)
    end = events[-1]
    if end["type"] != "RUN_FINISHED":
        return
    outcome = end.get("outcome", {})
    waiting = set(outcome.get("pendingToolCallIds", ()))
    waiting |= {each["toolCallId"] for each in outcome.get("interrupts", ()) if "toolCallId" in each}
    waiting |= {
        call["toolCallId"]
        for each in outcome.get("interrupts", ())
        for call in each.get("metadata", {}).get("path", ())
    }
    for key in ("pendingToolCallIds", "heldToolCallIds"):
        waiting |= set(end.get("metadata", {}).get(key, ()))
    passed_through = {
        event["toolCallId"]
        for event in events
        if event["type"] == "TOOL_CALL_START" and event.get("metadata", {}).get("providerExecuted")
    }
    assert set(called) - set(answered) - waiting - passed_through == set(), "a call has no result"
