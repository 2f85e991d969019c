"""The demo model: rules, no language model. It shows every state of the chat with no key and no network.

    ask                                     it
    What should I wear in Oslo today?       looks the weather up, asks for advice, answers
    Compare Paris and Rome                  the same for several cities, with calls side by side
    help, or anything it does not know      says what it is, and what it can show

`demo_rules.RULES` has the rest. The first rule whose pattern is in the last user message answers. A rule sees a
`Scene`: the question, and what has happened since. It remembers nothing else, so a restarted server plays on as if
nothing had been.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

from agent.events import TurnEnd, TurnEvent
from agent.messages import Message, Usage
from agent.providers.base import TurnRequest
from agent.providers.demo_rules import answer
from agent.providers.demo_scene import Scene
from agent.providers.scripted import Turn, play

MODEL = "demo"

DEFAULT_PACE = 0.015


class DemoProvider:
    """`pace` is the pause before each delta (about three words) in seconds; 0 plays without any."""

    name = "demo"

    def __init__(self, pace: float = DEFAULT_PACE) -> None:
        self.pace = pace

    async def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        scene = Scene.of(request)
        turn = scene.rest_of(answer(scene))
        turn = replace(turn, pace=self.pace * (turn.pace or 1), usage=_usage(request, turn))
        async with aclosing(play(turn, request)) as events:
            async for event in events:
                yield event


def _usage(request: TurnRequest, turn: Turn) -> Usage:
    """A word is a token, which is honest for something that has none."""
    read = _words(request.system) + sum(_words_of(message) for message in request.transcript)
    thought = _words(turn.thinking)
    called = sum(_words(name) + _words(str(arguments)) for _, name, arguments in turn.calls)
    return Usage(read, thought + _words(turn.text) + called, reasoning_tokens=thought)


def _words_of(message: Message) -> int:
    calls = sum(_words(call.name) + _words(call.arguments) for call in message.tool_calls)
    results = sum(_words(str(result.content)) for result in message.tool_results)
    return _words(message.text) + calls + results


def _words(text: str) -> int:
    return len(text.split())
