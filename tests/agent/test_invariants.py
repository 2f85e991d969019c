"""Three things that hold whatever the model says, whatever the tools do and whenever somebody stops it.

1. What was told, folded, is what the run held, and what the model read is a piece of it.
2. Every call has exactly one result.
3. A run has exactly one terminal event, the last one, and everything before it is well formed.

The second and third are `verify_run`'s, which `drive` asks of every run in these tests.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import (
    Agent,
    Tool,
    ToolContext,
    ToolError,
    Transcript,
    apply,
    close_old_calls,
    combine_strategies,
    max_iterations,
    max_tool_calls,
    tool,
    until_finish_reason,
    user_message,
)
from agent import events as ev
from agent.errors import ProviderError
from agent.messages import FINISH_REASONS, Usage, open_calls
from agent.providers.scripted import ScriptedProvider, Turn
from tests.agent.runs import Told, context, drive
from tests.agent.verify import verify_events, waiting_calls


@tool
async def quick(text: str = "") -> str:
    return text


@tool
async def slow(ctx: ToolContext, steps: int = 1) -> str:
    for step in range(steps):
        ctx.emit("step", step)
        await asyncio.sleep(0)
    return "slow"


@tool(parallel_safe=False)
async def alone() -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"alone": True}


@tool
async def fails(how: str = "") -> None:
    raise {"tool": ToolError("No."), "value": ValueError("no")}.get(how, KeyError("bug"))


PICK = Tool("pick", "At the client.")
TOOLS = [quick, slow, alone, fails, PICK]

arguments = st.sampled_from(
    [
        "",
        "{}",
        "null",
        '{"text": "héllo 😀"}',
        '{"steps": 3}',
        '{"how": "tool"}',
        '{"how": "value"}',
        "{",
        "[]",
        '{"x": 1}',
    ]
)
names = st.sampled_from(["quick", "quick", "slow", "alone", "fails", "pick", "nobody", ""])
ids = st.sampled_from(["", "call_0", "c1", "c2", "c3"])
turns = st.builds(
    Turn,
    st.sampled_from(["", "Hi.", "A longer answer, in several deltas, with 😀."]),
    calls=st.lists(st.tuples(ids, names, arguments), max_size=4),
    thinking=st.sampled_from(["", "Let me think about it."]),
    signature=st.sampled_from([None, "sig"]),
    finish_reason=st.sampled_from([None, None, *sorted(FINISH_REASONS)]),
    usage=st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    paused=st.sampled_from([False, False, False, True]),
    cut=st.sampled_from([False, False, False, False, True]),
    error=st.sampled_from([None, None, None, None, ProviderError("Down."), KeyError("bug")]),
    delta_size=st.integers(1, 20),
)
limits = st.sampled_from(
    [
        max_iterations(3),
        combine_strategies([max_iterations(4), until_finish_reason(["length"])]),
        combine_strategies([max_iterations(4), max_tool_calls(3)]),
        lambda state: state.iteration_count < 2,
    ]
)


@dataclass
class Case:
    script: list[Turn]
    limit: Any
    final_answer: bool
    stop_at: int | None


cases = st.builds(
    Case,
    st.lists(turns, min_size=1, max_size=4),
    limits,
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 60)),
)


async def play_case(case: Case, before: Transcript, asked: str) -> Told:
    provider = ScriptedProvider(*case.script, each=lambda request: Turn("And that is all."))
    agent = Agent(provider, "m", TOOLS, strategy=case.limit, final_answer=case.final_answer)
    ctx = context(new_id=_fresh)
    seen = 0

    def stop(event: ev.Event) -> None:
        nonlocal seen
        seen += 1
        if seen == case.stop_at:
            ctx.abort.abort()

    return await drive(agent, before, input=[user_message(asked, "Go on.")], ctx=ctx, on_event=stop)


_numbers = iter(range(10**9))


def _fresh() -> str:
    return f"id{next(_numbers)}"


def check(told: Told, before: Transcript) -> None:
    # What the model read, turn by turn, is the fold of what had been told until then.
    folded, requests = before, list(told.provider.requests)
    for event in told.events:
        if isinstance(event, ev.StepStarted) and requests:
            assert requests.pop(0).transcript == close_old_calls(folded)
        folded = apply(folded, event)
    assert requests == []

    calls = Counter(c.id for message in told.transcript for c in message.tool_calls)
    results = Counter(part.tool_call_id for message in told.transcript for part in message.tool_results)
    assert set(calls.values()) <= {1}
    pending = {c.id for c in open_calls(told.transcript)}
    assert results == {id: 1 for id in calls if id not in pending}
    if pending:
        assert waiting_calls(told.end) == pending

    for event in told.results:
        if event.error is not None:
            assert set(json.loads(event.content)) == {"error"}
    if told.end.usage:
        assert told.end.usage[0].usage == sum(
            (turn_usage(event) for event in told.of(ev.StepFinished)), Usage()
        )


def turn_usage(event: ev.StepFinished) -> Usage:
    usage = event.metadata.get("usage", {})
    return Usage(usage.get("inputTokens", 0), usage.get("outputTokens", 0))


@settings(max_examples=300, deadline=None)
@given(st.lists(cases, min_size=1, max_size=3))
def test_a_thread_of_runs_keeps_its_promises(thread):
    async def play() -> None:
        transcript = Transcript()
        stream: list[ev.Event] = []
        for number, case in enumerate(thread):
            told = await play_case(case, transcript, f"u{number}")
            check(told, transcript)
            stream += told.events
            transcript = told.transcript
        verify_events(stream)  # one stream may hold a whole thread
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(play())


deltas = st.sampled_from(["", "a", "bc", "😀", " "])
message_ids = st.sampled_from(["m1", "m2"])
call_ids = st.sampled_from(["c1", "c2", "c3"])
thoughts = st.builds(ev.reasoning_id, message_ids, st.integers(1, 3))
any_event = st.one_of(
    st.builds(ev.TextMessageStart, message_ids),
    st.builds(ev.TextMessageContent, message_ids, deltas),
    st.builds(ev.TextMessageChunk, st.none() | message_ids, delta=st.none() | deltas),
    st.builds(ev.ReasoningMessageStart, thoughts),
    st.builds(ev.ReasoningMessageContent, thoughts, deltas),
    st.builds(ev.ReasoningMessageChunk, st.none() | thoughts, st.none() | deltas),
    st.builds(ev.ReasoningEncryptedValue, st.just("message"), thoughts, deltas),
    st.builds(ev.ToolCallStart, call_ids, st.just("f"), st.none() | message_ids),
    st.builds(ev.ToolCallArgs, call_ids, deltas),
    st.builds(
        ev.ToolCallChunk, st.none() | call_ids, st.none() | st.just("f"), st.none() | message_ids, deltas
    ),
    st.builds(ev.ToolCallResult, st.sampled_from(["t1", "t2"]), call_ids, deltas),
    st.builds(ev.StepStarted, st.just("turn-1")),
    st.builds(ev.RunStarted, st.just("t"), st.just("r"), input=st.just((user_message("u1", "hi"),))),
    st.builds(
        ev.StepFinished,
        st.just("turn-1"),
        metadata=st.builds(lambda id: {"messageId": id, "finishReason": "stop"}, message_ids),
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(any_event, max_size=40), st.integers(0, 40))
def test_folding_never_fails_and_never_changes_what_somebody_holds(stream, fork):
    """Whatever the events, in whatever order, also when two folds go on from one transcript."""
    transcript, held = Transcript(), []
    for event in stream:
        transcript = apply(transcript, event)
        held.append((transcript, repr(transcript)))
    again = held[min(fork, len(held) - 1)][0] if held else transcript
    for event in stream:
        again = apply(again, event)
    assert all(repr(transcript) == was for transcript, was in held)

    asked = Counter(c.id for message in transcript for c in message.tool_calls)
    answered = Counter(part.tool_call_id for message in transcript for part in message.tool_results)
    assert answered <= asked


@settings(max_examples=300, deadline=None)
@given(st.lists(any_event, max_size=40), st.integers(0, 40))
def test_settling_changes_no_word(stream, at):
    plain = settled = Transcript()
    for number, event in enumerate(stream):
        plain = apply(plain, event)
        settled = apply(settled, event)
        if number == at:
            settled = settled.settle()
    # A chunk without an id continues the newest live thing, so it may tell where the border is.
    if not any(
        getattr(event, "message_id", "") is None or getattr(event, "tool_call_id", "") is None
        for event in stream
    ):
        assert plain == settled


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)
