"""What a rule of the demo model looks at: the question, and what has happened since. It remembers nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from agent.messages import NOTICE, Message, ToolCallPart, ToolResultPart
from agent.providers.base import TurnRequest
from agent.providers.scripted import Call, Turn


@dataclass(frozen=True, slots=True)
class Done:
    """A call made since the last user message, with its result."""

    call: ToolCallPart
    result: ToolResultPart

    @property
    def value(self) -> dict[str, Any]:
        """The result as an object; empty if it is none, or if the call failed."""
        value = parsed(self.result.content) if self.result.error is None else None
        return value if isinstance(value, dict) else {}

    @property
    def problem(self) -> str:
        """What went wrong, in the tool's own words."""
        value = parsed(self.result.content)
        said = value.get("error") if isinstance(value, dict) else None
        return str(said or self.result.content)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a rule looks at."""

    question: str
    turn: int
    done: tuple[Done, ...]
    tools: frozenset[str]
    may_call: bool
    message_id: str
    written: str = ""
    """What stands already of this turn's text: a restart cut it off, and the model was told to go on."""

    @classmethod
    def of(cls, request: TurnRequest) -> Scene:
        messages = request.transcript
        asked = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
        told_to_go_on = bool(messages) and NOTICE in messages[-1].metadata
        said = [message for message in messages[asked + 1 :] if message.role != "system"]
        cut = list(takewhile(_is_cut, reversed(said))) if told_to_go_on else []
        since = said[: len(said) - len(cut)]
        return cls(
            question=messages[asked].text if asked >= 0 else "",
            written="".join(message.text for message in reversed(cut)),
            turn=1 + sum(message.role == "assistant" for message in since),
            done=tuple(_done(since)),
            tools=frozenset(tool.name for tool in request.tools),
            may_call=request.tool_choice != "none",
            message_id=request.message_id,
        )

    def rest_of(self, turn: Turn) -> Turn:
        if not self.written:
            return turn
        return replace(turn, text=turn.text.removeprefix(self.written), thinking="")

    def call(self, name: str, arguments: dict[str, Any] | str, number: int = 1) -> Call:
        return (f"call_{self.message_id}_{number}", name, arguments)

    def results_of(self, name: str) -> list[Done]:
        return [done for done in self.done if done.call.name == name]

    def can(self, *names: str) -> bool:
        return self.may_call and self.tools.issuperset(names)


def calls_of(scene: Scene, name: str, arguments: list[dict[str, Any]], text: str = "") -> Turn:
    return Turn(text, calls=[scene.call(name, each, number) for number, each in enumerate(arguments, 1)])


def _is_cut(message: Message) -> bool:
    return message.role == "assistant" and message.finish_reason is None and not message.tool_calls


def _done(messages: Sequence[Message]) -> Iterator[Done]:
    calls = {call.id: call for message in messages for call in message.tool_calls}
    for message in messages:
        for result in message.tool_results:
            if result.tool_call_id in calls:
                yield Done(calls[result.tool_call_id], result)


def parsed(content: Any) -> Any:
    if not isinstance(content, str):
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
