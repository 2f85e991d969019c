"""Runs in tests: driven to their end, and held against what every run promises."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agent import Agent, AgentRun, Resolution, RunContext, Transcript, apply, user_message
from agent.closing import close_old_calls
from agent.events import (
    Custom,
    Event,
    Interrupt,
    RunError,
    RunFinished,
    StepFinished,
    StepStarted,
    TextMessageContent,
    ToolCallArgs,
    ToolCallResult,
    ToolCallStart,
)
from agent.messages import Message, ToolCallPart, ToolResultPart
from agent.providers.scripted import ScriptedProvider, Turn
from tests.agent.verify import verify_run

ASKED = user_message("u1", "How is the weather?")


def context(**fields: Any) -> RunContext:
    numbers = itertools.count(1)
    return RunContext(
        **{"thread_id": "t1", "run_id": "r1", "new_id": lambda: f"id{next(numbers)}", "clock": lambda: 0.0}
        | fields
    )


@dataclass
class Told:
    """What a run told, and the transcript it held."""

    events: list[Event]
    transcript: Transcript
    provider: Any

    def of(self, kind: Any) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def end(self) -> RunFinished | RunError:
        assert isinstance(self.events[-1], RunFinished | RunError)
        return self.events[-1]

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        assert isinstance(self.end, RunFinished), self.end
        return getattr(self.end.outcome, "interrupts", ())

    @property
    def stop_reason(self) -> str:
        assert isinstance(self.end, RunFinished), self.end
        return self.end.stop_reason

    @property
    def results(self) -> list[ToolCallResult]:
        return self.of(ToolCallResult)

    @property
    def codes(self) -> list[str | None]:
        return [result.error for result in self.results]

    @property
    def told_reasons(self) -> list[str | None]:
        return [event.metadata["finishReason"] for event in self.of(StepFinished)]

    @property
    def turns(self) -> int:
        return len(self.of(StepStarted))

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.of(TextMessageContent))

    @property
    def reasons(self) -> list[str | None]:
        return [message.finish_reason for message in self.transcript if message.role == "assistant"]


async def drive(
    agent: Agent,
    transcript: Transcript | Iterable[Message] = (),
    *,
    input: Sequence[Message] = (ASKED,),
    ctx: RunContext | None = None,
    resolutions: Sequence[Resolution] = (),
    client_results: Sequence[ToolResultPart] = (),
    on_event: Callable[[Event], Any] | None = None,
) -> Told:
    """A whole run. `on_event` is called with each event, between two of the loop's own."""
    before = Transcript(tuple(transcript))
    run = AgentRun(agent, before, ctx or context(), resolutions=resolutions)
    folded, events = before, list[Event]()
    async for event in run.events(input, client_results):
        folded = apply(folded, event)
        events.append(event)
        if on_event is not None:
            on_event(event)
            await asyncio.sleep(0)
    verify_run(events)
    # What was shown is what the loop held, and so what the model would read next.
    assert close_old_calls(folded) == run.transcript
    return Told(events, run.transcript, agent.provider)


async def play(
    *turns: Turn, tools: Iterable[Any] = (), agent: dict[str, Any] | None = None, **rest: Any
) -> Told:
    provider = ScriptedProvider(*turns)
    return await drive(Agent(provider, "m", tools, **(agent or {})), **rest)


def said(result: ToolCallResult | ToolResultPart) -> Any:
    """A result's content as the value that it is."""
    assert isinstance(result.content, str)
    return json.loads(result.content)


def call(id: str, name: str = "echo", arguments: str = "{}", **fields: Any) -> ToolCallPart:
    return ToolCallPart(id, name, arguments, **fields)


def assistant(id: str, *parts: Any, reason: Any = "stop", **metadata: Any) -> Message:
    return Message(id, "assistant", tuple(parts), reason, metadata)


def answered(call_id: str, content: str = "ok", id: str = "") -> Message:
    return Message(id or f"tool-{call_id}", "tool", (ToolResultPart(call_id, content),))


__all__ = [
    "ASKED",
    "Custom",
    "StepFinished",
    "Told",
    "ToolCallArgs",
    "ToolCallStart",
    "answered",
    "assistant",
    "call",
    "context",
    "drive",
    "play",
    "said",
]
