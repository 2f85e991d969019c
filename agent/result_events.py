"""A result as the event that tells it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agent.context import RunContext
from agent.events import ToolCallResult
from agent.messages import ToolResultPart
from agent.results import UNKNOWN_OUTCOME, error_result


def as_it_may_have_happened(result: ToolResultPart, ctx: RunContext) -> ToolResultPart:
    """What says why a call does not run says so of this run: one that an earlier run began may have had its effect."""
    if result.error is None or result.tool_call_id not in ctx.before.begun_calls:
        return result
    return error_result(result.tool_call_id, "outcome_unknown", UNKNOWN_OUTCOME)


def result_event(
    result: ToolResultPart,
    ctx: RunContext,
    full: str | None = None,
    edited: str | None = None,
    transformed: str | None = None,
    beside: Mapping[str, Any] = MappingProxyType({}),
) -> ToolCallResult:
    """`metadata["full"]` is what the tool gave where the model gets a part of it, or a middleware's text in its place;
    `editedArguments` what a person made of the call's arguments, `transformedArguments` what a middleware did."""
    metadata = {**beside, "full": full, "editedArguments": edited, "transformedArguments": transformed}
    return ToolCallResult(
        message_id=ctx.new_id(),
        tool_call_id=result.tool_call_id,
        content=result.content,
        error=result.error,
        duration_ms=result.duration_ms,
        metadata={key: value for key, value in metadata.items() if value is not None} or None,
    )
