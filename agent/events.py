"""Events: what a run says, in the vocabulary of AG-UI 1.0, as one union.

A run's events begin with RunStarted and end with exactly one of RunFinished and RunError. Between them each
model turn is framed by StepStarted / StepFinished (`turn-1`, `turn-2`, ...). `wire/agui.py` turns an event into
its JSON and back; that JSON is also what the event log keeps.

Provider adapters yield the Text*, Reasoning* and ToolCall* events of one turn, then one `TurnEnd`, which is not
an event: it says how the turn ended, and the loop tells it as StepFinished.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.messages import ContentPart, FinishReason, Message, Usage

Metadata = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """`timestamp` is in ms since the epoch, set by whoever keeps the event; `metadata` is for readers.

    `subagent_run_id` names the run inside this one that the event is of; such an event does nothing to the
    transcript. RUN_*, snapshots of messages and SUBAGENT_* (where it is a field of its own) never carry one.
    """

    timestamp: int | None = None
    metadata: Metadata | None = None
    subagent_run_id: str | None = None


# -- the run -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunStarted(_Base):
    """`input` are the messages this run adds to the transcript before the first turn (the user's, mostly)."""

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    input: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Success:
    """`pending_tool_call_ids`: calls of client tools that wait for their result."""

    pending_tool_call_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question that only a person can settle."""

    id: str
    reason: str
    message: str | None = None
    tool_call_id: str | None = None
    response_schema: Mapping[str, Any] | None = None
    expires_at: str | None = None
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Stopped by a person, a closed client or a middleware."""


Outcome = Success | Interrupted | Cancelled


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The usage of one model in a run."""

    model: str
    usage: Usage
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class RunFinished(_Base):
    """The one good end of a run.

    `stop_reason` says in one word why the run ended: `stop`, `length`, `content_filter`, `cancelled`,
    `client_tools`, `interrupt`, `no_calls`, or the name of the strategy that stopped it.
    `finish_reason` is the last turn's. At an interrupt, `metadata["pendingToolCallIds"]` are the client's calls
    that are open besides; `metadata["heldToolCallIds"]` are calls that wait behind one of those that wait.
    """

    thread_id: str
    run_id: str
    outcome: Outcome = field(default_factory=Success)
    usage: tuple[ModelUsage, ...] = ()
    finish_reason: FinishReason | None = None
    stop_reason: str = "stop"
    model: str | None = None
    result: Any = None


@dataclass(frozen=True, slots=True)
class RunError(_Base):
    """The other end of a run. `message` is for people; `code` is one of `errors.py`'s, or `internal_error`."""

    message: str
    code: str | None = None
    usage: tuple[ModelUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class StepStarted(_Base):
    step_name: str


@dataclass(frozen=True, slots=True)
class StepFinished(_Base):
    """The end of a turn. Its metadata: messageId, finishReason, model, durationMs; and of an answer: provider, usage.

    `finishReason` is what a reader acts on; `storedFinishReason` is there too when the message keeps another
    one (a turn cut by `length` that the loop repeats is told as `tool_calls`).
    """

    step_name: str


# -- text, reasoning, tool calls -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextMessageStart(_Base):
    message_id: str
    role: Literal["developer", "system", "assistant", "user"] = "assistant"
    name: str | None = None


@dataclass(frozen=True, slots=True)
class TextMessageContent(_Base):
    message_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class TextMessageEnd(_Base):
    message_id: str


@dataclass(frozen=True, slots=True)
class TextMessageChunk(_Base):
    message_id: str | None = None
    role: Literal["developer", "system", "assistant", "user"] | None = None
    delta: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ReasoningStart(_Base):
    message_id: str


@dataclass(frozen=True, slots=True)
class ReasoningMessageStart(_Base):
    """A thought begins. `message_id` is `<messageId of the turn>-reasoning-<n>`, see `reasoning_id`."""

    message_id: str


@dataclass(frozen=True, slots=True)
class ReasoningMessageContent(_Base):
    message_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class ReasoningMessageEnd(_Base):
    """`metadata["durationMs"]` is how long the thought took, by the server's clock."""

    message_id: str


@dataclass(frozen=True, slots=True)
class ReasoningMessageChunk(_Base):
    message_id: str | None = None
    delta: str | None = None


@dataclass(frozen=True, slots=True)
class ReasoningEnd(_Base):
    message_id: str


@dataclass(frozen=True, slots=True)
class ReasoningEncryptedValue(_Base):
    """A provider's signature or encrypted thought; `entity_id` is the reasoning message's (or the call's) id.

    `metadata["redacted"]` is true when the value stands for a whole thought that is not shown.
    """

    subtype: Literal["tool-call", "message"]
    entity_id: str
    encrypted_value: str


@dataclass(frozen=True, slots=True)
class ToolCallStart(_Base):
    tool_call_id: str
    tool_call_name: str
    parent_message_id: str | None = None
    provider_executed: bool = False


@dataclass(frozen=True, slots=True)
class ToolCallArgs(_Base):
    tool_call_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd(_Base):
    """The arguments are complete; says nothing about whether the call runs."""

    tool_call_id: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk(_Base):
    tool_call_id: str | None = None
    tool_call_name: str | None = None
    parent_message_id: str | None = None
    delta: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallResult(_Base):
    """The one result of a call. `message_id` is the tool message's; the rest is as in `ToolResultPart`.

    `metadata["editedArguments"]` is the JSON text of what a person made of the call's arguments,
    `metadata["subagent"]` the transcript (runId, messages) of the run that was its work.
    """

    message_id: str
    tool_call_id: str
    content: str | tuple[ContentPart, ...]
    error: str | None = None
    duration_ms: int | None = None


# -- state, activity, subagents, the rest --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateSnapshot(_Base):
    snapshot: Any


@dataclass(frozen=True, slots=True)
class StateDelta(_Base):
    delta: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class MessagesSnapshot(_Base):
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ActivitySnapshot(_Base):
    message_id: str
    activity_type: str
    content: Mapping[str, Any]
    replace: bool | None = None


@dataclass(frozen=True, slots=True)
class ActivityDelta(_Base):
    message_id: str
    activity_type: str
    patch: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class SubagentStarted(_Base):
    """`parent_subagent_run_id` is the subagent it works for, when that is one itself."""

    subagent_run_id: str
    name: str
    parent_subagent_run_id: str | None = None
    parent_tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class SubagentFinished(_Base):
    """`suspended`: it waits for the answers to these interrupts of the run around it."""

    subagent_run_id: str
    result: Any = None
    suspended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubagentError(_Base):
    subagent_run_id: str
    message: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Raw(_Base):
    event: Any
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Custom(_Base):
    """An application's own event. A tool's progress has the tool's name for it and `{toolCallId, value}`."""

    name: str
    value: Any


Event = (
    RunStarted
    | RunFinished
    | RunError
    | StepStarted
    | StepFinished
    | TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | TextMessageChunk
    | ReasoningStart
    | ReasoningMessageStart
    | ReasoningMessageContent
    | ReasoningMessageEnd
    | ReasoningMessageChunk
    | ReasoningEnd
    | ReasoningEncryptedValue
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolCallChunk
    | ToolCallResult
    | StateSnapshot
    | StateDelta
    | MessagesSnapshot
    | ActivitySnapshot
    | ActivityDelta
    | SubagentStarted
    | SubagentFinished
    | SubagentError
    | Raw
    | Custom
)

Terminal = RunFinished | RunError
Delta = TextMessageContent | ReasoningMessageContent | ToolCallArgs

TurnEvent = (
    TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | ReasoningStart
    | ReasoningMessageStart
    | ReasoningMessageContent
    | ReasoningMessageEnd
    | ReasoningEnd
    | ReasoningEncryptedValue
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | Custom
)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How one model call ended: the last thing a provider yields, exactly once.

    `finish_reason` None: the stream broke off. `provider_reason` is the provider's own word for it. `paused`:
    the provider wants the turn sent back as it is (Anthropic's `pause_turn`). `provider` is who answered, where
    that may be another than was asked (`Routed`).
    """

    finish_reason: FinishReason | None
    usage: Usage = Usage()
    model: str | None = None
    provider_reason: str | None = None
    paused: bool = False
    provider: str | None = None


def reasoning_id(message_id: str, number: int) -> str:
    """The id of the `number`-th thought (from 1) of the turn that speaks as `message_id`."""
    return f"{message_id}-reasoning-{number}"


def message_id_of_reasoning(id: str) -> str:
    """The turn's message id behind a `reasoning_id`."""
    return id.rpartition("-reasoning-")[0]


def is_terminal(event: Event) -> bool:
    return isinstance(event, Terminal)


def is_delta(event: Event) -> bool:
    return isinstance(event, Delta)
