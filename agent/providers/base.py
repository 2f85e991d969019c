"""What the loop asks of a provider.

A provider streams one turn. It yields the turn's events and then exactly one `TurnEnd`; whatever it opened
(text, reasoning, call) it has closed before. It raises a `ProviderError` when the turn could not be had at all,
or broke off: then it first yields the ends of what is open and a `TurnEnd(finish_reason=None)`. Closing the
generator (or cancelling the task that waits in it) closes the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent.events import TurnEnd, TurnEvent
from agent.messages import Transcript

ToolChoice = Literal["auto", "none", "required"] | str
"""`auto`, `none`, `required`, or the name of the one tool that must be called."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it goes out: where to, by the protocol with this path, as what, and in which bytes."""

    url: str
    path: str
    body: Mapping[str, Any]
    content: bytes


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One model call.

    `message_id` is the id under which the turn speaks. `parameters` are the sampling and limit fields in
    OpenAI's names (temperature, top_p, max_tokens, stop, seed, ...); a codec maps or drops them. `on_sent` is told of
    the request each time it goes out over a wire, `on_received` of each piece of an answer, with its status.
    """

    model: str
    transcript: Transcript
    message_id: str
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    on_sent: Callable[[Sent], None] | None = field(default=None, compare=False, repr=False)
    on_received: Callable[[int, bytes], None] | None = field(default=None, compare=False, repr=False)


class Provider(Protocol):
    """Something that streams one turn.

    One that has `native_output`, and it is true, keeps to a JSON Schema given as `response_format`.
    """

    @property
    def name(self) -> str: ...

    def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]: ...


def is_native(provider: Provider) -> bool:
    """Does it keep to a form by itself?"""
    return bool(getattr(provider, "native_output", False))
