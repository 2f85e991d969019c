"""Messages, their parts, and the transcript they make.

Rule 1: every value here is immutable to whoever holds it. `grow` and `append` give a new value and leave the
old one as it was.
Rule 2: growing by one delta costs the same however long the text or the transcript already is. A text that
streams in is kept as pieces and joined when somebody reads it (`rope`).

    Transcript
      Message            id, role, parts in order, finish_reason, metadata
        TextPart         what the role says
        ThinkingPart     what the model thought, with the provider's signature if it gave one
        ToolCallPart     a call the model asked for; `arguments` is the JSON text as it came, `edited` what a
                         person made of it
        ToolResultPart   the one answer to a call; `error` is its code, None when it went well
        ImagePart        a picture (address or data)
        FilePart         any other file (address or data)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

from agent.rope import Rope, TextLike

Role = Literal["system", "developer", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]
FINISH_REASONS: frozenset[str] = frozenset({"stop", "length", "content_filter", "tool_calls"})


class TextPart(TextLike):
    """What the role says."""

    __slots__ = ()

    def __init__(self, text: str | Rope = "") -> None:
        self._rope = text if isinstance(text, Rope) else Rope(text)

    @property
    def text(self) -> str:
        return str(self._rope)

    def grow(self, delta: str) -> TextPart:
        return TextPart(self._rope.grow(delta))


class ThinkingPart(TextLike):
    """What the model thought. `signature` is opaque and belongs to the provider that made it.

    `redacted` holds the provider's encrypted form of a thought that it does not show; its text is empty.
    `duration_ms` is how long it was thought by the server's clock, None while it is and where nobody measured.
    """

    __slots__ = ("duration_ms", "redacted", "signature")

    def __init__(
        self,
        text: str | Rope = "",
        signature: str | None = None,
        redacted: str | None = None,
        duration_ms: int | None = None,
    ) -> None:
        self._rope = text if isinstance(text, Rope) else Rope(text)
        self.signature = signature
        self.redacted = redacted
        self.duration_ms = duration_ms

    @property
    def text(self) -> str:
        return str(self._rope)

    def _key(self) -> tuple[object, ...]:
        return (str(self._rope), self.signature, self.redacted, self.duration_ms)

    def grow(self, delta: str) -> ThinkingPart:
        return ThinkingPart(self._rope.grow(delta), self.signature, self.redacted, self.duration_ms)

    def signed(self, signature: str) -> ThinkingPart:
        return ThinkingPart(self._rope, signature, self.redacted, self.duration_ms)

    def timed(self, duration_ms: int) -> ThinkingPart:
        return ThinkingPart(self._rope, self.signature, self.redacted, duration_ms)


class ToolCallPart(TextLike):
    """A call the model asked for. `arguments` is the JSON text exactly as the model wrote it.

    `provider_executed` marks a provider's own server-side tool: it passes through and never runs here.
    `edited` is the JSON text of the arguments that a person put in the place of the model's when they approved
    the call; None when nobody did.
    """

    __slots__ = ("edited", "id", "name", "provider_executed")

    def __init__(
        self,
        id: str,
        name: str,
        arguments: str | Rope = "",
        provider_executed: bool = False,
        edited: str | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self._rope = arguments if isinstance(arguments, Rope) else Rope(arguments)
        self.provider_executed = provider_executed
        self.edited = edited

    @property
    def arguments(self) -> str:
        return str(self._rope)

    @property
    def used_arguments(self) -> str:
        """What the tool gets, and what the model is told that it got."""
        return str(self._rope) if self.edited is None else self.edited

    def _key(self) -> tuple[object, ...]:
        return (self.id, self.name, str(self._rope), self.provider_executed, self.edited)

    def grow(self, delta: str) -> ToolCallPart:
        return ToolCallPart(self.id, self.name, self._rope.grow(delta), self.provider_executed, self.edited)

    def with_edit(self, edited: str | None) -> ToolCallPart:
        return ToolCallPart(self.id, self.name, self._rope, self.provider_executed, edited)


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: `data` (base64) with `mime_type`, or `url`."""

    mime_type: str | None = None
    data: str | None = None
    url: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """Any other file: `data` (base64) with `mime_type`, or `url`. `kind` is AG-UI's part type."""

    kind: Literal["audio", "video", "document"] = "document"
    mime_type: str | None = None
    data: str | None = None
    url: str | None = None
    name: str | None = None


ContentPart = TextPart | ImagePart | FilePart


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """The one answer to a call.

    `content` is what the model reads; `error` is a code, None when it went well; `duration_ms` is how long the
    tool ran by the server's clock, None when it never began.
    """

    tool_call_id: str
    content: str | tuple[ContentPart, ...]
    error: str | None = None
    duration_ms: int | None = None


Part = TextPart | ThinkingPart | ToolCallPart | ToolResultPart | ImagePart | FilePart


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call, or the sum of several. Totals include their parts, as in AG-UI's TokenUsage."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.cache_write_input_tokens + other.cache_write_input_tokens,
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a transcript.

    `finish_reason` is the true one of an assistant turn, None while it streams or when the stream broke off.
    `metadata` keys used here: model, provider, usage, durationMs, providerReason, paused; providerResults holds what a
    provider's own tools gave, by call id, as opaque as it came; `notice` marks what the server says to the model in
    the middle of a conversation (a system message).
    """

    id: str
    role: Role
    parts: tuple[Part, ...] = ()
    finish_reason: FinishReason | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResultPart))

    @property
    def paused(self) -> bool:
        """The provider paused its own server-side work and wants the turn sent back as it is."""
        return bool(self.metadata.get("paused"))


NOTICE = "notice"
"""Key of a message's metadata, see `Message`; its value names the occasion."""


def user_message(id: str, text: str) -> Message:
    return Message(id=id, role="user", parts=(TextPart(text),))


class Transcript(Sequence[Message]):
    """The messages of a thread's active branch, in order.

    The last few (`live`) are what one turn works on; the others are shared, untouched, between all versions.
    So a delta costs the same in an empty thread and behind 5,000 messages.
    """

    __slots__ = ("_live", "_settled")

    def __init__(self, messages: Sequence[Message] = (), *, live: tuple[Message, ...] = ()) -> None:
        self._settled = messages if isinstance(messages, tuple) else tuple(messages)
        self._live = live

    @property
    def settled(self) -> tuple[Message, ...]:
        return self._settled

    @property
    def live(self) -> tuple[Message, ...]:
        return self._live

    @property
    def messages(self) -> tuple[Message, ...]:
        return self._settled + self._live

    def append(self, message: Message) -> Transcript:
        return Transcript(self._settled, live=(*self._live, message))

    def settle(self) -> Transcript:
        """The same messages, none of them live: one copy of the list, made once a turn and not once a delta."""
        return Transcript(self.messages) if self._live else self

    def with_live(self, live: tuple[Message, ...]) -> Transcript:
        return Transcript(self._settled, live=live)

    def __len__(self) -> int:
        return len(self._settled) + len(self._live)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Transcript: ...
    def __getitem__(self, index: int | slice) -> Message | Transcript:
        if isinstance(index, slice):
            return Transcript(self.messages[index])
        border = len(self._settled)
        if index < 0:
            index += border + len(self._live)
            if index < 0:
                raise IndexError("transcript index out of range")
        return self._settled[index] if index < border else self._live[index - border]

    def __iter__(self) -> Iterator[Message]:
        yield from self._settled
        yield from self._live

    def __reversed__(self) -> Iterator[Message]:
        yield from reversed(self._live)
        yield from reversed(self._settled)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transcript) and self.messages == other.messages

    def __hash__(self) -> int:
        return hash(self.messages)

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"


def open_calls(transcript: Transcript) -> tuple[ToolCallPart, ...]:
    """The calls that have no result yet, in call order: those of the last assistant message only.

    A call in an older message cannot be open: the message behind it was made by a loop that closed it, or by
    `close_old_calls`, which every loader of old transcripts applies.
    """
    answered: set[str] = set()
    for message in reversed(transcript):
        if message.role == "tool":
            answered.update(part.tool_call_id for part in message.tool_results)
        elif message.role == "assistant":
            return tuple(
                call for call in message.tool_calls if call.id not in answered and not call.provider_executed
            )
        else:
            return ()
    return ()
