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
                                 its person cancelled or denied it    an answer  cancelled, denied
                                 no tool of that name                 an answer  unknown_tool
                                 arguments that are no JSON, or, if   an answer  invalid_arguments
                                   somebody is to see them, do not fit
                                 its verdict is deny or failed        an answer  denied, policy_failed
                                 its verdict is ask, not approved     to wait for a person
                                 a subagent that waits itself         to wait with that
                                 a tool without a function            to wait for its client
                                 not parallel_safe, and a call        to wait for that
                                   before it waits
                                 a tool with a function               to run
                               something to answer or run             Answer, or RunTools with answers within
                               only calls that wait                   Wait
    results of every call      stop, content_filter                   Finish with that reason
                               tool_calls, length, broken off         CallModel

A turn that said nothing leaves no message, so the transcript does not show it: see `behind_words`.
CallModel behind the first turn needs the strategy's leave: see `limited`.

Resolutions are facts about calls: one for a call that is not open means nothing, and a call that is open and has
none asks again. So every answer that was ever given to the calls that are open now may be passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agent.approvals import Resolution, Resolutions, Verdicts, stated, with_answer
from agent.messages import FinishReason, Message, ToolCallPart, ToolResultPart, Transcript, open_calls
from agent.results import error_result
from agent.tools import InvalidArguments, ToolRegistry, parse


@dataclass(frozen=True, slots=True)
class CallModel:
    """One more turn. `last_words`: the limit that was reached, when the turn is only there to say so in
    words. `instruction`: what it is asked besides, when it is only there to give the run's output. Neither has
    tools."""

    last_words: str = ""
    instruction: str = ""


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
    """The run ends. A later one brings the results of `client_calls` and the answers to `approvals`.

    Those that are `behind` may not run before an earlier call that waits; nobody is asked anything for them.
    `subagents` are calls whose own runs wait.
    """

    client_calls: tuple[ToolCallPart, ...] = ()
    approvals: tuple[ToolCallPart, ...] = ()
    behind: tuple[ToolCallPart, ...] = ()
    subagents: tuple[ToolCallPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    reason: str


Step = CallModel | Answer | RunTools | Wait | Finish

NO_RESOLUTIONS: Resolutions = MappingProxyType({})
NO_VERDICTS: Verdicts = MappingProxyType({})

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

REFUSED: Mapping[str, tuple[str, str]] = {
    "deny": ("denied", "This call was not run: it is not allowed here."),
    "failed": ("policy_failed", "This call was not run: whether it is allowed could not be found out."),
}
"""A verdict against a call -> code and text of its result."""


def next_step(
    transcript: Transcript,
    tools: ToolRegistry,
    resolutions: Resolutions = NO_RESOLUTIONS,
    verdicts: Verdicts = NO_VERDICTS,
) -> Step:
    turn = last_turn(transcript)
    if turn is None:
        return CallModel()
    calls = open_calls(transcript)
    if calls:
        return _settle(place(calls, turn, tools, resolutions, verdicts))
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


@dataclass(frozen=True, slots=True)
class AtClient:
    """The call waits for its client."""

    call: ToolCallPart


@dataclass(frozen=True, slots=True)
class AtPerson:
    """The call waits for a person's approval."""

    call: ToolCallPart


@dataclass(frozen=True, slots=True)
class AtSubagent:
    """The call's own run waits."""

    call: ToolCallPart


@dataclass(frozen=True, slots=True)
class Behind:
    """The call waits for one before it that waits."""

    call: ToolCallPart


Waiting = AtClient | AtPerson | AtSubagent
Placed = ToolCallPart | ToolResultPart | Waiting | Behind
"""What becomes of one call: it runs (as it is here, edits and all), it has this result, or it waits."""


def place(
    calls: Sequence[ToolCallPart],
    turn: Message,
    tools: ToolRegistry,
    resolutions: Resolutions = NO_RESOLUTIONS,
    verdicts: Verdicts = NO_VERDICTS,
) -> tuple[Placed, ...]:
    if turn.finish_reason in NOT_RUN:
        # Also a call whose JSON happens to be whole: what it belongs to was cut off.
        code, text = NOT_RUN[turn.finish_reason]
        return tuple(error_result(call.id, code, text) for call in calls)
    placed: list[Placed] = []
    waiting, begun = False, turn.metadata.get("subagents", {})
    for call in calls:
        item: Placed = _place(call, tools, resolutions.get(call.id), verdicts, call.id in begun)
        if waiting and isinstance(item, ToolCallPart) and not _is_parallel_safe(item, tools):
            item = Behind(item)
        waiting = waiting or isinstance(item, Waiting)
        placed.append(item)
    return tuple(placed)


def _settle(placed: Sequence[Placed]) -> Step:
    settled = tuple(item for item in placed if isinstance(item, ToolCallPart | ToolResultPart))
    if not settled:
        return Wait(
            client_calls=tuple(item.call for item in placed if isinstance(item, AtClient)),
            approvals=tuple(item.call for item in placed if isinstance(item, AtPerson)),
            behind=tuple(item.call for item in placed if isinstance(item, Behind)),
            subagents=tuple(item.call for item in placed if isinstance(item, AtSubagent)),
        )
    answers = tuple(item for item in settled if isinstance(item, ToolResultPart))
    return Answer(answers) if len(answers) == len(settled) else RunTools(settled)


def _place(
    call: ToolCallPart, tools: ToolRegistry, answer: Resolution | None, verdicts: Verdicts, begun: bool
) -> ToolCallPart | ToolResultPart | Waiting:
    if answer is not None and answer.status != "approved":
        return _refused(call, answer)
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(tools.names) or "none"
        return error_result(
            call.id, "unknown_tool", f"There is no tool {call.name[:64]!r}. Known tools: {known}."
        )
    call, verdict = with_answer(call, answer), verdicts.get(call.id) or stated(tool)
    try:
        # What runs here is held against its schema when it is about to run; nobody is asked what does not fit.
        if tool.execute is not None and verdict == "allow":
            parse(tool.json_text(call.used_arguments))
        else:
            tool.read(call.used_arguments)
    except InvalidArguments as error:
        return error_result(call.id, error.code, str(error))
    if verdict in REFUSED:
        return error_result(call.id, *REFUSED[verdict])
    if tool.execute is None:
        return AtClient(call)
    if verdict == "suspended":
        return AtSubagent(call)
    # What has begun already was allowed to.
    return AtPerson(call) if verdict == "ask" and answer is None and not begun else call


def _refused(call: ToolCallPart, answer: Resolution) -> ToolResultPart:
    if answer.status == "cancelled":
        return error_result(call.id, "cancelled", "This call was not run: it was cancelled by the person.")
    because = f" They say: {answer.reason}" if answer.reason else ""
    return error_result(call.id, "denied", f"This call was not run: the person denied it.{because}")


def _is_parallel_safe(call: ToolCallPart, tools: ToolRegistry) -> bool:
    tool = tools.get(call.name)
    return tool is None or tool.parallel_safe


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
