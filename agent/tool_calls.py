"""Runs the calls of one turn.

Rule 1: one result for each call, in call order. A quick call waits for its earlier siblings to be told;
progress (Custom) and what a subagent says are told as they come.
Rule 2: nothing a tool does ends anything but its own call (`tool_slots.py`).
Rule 3: whoever leaves early (stop, closed reader) leaves nothing behind that runs, but for a thread or a task
that does not listen: its late result goes nowhere.

A call whose subagent waits for a person has no result yet, and one that may not run before it is not begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence

from agent.abort import Aborted
from agent.context import RunContext
from agent.events import Event, SubagentError, SubagentFinished, SubagentStarted
from agent.messages import ToolCallPart, ToolResultPart
from agent.nesting import Nest, OpenThings
from agent.tool_slots import NO_HOOKS, News, Slot, ToolHooks
from agent.tools import ToolRegistry

GRACE = 0.25
"""Seconds that a cancelled tool gets to tidy up before it is left behind."""

_left_behind: set[asyncio.Task[None]] = set()


async def run_calls(
    calls: Sequence[ToolCallPart | ToolResultPart],
    tools: ToolRegistry,
    ctx: RunContext,
    hooks: ToolHooks = NO_HOOKS,
    nest: Nest | None = None,
) -> AsyncGenerator[Event, None]:
    """A result among the calls stands in the place of one that does not run.

    When the run is stopped, it tells the results that are left and raises Aborted.
    """
    news: News = asyncio.Queue()
    slots = [Slot.of(call, tools, ctx, hooks, news, nest) for call in calls]
    told, open = 0, OpenThings()
    try:
        for wave in _waves(slots):
            if wave[0].alone and any(slot.suspended for slot in slots):
                wave[0].hold()
            for slot in wave:
                slot.start()
            while not all(slot.over for slot in wave):
                with ctx.abort.interrupts():
                    said = await news.get()
                if isinstance(said, Slot):
                    # Behind all that its call had to say.
                    said.over = True
                else:
                    open.hear(said)
                    yield said
                while told < len(slots) and slots[told].over:
                    result = slots[told].result
                    told += 1
                    if result is not None:
                        yield result
        for slot in slots[told:]:
            if slot.result is not None:
                yield slot.result
    except Aborted:
        await _stop(slots, gently=True)
        while not news.empty():
            said = news.get_nowait()
            # A subagent has said how it ended; progress is no news any more.
            if not isinstance(said, Slot) and _is_inner(said):
                open.hear(said)
                yield said
        for event in open.closings():
            yield event  # of one that did not listen
        for slot in slots[told:]:
            # What finished in time is told as it is: a stop must not hide what has already happened.
            yield slot.result or slot.aborted()
        raise
    finally:
        await _stop(slots)


def _is_inner(event: Event) -> bool:
    return event.subagent_run_id is not None or isinstance(
        event, SubagentStarted | SubagentFinished | SubagentError
    )


def _waves(slots: Sequence[Slot]) -> Iterator[list[Slot]]:
    """Calls that may run side by side; one that is not parallel_safe is alone."""
    wave: list[Slot] = []
    for slot in slots:
        if slot.alone:
            if wave:
                yield wave
            yield [slot]
            wave = []
        else:
            wave.append(slot)
    if wave:
        yield wave


async def _stop(slots: Sequence[Slot], *, gently: bool = False) -> None:
    """`gently`: the run's signal was given, so that subagents come to their end by themselves, and say so."""
    nested = [slot for slot in slots if slot.nested]
    await _end([slot for slot in slots if not slot.nested])
    running = [slot.task for slot in nested if slot.task is not None and not slot.task.done()]
    if gently and running:
        await asyncio.wait(running, timeout=GRACE)
    await _end(nested, mute_first=not gently)


async def _end(slots: Sequence[Slot], *, mute_first: bool = True) -> None:
    if mute_first:
        _mute(slots)
    running = [task for slot in slots if (task := slot.cancel()) is not None]
    for task in running:
        _left_behind.add(task)
        task.add_done_callback(_left_behind.discard)
    if running:
        await asyncio.wait(running, timeout=GRACE)
    _mute(slots)


def _mute(slots: Sequence[Slot]) -> None:
    for slot in slots:
        slot.muted = True
