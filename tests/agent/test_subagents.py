"""Tools whose work is another run: what is told of it, what it costs, how it asks, and how it is stopped."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel

from agent import (
    Agent,
    InvalidRequest,
    Middleware,
    Price,
    Resolution,
    Tool,
    ToolContext,
    apply,
    check_resolutions,
    max_cost,
    max_iterations,
    max_tokens,
    price_table,
    subagent_tool,
    tool,
    user_message,
)
from agent import events as ev
from agent.errors import ProviderError
from agent.messages import Transcript, Usage, open_calls
from agent.middlewares import Redact
from agent.providers.scripted import ScriptedProvider, Turn
from agent.wire.agui import decode_event, decode_messages, encode_event
from tests.agent.agui_validation import assert_valid_run
from tests.agent.runs import Told, context, play, said

ran: list[Any] = []
MAIL = {"to": "a@b.c"}


@tool
async def look(text: str = "") -> str:
    ran.append(text)
    return f"<{text}>"


@tool(needs_approval=True)
async def send(to: str) -> str:
    ran.append(f"sent to {to}")
    return "sent"


@tool(parallel_safe=False)
async def alone() -> str:
    ran.append("alone")
    return "alone"


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


_numbers = itertools.count()


def ctx(**fields: Any) -> Any:
    return context(new_id=lambda: f"n{next(_numbers)}", **fields)


class Helper:
    """A subagent and the provider that plays it."""

    def __init__(
        self, *turns: Any, name: str = "help", tools: Any = (look, send), options: Any = None, **agent: Any
    ):
        self.provider = ScriptedProvider(*turns, name="inner")
        self.agent = Agent(self.provider, "small", tools, **agent)
        self.tool = subagent_tool(self.agent, name=name, description="Helps.", **(options or {}))


def ask(*tasks: str, name: str = "help", first: int = 1) -> Turn:
    return Turn(calls=[(f"c{n}", name, {"task": task}) for n, task in enumerate(tasks, first)])


async def outer(*turns: Turn, tools: Any, **rest: Any) -> Told:
    return await play(*turns, tools=tools, **({"ctx": ctx()} | rest))


async def then(before: Told, *turns: Turn, tools: Any, **rest: Any) -> Told:
    rest = {"input": (), "ctx": ctx(run_id="r2", parent_run_id="r1")} | rest
    return await play(*turns, tools=tools, transcript=before.transcript, **rest)


def answer(told: Told, status: Any = "approved", place: int = 0, **rest: Any) -> Resolution:
    asked = told.interrupts[place]
    return Resolution(asked.tool_call_id, asked.id, status, **rest)


# -- a whole run inside a run


async def test_a_call_is_another_run_and_its_last_words_are_the_result():
    helper = Helper(Turn(calls=[("x1", "look", {"text": "here"})]), Turn("It is here."))
    told = await outer(ask("Find it."), Turn("Found: here."), tools=[helper.tool])
    assert ran == ["here"]
    assert told.results[-1].content == "It is here."
    assert told.text == "It is here.Found: here."
    assert [m.text for m in helper.provider.requests[0].transcript] == ["Find it."]
    assert [m.role for m in helper.provider.requests[1].transcript] == ["user", "assistant", "tool"]
    # The outer transcript has the call and its result, and nothing of what went on inside.
    assert [m.role for m in told.transcript] == ["user", "assistant", "tool", "assistant"]


async def test_its_events_are_told_under_the_outer_ones():
    helper = Helper(Turn(calls=[("x1", "look", {})]), Turn("Done.", thinking="hm"))
    told = await outer(ask("Find it."), Turn("ok"), tools=[helper.tool])
    (started,), (finished,) = told.of(ev.SubagentStarted), told.of(ev.SubagentFinished)
    assert (started.name, started.parent_tool_call_id, started.metadata) == (
        "help",
        "c1",
        {"input": "Find it."},
    )
    assert finished == ev.SubagentFinished(started.subagent_run_id, "Done.")
    within = told.events[told.events.index(started) + 1 : told.events.index(finished)]
    assert {event.subagent_run_id for event in within} == {started.subagent_run_id}
    assert [type(event) for event in within if isinstance(event, ev.StepStarted | ev.StepFinished)] == [
        ev.StepStarted,
        ev.StepFinished,
    ] * 2
    assert any(isinstance(event, ev.ToolCallResult) for event in within)


async def test_the_stream_is_good_ag_ui_and_comes_back_over_the_wire():
    helper = Helper(Turn(calls=[("x1", "look", {})]), Turn("Done.", thinking="hm"))
    told = await outer(ask("a"), Turn("ok"), tools=[helper.tool])
    assert_valid_run([encode_event(event) for event in told.events])
    assert [decode_event(encode_event(event)) for event in told.events] == told.events


async def test_its_whole_transcript_is_kept_beside_the_result():
    helper = Helper(Turn(calls=[("x1", "look", {})]), Turn("Done."))
    told = await outer(ask("Find it."), Turn("ok"), tools=[helper.tool])
    result = next(event for event in told.results if event.subagent_run_id is None)
    kept = result.metadata["subagent"]
    assert kept["runId"] == told.of(ev.SubagentStarted)[0].subagent_run_id
    messages = decode_messages(kept["messages"])
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[:3] == tuple(helper.provider.requests[1].transcript)
    assert told.transcript[2].metadata["subagent"] == kept


async def test_two_of_them_work_side_by_side():
    gate = [asyncio.Event(), asyncio.Event()]

    def meet(place: int) -> Any:
        async def wait(ctx: ToolContext) -> str:
            gate[place].set()
            await gate[1 - place].wait()
            return "met"

        return tool(name="meet")(wait)

    one = Helper(Turn(calls=[("x", "meet", {})]), Turn("One."), name="one", tools=[meet(0)])
    two = Helper(Turn(calls=[("x", "meet", {})]), Turn("Two."), name="two", tools=[meet(1)])
    turn = Turn(calls=[("c1", "one", {"task": "a"}), ("c2", "two", {"task": "b"})])
    told = await outer(turn, Turn("ok"), tools=[one.tool, two.tool])
    assert [r.content for r in told.results if r.subagent_run_id is None] == ["One.", "Two."]
    # The same id from two servers is two ids here.
    inner = [event.tool_call_id for event in told.of(ev.ToolCallStart) if event.subagent_run_id]
    assert len(set(inner)) == 2


async def test_one_inside_another():
    deepest = Helper(Turn("Deep."), name="deepest")
    middle = Helper(
        ask("down", name="deepest", first=1), Turn("Middle."), name="middle", tools=[deepest.tool]
    )
    told = await outer(ask("go", name="middle"), Turn("ok"), tools=[middle.tool])
    first, second = told.of(ev.SubagentStarted)
    assert second.parent_subagent_run_id == first.subagent_run_id
    assert first.parent_subagent_run_id is None
    assert next(r for r in told.results if r.subagent_run_id is None).content == "Middle."
    assert_valid_run([encode_event(event) for event in told.events])


async def test_its_output_may_have_a_form():
    class Found(BaseModel):
        place: str

    helper = Helper(Turn('{"place": "here"}'), options={"output": Found})
    told = await outer(ask("Find it."), Turn("ok"), tools=[helper.tool])
    assert said(told.results[0]) == {"place": "here"}
    assert told.of(ev.SubagentFinished)[0].result == {"place": "here"}


async def test_arguments_of_another_form_become_the_question():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    helper = Helper(
        Turn("Cold."), options={"parameters": schema, "prompt": lambda a: f"Weather in {a['city']}?"}
    )
    await outer(Turn(calls=[("c1", "help", {"city": "Oslo"})]), Turn("ok"), tools=[helper.tool])
    assert helper.provider.requests[0].transcript[0].text == "Weather in Oslo?"


async def test_arguments_that_do_not_fit_start_no_run():
    helper = Helper(Turn("Never."))
    told = await outer(Turn(calls=[("c1", "help", {"tusk": 1})]), Turn("ok"), tools=[helper.tool])
    assert (told.codes, helper.provider.requests) == (["invalid_arguments"], [])


def test_an_agent_with_client_tools_is_no_subagent():
    with pytest.raises(InvalidRequest, match="client tools"):
        Helper(tools=[Tool("pick", "At the client.")])


async def test_the_tool_is_no_use_outside_of_a_run():
    helper = Helper(Turn("Never."))
    with pytest.raises(InvalidRequest, match="inside a run"):
        await helper.tool.function(
            {"task": "x"},
            ToolContext(
                thread_id="t",
                run_id="r",
                tool_call_id="c",
                user=None,
                abort=ctx().abort,
                tell=lambda *_: None,
            ),
        )


# -- what goes wrong inside


@pytest.mark.parametrize(
    ("turn", "code"),
    [(Turn(error=ProviderError("Down.")), "provider_error"), (Turn(error=KeyError("bug")), "internal_error")],
)
async def test_one_that_fails_is_an_error_result_and_the_outer_run_goes_on(turn, code, caplog):
    helper = Helper(turn)
    told = await outer(ask("x"), Turn("Sorry."), tools=[helper.tool])
    assert told.codes == [code]
    assert told.of(ev.SubagentError)[0].code == code
    assert (told.text, told.stop_reason) == ("Sorry.", "stop")
    assert "bug" not in told.results[0].content
    assert told.results[0].metadata["subagent"]["runId"]


async def test_one_that_has_limits_of_its_own_ends_at_them():
    loops = [Turn(calls=[(f"x{n}", "look", {})]) for n in range(9)]
    helper = Helper(*loops, strategy=max_iterations(2))
    told = await outer(ask("x"), Turn("ok"), tools=[helper.tool])
    assert (len(helper.provider.requests), told.codes[-1]) == (2, "max_iterations")
    assert told.stop_reason == "stop"


async def test_one_that_says_nothing_is_an_error_result():
    told = await outer(ask("x"), Turn("ok"), tools=[Helper(Turn("")).tool])
    assert told.codes == ["stop"]
    assert "without an answer" in told.results[0].content


async def test_one_out_of_time_is_closed_and_answered():
    @tool
    async def hang() -> str:
        await asyncio.Event().wait()

    helper = Helper(Turn("Let me see.", calls=[("x", "hang", {})]), tools=[hang], options={"timeout": 0.05})
    told = await outer(ask("x"), Turn("ok"), tools=[helper.tool])
    assert told.codes[-1] == "timeout"
    assert told.of(ev.SubagentError)[0].code == "aborted"
    assert told.stop_reason == "stop"


# -- what it costs


async def test_what_it_uses_counts_in_the_outer_runs_usage():
    helper = Helper(Turn("Done.", usage=Usage(100, 10)))
    told = await outer(
        replace(ask("x"), usage=Usage(5, 1)), Turn("ok", usage=Usage(6, 2)), tools=[helper.tool]
    )
    assert told.end.usage == (
        ev.ModelUsage("m", Usage(11, 3), "scripted"),
        ev.ModelUsage("small", Usage(100, 10), "inner"),
    )


async def test_and_in_its_budgets():
    helper = Helper(Turn("Done.", usage=Usage(1000, 10)))
    told = await outer(ask("x"), Turn("never"), tools=[helper.tool], agent={"strategy": max_tokens(1000)})
    assert told.stop_reason == "max_tokens"
    prices = price_table({"m": Price(input=1, output=1), "small": Price(input=1000, output=0)})
    helper = Helper(Turn("Done.", usage=Usage(1000, 10)))
    told = await outer(
        ask("x"), Turn("never"), tools=[helper.tool], agent={"strategy": max_cost(0.5), "cost": prices}
    )
    assert told.stop_reason == "max_cost"
    helper = Helper(Turn("Done.", usage=Usage(1000, 10)), cost=lambda model, usage: 0.1)
    told = await outer(
        ask("x"), Turn("ok"), tools=[helper.tool], agent={"strategy": max_cost(0.5), "cost": prices}
    )
    assert told.stop_reason == "stop"


# -- asking a person


ASKS = (
    Turn("Let me.", calls=[("x1", "send", MAIL)], usage=Usage(10, 1)),
    Turn("It is sent.", usage=Usage(20, 2)),
)


async def test_its_question_is_one_of_the_outer_run_and_the_answer_goes_on_with_it():
    helper = Helper(*ASKS)
    told = await outer(ask("Write to a."), tools=[helper.tool])
    assert (ran, told.stop_reason) == ([], "interrupt")
    (asked,) = told.interrupts
    inner_run = told.of(ev.SubagentStarted)[0].subagent_run_id
    (call_id,) = [event.tool_call_id for event in told.of(ev.ToolCallStart) if event.subagent_run_id]
    assert asked.tool_call_id == call_id
    assert asked.metadata["subagentRunId"] == inner_run
    assert asked.metadata["path"] == [{"toolCallId": "c1", "toolName": "help"}]
    assert asked.metadata["input"] == MAIL
    assert asked.metadata["tanstack:interruptBinding"]["interruptedRunId"] == "r1"
    assert told.of(ev.SubagentFinished) == [ev.SubagentFinished(inner_run, suspended=(asked.id,))]
    assert [c.id for c in open_calls(told.transcript)] == ["c1"]

    later = await then(told, Turn("All done."), tools=[helper.tool], resolutions=[answer(told)])
    assert ran == ["sent to a@b.c"]
    assert later.stop_reason == "stop"
    assert [r.content for r in later.results] == ["sent", "It is sent."]
    assert [m.role for m in helper.provider.requests[1].transcript] == ["user", "assistant", "tool"]
    assert later.of(ev.SubagentStarted)[0].metadata == {"resumes": inner_run}
    # Nothing of it stays behind in the outer message once the call has its result.
    assert "subagents" not in later.transcript[1].metadata
    assert later.end.usage[0].usage == Usage(20, 2)


async def test_both_runs_are_good_ag_ui():
    helper = Helper(*ASKS)
    told = await outer(ask("Write to a."), tools=[helper.tool])
    later = await then(told, Turn("All done."), tools=[helper.tool], resolutions=[answer(told)])
    for run, resumed in ((told, False), (later, True)):
        wires = [encode_event(event) for event in run.events]
        assert_valid_run(wires, resumed=resumed)
        assert [decode_event(wire) for wire in wires] == run.events


async def test_the_state_survives_the_rows():
    """Whoever folds the kept events, in another process, goes on just the same."""
    helper = Helper(*ASKS)
    told = await outer(ask("Write to a."), tools=[helper.tool])
    folded = Transcript()
    for event in told.events:
        folded = apply(folded, decode_event(json.loads(json.dumps(encode_event(event)))))
    later = await play(
        Turn("ok"),
        tools=[helper.tool],
        transcript=folded,
        input=(),
        resolutions=[answer(told)],
        ctx=ctx(run_id="r2"),
    )
    assert ran == ["sent to a@b.c"]
    assert later.stop_reason == "stop"


async def test_it_may_be_edited_denied_and_cancelled():
    for status, edited, code, sent in (
        ("approved", {"to": "x@y.z"}, None, ["sent to x@y.z"]),
        ("denied", None, "denied", []),
        ("cancelled", None, "cancelled", []),
    ):
        ran.clear()
        helper = Helper(*ASKS)
        told = await outer(ask("Write to a."), tools=[helper.tool])
        later = await then(
            told, Turn("ok"), tools=[helper.tool], resolutions=[answer(told, status, edited_args=edited)]
        )
        assert (ran, later.codes) == (sent, [code, None])
        assert later.results[0].subagent_run_id is not None


async def test_its_answers_are_checked_against_its_own_tools():
    helper = Helper(*ASKS)
    told = await outer(ask("Write to a."), tools=[helper.tool])
    registry = Agent(ScriptedProvider(), "m", [helper.tool]).registry
    now = datetime(2000, 1, 1, tzinfo=UTC)
    check_resolutions(told.interrupts, [answer(told, edited_args={"to": "x"})], registry, now)
    for bad, code in (
        (answer(told, edited_args={"to": 7}), "invalid_arguments"),
        (answer(told), "unknown_tool"),
    ):
        tools = registry if code == "invalid_arguments" else Agent(ScriptedProvider(), "m", [look]).registry
        with pytest.raises(InvalidRequest) as refused:
            check_resolutions(told.interrupts, [bad], tools, now)
        assert refused.value.code == code


async def test_what_was_not_answered_waits_again():
    helper = Helper(Turn(calls=[("x1", "send", MAIL), ("x2", "send", {"to": "d"})]), Turn("Sent."))
    told = await outer(ask("Write."), tools=[helper.tool])
    assert [i.metadata["input"]["to"] for i in told.interrupts] == ["a@b.c", "d"]
    later = await then(told, tools=[helper.tool], resolutions=[answer(told)])
    assert ran == ["sent to a@b.c"]
    assert [i.metadata["input"]["to"] for i in later.interrupts] == ["d"]
    last = await then(
        later, Turn("ok"), tools=[helper.tool], resolutions=[answer(later)], ctx=ctx(run_id="r3")
    )
    assert (ran, last.stop_reason) == (["sent to a@b.c", "sent to d"], "stop")


async def test_siblings_run_and_what_runs_alone_waits_behind_it():
    helper = Helper(*ASKS)
    calls = [
        ("c1", "help", {"task": "x"}),
        ("c2", "look", {"text": "y"}),
        ("c3", "alone", {}),
        ("c4", "send", MAIL),
    ]
    told = await outer(Turn(calls=calls), tools=[helper.tool, look, alone, send])
    assert ran == ["y"]
    assert told.end.metadata == {"heldToolCallIds": ["c3"]}
    assert told.interrupts[0].tool_call_id == "c4"
    assert "path" in told.interrupts[1].metadata
    answers = [answer(told, "denied"), answer(told, place=1)]
    later = await then(told, Turn("ok"), tools=[helper.tool, look, alone, send], resolutions=answers)
    assert ran == ["y", "sent to a@b.c", "alone"]
    assert [r.tool_call_id for r in later.results if r.subagent_run_id is None] == ["c1", "c3", "c4"]


async def test_a_question_from_two_levels_down():
    deepest = Helper(*ASKS, name="deepest")
    middle = Helper(
        ask("down", name="deepest", first=7), Turn("Middle."), name="middle", tools=[deepest.tool]
    )
    told = await outer(ask("go", name="middle"), tools=[middle.tool])
    (asked,) = told.interrupts
    assert [step["toolName"] for step in asked.metadata["path"]] == ["middle", "deepest"]
    assert asked.metadata["subagentRunId"] == told.of(ev.SubagentStarted)[1].subagent_run_id
    registry = Agent(ScriptedProvider(), "m", [middle.tool]).registry
    check_resolutions([asked], [answer(told)], registry, datetime(2000, 1, 1, tzinfo=UTC))
    later = await then(told, Turn("ok"), tools=[middle.tool], resolutions=[answer(told)])
    assert ran == ["sent to a@b.c"]
    assert [r.content for r in later.results if r.subagent_run_id is None] == ["Middle."]


async def test_a_new_message_leaves_it_where_it_is():
    helper = Helper(*ASKS)
    told = await outer(ask("Write."), tools=[helper.tool])
    later = await then(told, Turn("ok"), tools=[helper.tool], input=[user_message("u2", "Never mind.")])
    assert (ran, later.codes) == ([], ["cancelled"])
    assert "subagents" not in later.transcript[1].metadata


async def test_a_subagent_that_needs_approval_itself_is_asked_about_once():
    helper = Helper(*ASKS, options={"needs_approval": True})
    told = await outer(ask("Write."), tools=[helper.tool])
    assert helper.provider.requests == []
    second = await then(told, tools=[helper.tool], resolutions=[answer(told)])
    assert [i.metadata["toolName"] for i in second.interrupts] == ["send"]
    third = await then(
        second, Turn("ok"), tools=[helper.tool], resolutions=[answer(second)], ctx=ctx(run_id="r3")
    )
    assert (ran, third.stop_reason) == (["sent to a@b.c"], "stop")


async def test_the_policy_holds_inside_too():
    helper = Helper(Turn(calls=[("x1", "look", {})]), Turn("Done."))

    def policy(call, arguments, of):
        return "deny" if of.name == "look" else None

    told = await outer(ask("x"), Turn("ok"), tools=[helper.tool], ctx=ctx(policy=policy))
    assert (ran, told.codes) == ([], ["denied", None])


async def test_each_call_is_claimed_once_the_outer_one_before_its_run_begins():
    claims = []

    async def claim(call, arguments):
        claims.append(call.name)

    helper = Helper(*ASKS)
    told = await outer(ask("Write."), tools=[helper.tool], ctx=ctx(on_claim=claim))
    await then(
        told,
        Turn("ok"),
        tools=[helper.tool],
        resolutions=[answer(told)],
        ctx=ctx(run_id="r2", on_claim=claim),
    )
    assert claims == ["help", "send"]


# -- stopped


@pytest.mark.parametrize("where", ["in its text", "in its tool", "two levels down"])
async def test_a_stop_reaches_it_and_nothing_stays_open(where):
    started = asyncio.Event()

    @tool
    async def hang() -> str:
        started.set()
        await asyncio.Event().wait()

    turn = {
        "in its text": Turn("A long answer.", delta_size=2, gate=asyncio.Event(), held=started),
    }.get(where, Turn("Let me see.", calls=[("x", "hang", {})]))
    helper = Helper(turn, tools=[hang])
    if where == "two levels down":
        helper = Helper(ask("down", name="help"), name="middle", tools=[helper.tool])
    stopping = ctx()

    async def stop():
        await started.wait()
        stopping.abort.abort()

    stopper = asyncio.create_task(stop())
    told = await outer(ask("x", name=helper.tool.name), tools=[helper.tool], ctx=stopping)
    await stopper
    assert told.stop_reason == "cancelled"
    assert {error.code for error in told.of(ev.SubagentError)} == {"aborted"}
    assert [r.error for r in told.results if r.subagent_run_id is None] == ["aborted"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_that_does_not_listen_is_closed_all_the_same(monkeypatch):
    from agent import tool_calls

    monkeypatch.setattr(tool_calls, "GRACE", 0.02)
    started = asyncio.Event()

    class Deaf:
        name = "deaf"

        async def stream(self, request):
            yield ev.TextMessageStart(message_id=request.message_id)
            started.set()
            for _ in range(100):
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue

    helper = subagent_tool(Agent(Deaf(), "m"), name="help", description="")
    stopping = ctx()

    async def stop():
        await started.wait()
        stopping.abort.abort()

    stopper = asyncio.create_task(stop())
    told = await outer(ask("x"), tools=[helper], ctx=stopping)
    await stopper
    assert told.stop_reason == "cancelled"


async def test_one_whose_model_is_slow_to_let_go_is_stopped_and_not_broken(monkeypatch):
    from agent import tool_calls

    monkeypatch.setattr(tool_calls, "GRACE", 0.02)
    stopping = ctx()

    class Clings:
        name = "clings"

        async def stream(self, request):
            yield ev.TextMessageStart(message_id=request.message_id)
            try:
                stopping.abort.abort()
                await asyncio.Event().wait()
            finally:
                await asyncio.Event().wait()

    helper = subagent_tool(Agent(Clings(), "m"), name="help", description="")
    told = await outer(ask("x"), tools=[helper], ctx=stopping)
    assert (told.codes, told.stop_reason) == (["aborted"], "cancelled")


async def test_ending_it_from_inside_ends_no_other():
    class Enough(Middleware):
        def on_start(self, ctx):
            ctx.abort("enough")

    helper = Helper(Turn("Never."), middleware=[Enough])
    told = await outer(ask("x"), Turn("Sorry."), tools=[helper.tool])
    assert (told.codes, told.text, told.stop_reason) == (["aborted"], "Sorry.", "stop")


# -- with middlewares of the outer run


async def test_what_it_says_passes_the_outer_runs_middlewares():
    key = "sk-abcdefghij0123456789"
    helper = Helper(Turn(f"The key is {key}.", delta_size=3))
    told = await outer(
        ask("x"), Turn("ok"), tools=[helper.tool], agent={"middleware": [Redact(r"sk-[a-z0-9]{16,}")]}
    )
    texts = "".join(e.delta for e in told.of(ev.TextMessageContent) if e.subagent_run_id)
    assert texts == "The key is [hidden]."
    assert told.results[0].content == "The key is [hidden]."
    assert key not in repr(told.results[0].metadata["subagent"])
