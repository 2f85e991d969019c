"""How fast the loop is: provider in memory, no network, no store. Prints a table; nothing here is a test.

    python -m bench.loop [--quick]

Cases take turns, so that a busy machine slows all of them alike, and each figure is the median of its repeats.
Peak memory is measured in a run of its own (measuring it costs time).
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from agent import (
    Agent,
    AgentRun,
    Middleware,
    MiddlewareContext,
    RunContext,
    Transcript,
    apply,
    tool,
    user_message,
)
from agent.events import (
    Event,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    TurnEnd,
    TurnEvent,
)
from agent.messages import Message, TextPart
from agent.providers.base import TurnRequest
from agent.providers.scripted import ScriptedProvider
from agent.providers.scripted import Turn as ScriptedTurn

DELTAS = 50_000
ARGUMENTS = '{"text": "' + "x" * 250_000 + '"}'
PIECE = 16
HISTORY = 5_000
RUNS = 1_000


@tool
async def keep(text: str) -> str:
    return str(len(text))


@tool
async def slow() -> str:
    await asyncio.sleep(0.2)
    return "done"


class Memory:
    """A provider that has everything at hand."""

    name = "memory"

    def __init__(self, *turns: list[TurnEvent | TurnEnd]) -> None:
        self.turns = list(turns)

    async def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        for event in self.turns.pop(0):
            yield event


def text_turn(id: str) -> list[TurnEvent | TurnEnd]:
    deltas = [TextMessageContent(message_id=id, delta=f"word {number} ") for number in range(DELTAS)]
    return [TextMessageStart(message_id=id), *deltas, TextMessageEnd(message_id=id), TurnEnd("stop")]


def call_turn(id: str) -> list[TurnEvent | TurnEnd]:
    pieces = [ARGUMENTS[start : start + PIECE] for start in range(0, len(ARGUMENTS), PIECE)]
    deltas = [ToolCallArgs(tool_call_id="c1", delta=piece) for piece in pieces]
    start = ToolCallStart(tool_call_id="c1", tool_call_name="keep", parent_message_id=id)
    return [start, *deltas, ToolCallEnd(tool_call_id="c1"), TurnEnd("tool_calls")]


def short_turn(id: str) -> list[TurnEvent | TurnEnd]:
    return [TextMessageStart(message_id=id), TextMessageEnd(message_id=id), TurnEnd("stop")]


def history(length: int) -> Transcript:
    part = TextPart("some words")
    pairs = (
        (Message(f"u{n}", "user", (part,)), Message(f"a{n}", "assistant", (part,), "stop"))
        for n in range(length // 2)
    )
    return Transcript(tuple(message for pair in pairs for message in pair))


Script = Callable[[str], list[TurnEvent | TurnEnd]]


class Nothing(Middleware):
    """No hook is overridden, so none is called."""


class Looks(Middleware):
    """Sees every event and leaves it as it is."""

    def on_event(self, ctx: MiddlewareContext, event: Event) -> Event:
        return event


def through_loop(
    transcript: Transcript, *scripts: Script, middleware: Sequence[type[Middleware]] = ()
) -> float:
    # A run asks for the id of a turn's message, then for one a result: here there is one call a turn.
    turns = [script(f"id{2 * number}") for number, script in enumerate(scripts)]
    ids = itertools.count()
    ctx = RunContext(thread_id="t", run_id="r", new_id=lambda: f"id{next(ids)}")
    run = AgentRun(Agent(Memory(*turns), "m", [keep], middleware=middleware), transcript, ctx)

    async def drive() -> float:
        began = time.perf_counter()
        async for _ in run.events([user_message("u", "go")]):
            pass
        return time.perf_counter() - began

    took = asyncio.run(drive())
    assert run.transcript[-1].finish_reason == "stop"
    return took


def four_slow_tools() -> float:
    """Four calls of 200 ms in one turn, side by side."""
    calls = [(f"c{number}", "slow", {}) for number in range(4)]
    provider = ScriptedProvider(ScriptedTurn(calls=calls), ScriptedTurn("Done."))
    run = AgentRun(Agent(provider, "m", [slow]), Transcript(), RunContext(thread_id="t", run_id="r"))

    async def drive() -> float:
        began = time.perf_counter()
        async for _ in run.events([user_message("u", "go")]):
            pass
        return time.perf_counter() - began

    return asyncio.run(drive())


def many_runs() -> float:
    """A thousand runs at once, each held in the middle of its answer: what they take is the peak."""

    async def drive() -> float:
        began, gate = time.perf_counter(), asyncio.Event()
        held = [asyncio.Event() for _ in range(RUNS)]

        async def one(number: int) -> None:
            turn = ScriptedTurn("word " * 100, gate=gate, held=held[number])
            ctx = RunContext(thread_id=f"t{number}", run_id=f"r{number}")
            run = AgentRun(Agent(ScriptedProvider(turn), "m", [keep]), Transcript(), ctx)
            async for _ in run.events([user_message("u", "go")]):
                pass

        tasks = [asyncio.create_task(one(number)) for number in range(RUNS)]
        await asyncio.gather(*(each.wait() for each in held))
        gate.set()
        await asyncio.gather(*tasks)
        return time.perf_counter() - began

    return asyncio.run(drive())


def through_reducer(transcript: Transcript) -> float:
    events: list[Event] = [event for event in text_turn("m") if not isinstance(event, TurnEnd)]
    began = time.perf_counter()
    for event in events:
        transcript = apply(transcript, event)
    assert transcript[-1].text
    return time.perf_counter() - began


def arguments_through_reducer() -> float:
    events: list[Event] = [event for event in call_turn("m") if not isinstance(event, TurnEnd)]
    began = time.perf_counter()
    transcript = Transcript()
    for event in events:
        transcript = apply(transcript, event)
    assert transcript[-1].tool_calls[0].arguments == ARGUMENTS
    return time.perf_counter() - began


@dataclass(frozen=True)
class Case:
    name: str
    run: Callable[[], float]
    figure: Callable[[float], str]
    goal: str = ""


def per_second(seconds: float) -> str:
    return f"{DELTAS / seconds / 1000:,.0f} k deltas/s"


def duration(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


LONG = history(HISTORY)
CASES = [
    Case("reducer, empty thread", lambda: through_reducer(Transcript()), per_second),
    Case(f"reducer, {HISTORY:,} messages", lambda: through_reducer(LONG), per_second, "as the empty one"),
    Case(
        "loop and reducer, empty thread", lambda: through_loop(Transcript(), text_turn), per_second, ">= 50 k"
    ),
    Case(
        f"loop and reducer, {HISTORY:,} messages",
        lambda: through_loop(LONG, text_turn),
        per_second,
        "as empty",
    ),
    *(
        Case(
            f"loop and reducer, {count} middlewares that {does}",
            partial(through_loop, Transcript(), text_turn, middleware=[made] * count),
            per_second,
            goal,
        )
        for made, does, goal in ((Nothing, "do nothing", ">= 50 k"), (Looks, "see each event", ""))
        for count in (3, 10)
    ),
    Case("250 KB of arguments, reducer", arguments_through_reducer, duration, "< 500 ms"),
    Case(
        "250 KB of arguments, loop, tool run, next turn",
        lambda: through_loop(Transcript(), call_turn, short_turn),
        duration,
        "< 500 ms",
    ),
    Case("4 tools of 200 ms in one turn", four_slow_tools, duration, "about 200 ms"),
    Case(f"{RUNS:,} runs at once", many_runs, duration),
]


def peak(run: Callable[[], float]) -> float:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run()
        return (tracemalloc.get_traced_memory()[1] - before) / 1e6
    finally:
        tracemalloc.stop()


def main(repeats: int) -> None:
    times: dict[str, list[float]] = {case.name: [] for case in CASES}
    for _ in range(repeats):
        for case in CASES:
            times[case.name].append(case.run())
    width = max(len(case.name) for case in CASES)
    print(f"{'case':{width}}  {'median':>18}  {'best .. worst':>22}  {'peak MB':>8}  goal")
    for case in CASES:
        took = times[case.name]
        spread = f"{min(took) * 1000:,.0f} .. {max(took) * 1000:,.0f} ms"
        median = case.figure(statistics.median(took))
        print(f"{case.name:{width}}  {median:>18}  {spread:>22}  {peak(case.run):>8.1f}  {case.goal}")
    ratios = [
        long / empty for empty, long in zip(*(times[CASES[place].name] for place in (2, 3)), strict=True)
    ]
    print(
        f"\nbehind {HISTORY:,} messages a delta costs {statistics.median(ratios):.2f} times what it costs"
        " in an empty thread (median of the rounds)"
    )


if __name__ == "__main__":
    main(2 if "--quick" in sys.argv else 7)
