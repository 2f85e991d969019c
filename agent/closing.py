"""Results for calls that get none otherwise, so that nothing stays open. Pure.

when                                            then
a run ends before its time                      `closing_answers`: what is open is answered
a run begins, and somebody spoke behind calls   `opening_answers`: they are answered, told and kept
   that were waiting                            like any other result
a transcript holds such calls further up        `close_old_calls`: answered in what the model reads only
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Literal

from agent.approvals import Resolutions, Verdicts
from agent.messages import Message, ToolCallPart, ToolResultPart, Transcript, open_calls
from agent.results import UNKNOWN_OUTCOME, error_result
from agent.steps import NOT_RUN, AtClient, Placed, last_turn, place
from agent.tools import ToolRegistry

ClosingCode = Literal["aborted", "incomplete_stream"]
CLOSED: Mapping[ClosingCode, str] = {
    "aborted": "The run was stopped before this call began.",
    "incomplete_stream": NOT_RUN[None][1],
}

NOT_ANSWERED = "This call was not answered: the person went on without it."
MOVED_ON = "This call was not run: the person went on without approving it."


def closing_answers(
    transcript: Transcript, code: ClosingCode, begun: Container[str] = ()
) -> tuple[ToolResultPart, ...]:
    """Results for whatever is open when a run ends before its time; `begun` are calls that an earlier run started."""
    turn = last_turn(transcript)
    reason = turn.finish_reason if turn is not None else None
    # A turn that ended for a reason of its own keeps that as the calls' reason.
    why, text = NOT_RUN[reason] if reason and reason in NOT_RUN else (code, CLOSED[code])
    return tuple(
        error_result(call.id, "outcome_unknown", UNKNOWN_OUTCOME)
        if call.id in begun
        else error_result(call.id, why, text)
        for call in open_calls(transcript)
    )


def calls_left(transcript: Transcript) -> tuple[tuple[ToolCallPart, ...], Message | None, bool]:
    """The unanswered calls of the last assistant message, that message, and whether somebody spoke behind it."""
    answered: set[str] = set()
    spoken = False
    for message in reversed(transcript):
        if message.role == "assistant":
            left = (
                call for call in message.tool_calls if call.id not in answered and not call.provider_executed
            )
            return tuple(left), message, spoken
        answered.update(part.tool_call_id for part in message.tool_results)
        spoken = spoken or message.role != "tool"
    return (), None, spoken


def opening_answers(
    transcript: Transcript,
    tools: ToolRegistry,
    resolutions: Resolutions,
    verdicts: Verdicts,
    from_client: Iterable[ToolResultPart] = (),
) -> tuple[ToolResultPart, ...]:
    """The results that a run begins with, in call order: those a client sends for its own calls, and, when
    somebody has spoken since the calls were made, one for each of the others.

    A result for a call that is answered, or that no client was asked to run, is nobody's and is left out.
    """
    calls, turn, spoken = calls_left(transcript)
    if turn is None or not calls:
        return ()
    given: dict[str, ToolResultPart] = {}
    for result in from_client:
        given.setdefault(result.tool_call_id, result)
    answers: list[ToolResultPart] = []
    for call, placed in zip(calls, place(calls, turn, tools, resolutions, verdicts), strict=True):
        if isinstance(placed, AtClient) and call.id in given:
            answers.append(given[call.id])
        elif spoken:
            waited = call.id in resolutions or call.id in turn.metadata.get("subagents", {})
            answers.append(_spoken_over(call, placed, waited))
    return tuple(answers)


def _spoken_over(call: ToolCallPart, placed: Placed, waited: bool) -> ToolResultPart:
    # A run answers a call of a tool it does not know. One that it left open was for its client, who is not here now.
    gone = isinstance(placed, ToolResultPart) and placed.error == "unknown_tool" and not waited
    if gone or isinstance(placed, AtClient):
        return error_result(call.id, "not_answered", NOT_ANSWERED)
    if isinstance(placed, ToolResultPart):
        return placed
    if waited or not isinstance(placed, ToolCallPart):
        return error_result(call.id, "cancelled", MOVED_ON)
    # It should have run; that it has no result means that something broke.
    return error_result(call.id, "outcome_unknown", UNKNOWN_OUTCOME)


def close_old_calls(transcript: Transcript) -> Transcript:
    """The transcript with an error result behind each call that somebody spoke over before it had one.

    Such a call never runs: whoever wrote behind it has moved on, and providers refuse a history with open
    calls. The same transcript gives the same results, with the same ids, so what one run reads the next one
    reads too.
    """
    messages: list[Message] = []
    changed = False
    for message in transcript:
        if message.role != "tool" and (results := _missing_results(messages)):
            messages.extend(results)
            changed = True
        messages.append(message)
    return Transcript(tuple(messages)) if changed else transcript


def _missing_results(messages: list[Message]) -> list[Message]:
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role == "assistant":
            code, text = NOT_RUN.get(message.finish_reason, ("outcome_unknown", UNKNOWN_OUTCOME))
            return [
                Message(f"{message.id}-{call.id}-closed", "tool", (error_result(call.id, code, text),))
                for call in message.tool_calls
                if call.id not in answered and not call.provider_executed
            ]
        if message.role != "tool":
            break
        answered.update(part.tool_call_id for part in message.tool_results)
    return []
