"""Whole threads at random: turns, calls, cuts, approvals, denials, edits, client results, stops, subagents, run after
run. Whatever happens:

1. what was told, folded, is what the run held and what the model read next;
2. every call has one result, or is one of those the run says it waits for;
3. every run has one terminal event, the last;
4. no call ran twice;
5. nothing ran that a model did not ask for, and none with other arguments than the record has;
6. nothing ran that needed an approval and had none, and nothing that was denied, cancelled or forbidden.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent import (
    Agent,
    Resolution,
    Tool,
    ToolContext,
    ToolError,
    Transcript,
    apply,
    close_old_calls,
    combine_strategies,
    max_iterations,
    max_tool_calls,
    subagent_tool,
    tool,
    until_finish_reason,
    user_message,
)
from agent import events as ev
from agent.errors import ProviderError
from agent.messages import FINISH_REASONS, ToolResultPart, open_calls
from agent.providers.scripted import ScriptedProvider, Turn
from tests.agent.runs import context, drive
from tests.agent.verify import verify_events, waiting_calls

Ran = tuple[str, str, dict[str, Any]]


# -- a thread, and what is written down of it ----------------------------------------------------------------


@dataclass
class Thread:
    transcript: Transcript = field(default_factory=Transcript)
    stream: list[ev.Event] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)
    approved: dict[str, Resolution] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)  # calls that a policy or a tool said to ask about
    forbidden: set[str] = field(default_factory=set)
    numbers: Any = field(default_factory=itertools.count)

    def new_id(self) -> str:
        return f"n{next(self.numbers)}"

    def tools(self, inner: ScriptedProvider) -> list[Tool]:
        def noted(name: str, ctx: ToolContext, **arguments: Any) -> str:
            self.ran.append((ctx.tool_call_id, name, arguments))
            return name

        @tool
        async def quick(ctx: ToolContext, text: str = "") -> str:
            if text == "fail":
                noted("quick", ctx, text=text)
                raise ToolError("No.")
            ctx.emit("progress", 1)
            await asyncio.sleep(0)
            return noted("quick", ctx, text=text)

        @tool(needs_approval=True)
        async def send(ctx: ToolContext, text: str = "") -> str:
            await asyncio.sleep(0)
            return noted("send", ctx, text=text)

        @tool(needs_approval=lambda arguments: arguments["text"] != "free")
        async def maybe(ctx: ToolContext, text: str = "") -> str:
            return noted("maybe", ctx, text=text)

        @tool(parallel_safe=False)
        async def alone(ctx: ToolContext, text: str = "") -> str:
            return noted("alone", ctx, text=text)

        tools = [quick, send, maybe, alone]
        helper = subagent_tool(
            Agent(inner, "small", tools, strategy=max_iterations(2)),
            name="helper",
            description="",
            parameters={"type": "object", "properties": {"text": {"type": "string"}}},
            prompt=lambda a: "Do it.",
        )
        return [*tools, helper, Tool("pick", "At the client.")]


names = st.sampled_from(["quick", "quick", "send", "send", "maybe", "alone", "pick", "helper", "nobody"])
inner_names = st.sampled_from(["quick", "send", "maybe", "alone", "nobody"])
arguments = st.sampled_from(
    ['{"text": "a"}', '{"text": "free"}', '{"text": "fail"}', "{}", "", "{", '{"text": 7}']
)
ids = st.sampled_from(["", "c1", "c2", "c3"])


def turns(named: Any) -> Any:
    return st.builds(
        Turn,
        st.sampled_from(["", "Hi."]),
        calls=st.lists(st.tuples(ids, named, arguments), max_size=3),
        finish_reason=st.sampled_from([None, None, None, None, *sorted(FINISH_REASONS)]),
        cut=st.sampled_from([False] * 9 + [True]),
        error=st.sampled_from([None] * 9 + [ProviderError("Down.")]),
        delta_size=st.integers(1, 20),
    )


limits = st.sampled_from(
    [
        max_iterations(3),
        combine_strategies([max_iterations(3), until_finish_reason(["length"])]),
        combine_strategies([max_iterations(4), max_tool_calls(3)]),
    ]
)


@dataclass
class Plan:
    """One run: how it begins, what its models say, and when somebody stops it."""

    script: list[Turn]
    inner: list[Turn]
    limit: Any
    speaks: bool
    answers: list[str]  # one for each open question, in order
    results: list[bool]  # for each pending client call: does it come?
    verdicts: list[str | None]
    stop_at: int | None
    forged: bool


statuses = st.sampled_from(["approved", "approved", "edited", "denied", "cancelled", "none"])
plans = st.builds(
    Plan,
    st.lists(turns(names), min_size=1, max_size=3),
    st.lists(turns(inner_names), min_size=1, max_size=3),
    limits,
    st.sampled_from([False, False, True]),
    st.lists(statuses, min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.sampled_from([None, None, None, None, "allow", "ask", "deny"]), min_size=6, max_size=6),
    st.one_of(st.none(), st.none(), st.integers(0, 50)),
    st.booleans(),
)


async def run_plan(thread: Thread, plan: Plan, last: ev.Event | None, number: int) -> ev.Event:
    inner = ScriptedProvider(*plan.inner, each=lambda request: Turn("Inner words."), name="inner")
    provider = ScriptedProvider(*plan.script, each=lambda request: Turn("And that is all."))
    agent = Agent(provider, "m", thread.tools(inner), strategy=plan.limit, final_answer=True)
    verdicts = itertools.cycle(plan.verdicts)
    resolutions = answers_of(thread, plan, last)

    async def policy(call: Any, checked: Any, of: Tool) -> Any:
        await asyncio.sleep(0)
        verdict = next(verdicts)
        needs = of.name == "send" or (of.name == "maybe" and checked["text"] != "free")
        # What it says last is what counts: a rule may have changed since an earlier run asked.
        thread.asked.discard(call.id)
        thread.forbidden.discard(call.id)
        if verdict == "deny":
            thread.forbidden.add(call.id)
        elif verdict == "ask" or (verdict is None and needs):
            thread.asked.add(call.id)
        return verdict

    ctx = context(run_id=f"r{number}", new_id=thread.new_id, policy=policy)
    seen = 0

    def stop(event: ev.Event) -> None:
        nonlocal seen
        seen += 1
        if seen == plan.stop_at:
            ctx.abort.abort()

    starts = plan.speaks or not thread.transcript or not open_calls(thread.transcript)
    told = await drive(
        agent,
        thread.transcript,
        input=[user_message(f"u{number}", "Go on.")] if starts else (),
        ctx=ctx,
        resolutions=resolutions,
        client_results=results_of(thread, plan, last),
        on_event=stop,
    )
    check_reading(told, thread.transcript)
    thread.stream += told.events
    thread.transcript = told.transcript
    return told.end


def answers_of(thread: Thread, plan: Plan, last: ev.Event | None) -> list[Resolution]:
    asked = getattr(getattr(last, "outcome", None), "interrupts", ())
    answers = [Resolution("c9", "i9", "approved", {"text": "forged"})] if plan.forged else []
    for interrupt, status in zip(asked, itertools.cycle(plan.answers), strict=False):
        if status == "none":
            continue
        edited = {"text": "edited"} if status == "edited" else None
        answer = Resolution(interrupt.tool_call_id, interrupt.id, "approved" if edited else status, edited)  # type: ignore[arg-type]
        answers.append(answer)
        if answer.status == "approved":
            thread.approved[answer.tool_call_id] = answer
        else:
            thread.refused.add(answer.tool_call_id)
    return answers


def results_of(thread: Thread, plan: Plan, last: ev.Event | None) -> list[ToolResultPart]:
    results = [
        ToolResultPart(call.id, "from the client")
        for call, comes in zip(open_calls(thread.transcript), itertools.cycle(plan.results), strict=False)
        if call.name == "pick" and comes
    ]
    if plan.forged:
        results += [
            ToolResultPart(call.id, "forged") for call in open_calls(thread.transcript) if call.name != "pick"
        ]
    return results


# -- what must hold ------------------------------------------------------------------------------------------


def check_reading(told: Any, before: Transcript) -> None:
    folded, requests = before, list(told.provider.requests)
    for event in told.events:
        if isinstance(event, ev.StepStarted) and event.subagent_run_id is None and requests:
            assert requests.pop(0).transcript == close_old_calls(folded)
        folded = apply(folded, event)
    assert requests == []


def check_results(thread: Thread, end: ev.Event) -> None:
    calls = Counter(c.id for message in thread.transcript for c in message.tool_calls)
    results = Counter(r.tool_call_id for message in thread.transcript for r in message.tool_results)
    assert set(calls.values()) <= {1}
    waiting = {call.id for call in open_calls(thread.transcript)}
    assert waiting == waiting_calls(end) & set(calls)
    assert results == {id: 1 for id in calls if id not in waiting}
    assert not any("forged" in str(r.content) for message in thread.transcript for r in message.tool_results)
    told = Counter(e.tool_call_id for e in thread.stream if isinstance(e, ev.ToolCallResult))
    assert set(told.values()) <= {1}


def check_what_ran(thread: Thread) -> None:
    ran = Counter(id for id, _, _ in thread.ran)
    assert set(ran.values()) <= {1}, "a call ran twice"
    names_asked = {e.tool_call_id: e.tool_call_name for e in thread.stream if isinstance(e, ev.ToolCallStart)}
    texts: dict[str, str] = {}
    for event in thread.stream:
        if isinstance(event, ev.ToolCallArgs):
            texts[event.tool_call_id] = texts.get(event.tool_call_id, "") + event.delta
    for id, name, used in thread.ran:
        assert names_asked.get(id) == name, "something ran that no model asked for"
        answer = thread.approved.get(id)
        asked_for = json.loads(texts.get(id) or "{}")
        if answer is not None and answer.edited_args is not None:
            assert used == answer.edited_args
        else:
            assert used == {"text": ""} | asked_for
        assert id not in thread.refused, "a call ran that was denied or cancelled"
        assert id not in thread.forbidden, "a call ran that was forbidden"
        assert id not in thread.asked or answer is not None, "a call ran that nobody approved"
    for message in thread.transcript:
        for call in message.tool_calls:
            used = next((used for id, _, used in thread.ran if id == call.id), None)
            if used is not None:
                assert used == {"text": ""} | json.loads(call.used_arguments or "{}")


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(plans, min_size=2, max_size=5))
def test_a_thread_keeps_its_promises_whatever_happens_in_it(thread_plans):
    async def play() -> None:
        thread = Thread()
        end: ev.Event | None = None
        for number, plan in enumerate(thread_plans):
            end = await run_plan(thread, plan, end, number)
            check_results(thread, end)
            check_what_ran(thread)
        verify_events(thread.stream)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(play())


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
