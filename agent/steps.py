"""The loop's decisions.

Rule 1: what a run does next is decided here and nowhere else.
Rule 2: nothing here waits.

A run has no memory but its transcript. When it must wait it *ends*; the answer starts a new run from the same
transcript. So a restart, a closed laptop and a week-old question are one case.

    transcript ends with       and                                    then
    nothing, user, system                                             CallModel
    assistant, no open calls   the provider paused it                 CallModel  (it is sent back as it is)
                               its stream broke off                   CallModel  (it is asked again)
                               tool_calls, and there is no call       Finish no_calls
                               any other reason                       Finish with that reason
    assistant, open calls      cut by length                          Answer     max_tokens
                               stop                                   Answer     not_executed
                               content_filter                         Answer     content_filter
                               its stream broke off                   Answer     incomplete_stream
                               tool_calls, each call by itself:
                                 no tool of that name                 an answer  unknown_tool
                                 arguments that are no JSON           an answer  invalid_arguments
                                 a tool with a function               to run
                                 a tool without one                   to wait for its client
                               something to answer or run             Answer, or RunTools with answers within
                               only calls that wait                   Wait
    results of every call      stop, content_filter                   Finish with that reason
                               tool_calls, length, broken off         CallModel

A turn that said nothing leaves no message, so the transcript does not show it: see `behind_words`.
CallModel behind the first turn needs the strategy's leave: see `limited`.

Approvals are not built yet. Their place: a call that needs one and has no resolution waits; with one it runs,
with the edited arguments, or is answered `denied`. Until then a registry refuses a tool that needs approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from agent.messages import FinishReason, Message, ToolCallPart, ToolResultPart, Transcript, open_calls
from agent.results import error_result
from agent.tools import InvalidArguments, ToolRegistry, parse


@dataclass(frozen=True, slots=True)
class CallModel:
    """One more turn. `last_words`: the limit that was reached, when the turn is only there to say so in
    words."""

    last_words: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Calls that do not run, with the results that say why, in call order."""

    results: tuple[ToolResultPart, ...]


@dataclass(frozen=True, slots=True)
class RunTools:
    """Calls to run. In call order; a result stands in the place of a call of the turn that does not run."""

    calls: tuple[ToolCallPart | ToolResultPart, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """The run ends; the results of `client_calls` come with a later one. `approvals` is empty until those
    exist."""

    client_calls: tuple[ToolCallPart, ...] = ()
    approvals: tuple[ToolCallPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    reason: str


Step = CallModel | Answer | RunTools | Wait | Finish

Resolutions = Mapping[str, Any]
NO_RESOLUTIONS: Resolutions = MappingProxyType({})

NotRunCode = Literal["max_tokens", "not_executed", "content_filter", "incomplete_stream"]
NOT_RUN: Mapping[FinishReason | None, tuple[NotRunCode, str]] = {
    "length": (
        "max_tokens",
        "This call was not run: the answer was cut off by the output limit, so its arguments may be "
        "incomplete. Send the call again, and split large input into several smaller calls.",
    ),
    "stop": (
        "not_executed",
        "This call was not run: the turn ended without asking for tools to be run. "
        "Send the call again if it is needed.",
    ),
    "content_filter": (
        "content_filter",
        "This call was not run: the provider's content filter ended the turn.",
    ),
    None: (
        "incomplete_stream",
        "This call was not run: the answer broke off before it was complete. "
        "Send the call again if it is needed.",
    ),
}
"""A turn's finish reason -> code and text for the calls it holds; none of them runs. `tool_calls` is not
here."""

ClosingCode = Literal["aborted", "incomplete_stream"]
CLOSED: Mapping[ClosingCode, str] = {
    "aborted": "The run was stopped before this call began.",
    "incomplete_stream": NOT_RUN[None][1],
}

UNKNOWN_OUTCOME = (
    "No result was kept for this call. It may have run, and it may not: check before you send it again."
)


def next_step(transcript: Transcript, tools: ToolRegistry, resolutions: Resolutions = NO_RESOLUTIONS) -> Step:
    if resolutions:
        raise NotImplementedError("Approvals are not built yet.")
    turn = last_turn(transcript)
    if turn is None:
        return CallModel()
    calls = open_calls(transcript)
    if calls:
        return _settle(calls, turn, tools)
    if transcript[-1].role == "tool":
        return Finish(turn.finish_reason) if turn.finish_reason in ("stop", "content_filter") else CallModel()
    return behind_words(turn.finish_reason, turn.paused)


def behind_words(reason: FinishReason | None, paused: bool) -> CallModel | Finish:
    """What comes behind a turn without calls, also when it said nothing and so left no message."""
    if paused or reason is None:
        return CallModel()
    return Finish("no_calls" if reason == "tool_calls" else reason)


def last_turn(transcript: Transcript) -> Message | None:
    """The assistant message that the transcript ends with, results aside; None if somebody spoke since."""
    for message in reversed(transcript):
        if message.role != "tool":
            return message if message.role == "assistant" else None
    return None


def _settle(calls: tuple[ToolCallPart, ...], turn: Message, tools: ToolRegistry) -> Step:
    if turn.finish_reason in NOT_RUN:
        # Also a call whose JSON happens to be whole: what it belongs to was cut off.
        code, text = NOT_RUN[turn.finish_reason]
        return Answer(tuple(error_result(call.id, code, text) for call in calls))
    placed = tuple(_place(call, tools) for call in calls)
    settled = tuple(item for item in placed if not isinstance(item, _AtClient))
    if not settled:
        return Wait(client_calls=calls)
    answers = tuple(item for item in settled if isinstance(item, ToolResultPart))
    return Answer(answers) if len(answers) == len(settled) else RunTools(settled)


@dataclass(frozen=True, slots=True)
class _AtClient:
    call: ToolCallPart


def _place(call: ToolCallPart, tools: ToolRegistry) -> ToolCallPart | ToolResultPart | _AtClient:
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(tools.names) or "none"
        return error_result(
            call.id, "unknown_tool", f"There is no tool {call.name[:64]!r}. Known tools: {known}."
        )
    try:
        if tool.execute is not None:
            parse(tool.json_text(call.arguments))
            return call
        # What runs here is held against its schema when it is about to run; a client is only asked what fits.
        tool.read(call.arguments)
        return _AtClient(call)
    except InvalidArguments as error:
        return error_result(call.id, error.code, str(error))


def limited(transcript: Transcript, reason: str | None, final_answer: bool) -> CallModel | Finish:
    """What becomes of a CallModel when the strategy was asked: `reason` is what stops the run, None to go on.

    A person is owed words when a limit stops the loop behind results that they would never hear of. Not so at
    `length`: the model had its say and would be cut off again.
    """
    if reason is None:
        return CallModel()
    if final_answer and reason != "length" and transcript[-1].role == "tool":
        return CallModel(last_words=reason)
    return Finish(reason)


def closing_answers(transcript: Transcript, code: ClosingCode) -> Answer:
    """Results for whatever is open when a run ends before its time, so that nothing stays open."""
    turn = last_turn(transcript)
    reason = turn.finish_reason if turn is not None else None
    # A turn that ended for a reason of its own keeps that as the calls' reason.
    why, text = NOT_RUN[reason] if reason and reason in NOT_RUN else (code, CLOSED[code])
    return Answer(tuple(error_result(call.id, why, text) for call in open_calls(transcript)))


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
