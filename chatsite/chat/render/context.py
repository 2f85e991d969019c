"""What the look of a message depends on besides itself."""

from __future__ import annotations

from dataclasses import dataclass

from agent.messages import ToolResultPart
from chatsite.chat.state import Segment


@dataclass(frozen=True, slots=True)
class Context:
    """See the head of this file. `run_state` is `active` or the state of a run that is over."""

    run_state: str
    is_open: bool
    """More may come into this message."""
    goes_on: bool
    """There are assistant messages behind it in its run."""
    results: tuple[ToolResultPart | None, ...]


def contexts_of(segment: Segment) -> list[Context]:
    """The context of each message of a run."""
    results: dict[str, ToolResultPart] = {
        result.tool_call_id: result for message in segment.messages for result in message.tool_results
    }
    last = max((i for i, m in enumerate(segment.messages) if m.role == "assistant"), default=-1)
    state = "active" if segment.run.active else segment.run.state
    return [
        Context(
            run_state=state,
            is_open=state == "active" and index == last and message.finish_reason is None,
            goes_on=index < last,
            results=tuple(results.get(call.id) for call in message.tool_calls),
        )
        for index, message in enumerate(segment.messages)
    ]
