"""What a run that was stopped leaves behind as its receipt: what it was at, and what had already happened. Pure.

    {"during": "text", "calls": [{"toolCallId": "c1", "toolName": "send_email", "outcome": "done"}]}

| during   | the run was stopped while                    | outcome | the call                                |
|----------|----------------------------------------------|---------|-----------------------------------------|
| waiting  | it waited for the model, or had not begun    | done    | has its result                          |
| thinking | the model thought                            | failed  | ran, and its result is an error         |
| text     | the model wrote                              | unknown | was stopped in its midst, or lost there |
| call     | the model wrote a call                       | not_run | never began                             |
| tools    | calls were open                              |         |                                         |

It stands in RUN_FINISHED's metadata as `receipt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from agent.events import RunError, RunFinished
from agent.messages import (
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
    open_calls,
)

RECEIPT = "receipt"
BEGUN = "begun"
"""In the metadata of a tool message: its call was stopped when its tool had started."""

During = Literal["waiting", "thinking", "text", "call", "tools"]
Outcome = Literal["done", "failed", "unknown", "not_run"]

NEVER_BEGAN = frozenset(
    {
        "aborted",
        "cancelled",
        "content_filter",
        "denied",
        "incomplete_stream",
        "invalid_arguments",
        "max_tokens",
        "not_answered",
        "not_executed",
        "over_budget",
        "policy_failed",
        "skipped",
        "unknown_tool",
    }
)
"""Codes of results whose call did not run."""


def at_work(transcript: Transcript) -> During:
    """What a run is at whose transcript reads so."""
    last = transcript[-1] if len(transcript) else None
    if last is not None and last.role == "assistant" and last.finish_reason is None and last.parts:
        match last.parts[-1]:
            case ToolCallPart():
                return "call"
            case ThinkingPart():
                return "thinking"
            case TextPart():
                return "text"
    return "tools" if open_calls(transcript) else "waiting"


def receipt(before: Iterable[Message], now: Transcript, during: During) -> dict[str, Any]:
    """`before` is the transcript that the run began with, `now` the one that it ends with: each call answered."""
    known = {result.tool_call_id for message in before for result in message.tool_results}
    names = {call.id: call.name for message in now for call in message.tool_calls}
    new = [
        (result, message.metadata)
        for message in now
        for result in message.tool_results
        if result.tool_call_id not in known
    ]
    # The calls that a stop met are answered by then.
    if during == "waiting" and any(result.error == "aborted" for result, _ in new):
        during = "tools"
    calls = [
        {
            "toolCallId": result.tool_call_id,
            "toolName": names.get(result.tool_call_id, ""),
            "outcome": _outcome(result, metadata),
        }
        for result, metadata in new
    ]
    return {"during": during, "calls": calls}


def with_receipt(end: RunFinished | RunError, receipt: Mapping[str, Any]) -> RunFinished | RunError:
    return replace(end, metadata={**(end.metadata or {}), RECEIPT: receipt})


def _outcome(result: ToolResultPart, metadata: Mapping[str, Any]) -> Outcome:
    if result.error is None:
        return "done"
    if result.error == "outcome_unknown" or metadata.get(BEGUN):
        return "unknown"
    return "not_run" if result.error in NEVER_BEGAN else "failed"
