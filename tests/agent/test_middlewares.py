"""The middlewares that ship."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import Agent, Resolution, ToolContext, ToolError, max_iterations, tool
from agent import events as ev
from agent.errors import ProviderError, ProviderUnavailable
from agent.messages import TextPart, ToolResultPart, Usage
from agent.middlewares import Redact, Telemetry, ToolCache, ToolCallBudget
from agent.middlewares import telemetry as telemetry_module
from agent.providers.routed import Routed
from agent.providers.scripted import ScriptedProvider, Turn
from tests.agent.runs import Told, context, drive, play, said

ran: list[Any] = []


@tool
async def echo(text: str = "") -> str:
    ran.append(text)
    if text == "fail":
        raise ToolError("It failed.")
    return f"<{text}>"


@tool(needs_approval=True)
async def risky(text: str = "") -> str:
    ran.append(text)
    return text


TOOLS = [echo, risky]


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


def calls(*texts: str, first: int = 1, name: str = "echo") -> Turn:
    return Turn(calls=[(f"c{n}", name, {"text": text}) for n, text in enumerate(texts, first)])


async def through(*middleware: Any, turns: Any, **rest: Any) -> Told:
    agent = {"middleware": middleware, **rest.pop("agent", {})}
    return await play(*turns, tools=TOOLS, agent=agent, **rest)


# -- tool_call_budget


async def test_calls_beyond_the_turns_budget_are_skipped_and_the_loop_goes_on():
    told = await through(
        ToolCallBudget(max_per_turn=2), turns=(calls("a", "b", "c"), calls("d", first=4), Turn("ok"))
    )
    assert ran == ["a", "b", "d"]
    assert told.codes == [None, None, "over_budget", None]
    assert "at most 2" in said(told.results[2])["error"]
    assert told.stop_reason == "stop"


async def test_the_runs_budget_stops_the_run_by_its_name():
    told = await through(
        ToolCallBudget(max=3),
        turns=(calls("a", "b"), calls("c", "d", first=3), Turn("Sorry.")),
        agent={"final_answer": True},
    )
    assert ran == ["a", "b", "c"]
    assert told.codes == [None, None, None, "over_budget"]
    assert (told.stop_reason, told.text) == ("tool_call_budget", "Sorry.")


async def test_skipped_calls_count():
    told = await through(ToolCallBudget(max_per_turn=1, max=3), turns=(calls("a", "b", "c"),))
    assert (ran, told.stop_reason) == (["a"], "tool_call_budget")


async def test_the_turns_count_begins_anew_in_each_batch_also_a_resumed_one():
    turn = Turn(
        calls=[("c1", "echo", {"text": "a"}), ("c2", "risky", {"text": "b"}), ("c3", "risky", {"text": "c"})]
    )
    told = await through(ToolCallBudget(max_per_turn=1), turns=(turn,))
    assert ran == ["a"]
    answers = [Resolution(i.tool_call_id, i.id, "approved") for i in told.interrupts]
    later = await through(
        ToolCallBudget(max_per_turn=1),
        turns=(calls("d", first=4), Turn("ok")),
        transcript=told.transcript,
        input=(),
        resolutions=answers,
        ctx=context(run_id="r2"),
    )
    assert ran == ["a", "b", "d"]
    assert later.codes == [None, "over_budget", None]


async def test_each_run_has_its_own_budget():
    agent = Agent(
        ScriptedProvider(
            each=lambda request: calls("x") if request.transcript[-1].role == "user" else Turn("ok")
        ),
        "m",
        TOOLS,
        middleware=[ToolCallBudget(max=2)],
    )
    for number in range(3):
        told = await drive(agent, ctx=context(run_id=f"r{number}"))
        assert told.stop_reason == "stop"
    assert len(ran) == 3


# -- tool_cache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def cached(cache: ToolCache, *turns: Turn, **rest: Any) -> Told:
    return await through(cache, turns=(*turns, Turn("ok")), **rest)


async def test_a_known_call_is_not_run_again_also_in_another_run():
    cache = ToolCache(["echo"])
    told = await cached(cache, calls("a"), calls("a", first=2))
    again = await cached(cache, calls("a"))
    assert ran == ["a"]
    assert [result.content for result in (*told.results, *again.results)] == ["<a>"] * 3


async def test_the_key_is_made_of_the_arguments_as_they_are_checked():
    cache = ToolCache(["echo"])
    await cached(cache, Turn(calls=[("c1", "echo", "{}")]), Turn(calls=[("c2", "echo", ' {"text" : ""} ')]))
    assert ran == [""]


async def test_only_the_tools_that_are_named_are_remembered():
    await cached(ToolCache("risky"), calls("a"), calls("a", first=2))
    assert ran == ["a", "a"]


async def test_what_is_remembered_does_not_grow_younger_by_being_read():
    clock = Clock()
    cache = ToolCache(["echo"], ttl=10, clock=clock)
    for clock.now in (0, 6, 9.9):
        await cached(cache, calls("a"))
    assert ran == ["a"]
    clock.now = 10
    await cached(cache, calls("a"))
    assert ran == ["a", "a"]


async def test_a_failure_is_not_remembered():
    await cached(ToolCache(["echo"]), calls("fail"), calls("fail", first=2))
    assert ran == ["fail", "fail"]


async def test_one_user_never_gets_what_was_made_for_another():
    cache = ToolCache(["echo"])
    for user in ("ann", "bob", "ann"):
        await cached(cache, calls("a"), ctx=context(user=user))
    assert ran == ["a", "a"]
    for thread in ("t1", "t2", "t1"):
        await cached(cache, calls("a"), ctx=context(thread_id=thread))
    assert len(ran) == 4


async def test_whoever_calls_the_same_at_once_waits_for_the_first():
    release = asyncio.Event()
    started = []

    @tool(name="echo")
    async def slow(text: str = "") -> str:
        started.append(text)
        await release.wait()
        return f"<{text}>"

    asyncio.get_running_loop().call_later(0.02, release.set)
    told = await play(
        calls("a", "a", "b", "a"), Turn("ok"), tools=[slow], agent={"middleware": [ToolCache(["echo"])]}
    )
    assert sorted(started) == ["a", "b"]
    assert [result.content for result in told.results] == ["<a>", "<a>", "<b>", "<a>"]


async def test_when_the_first_fails_the_next_one_makes_the_call():
    tries = []

    @tool(name="echo")
    async def flaky(text: str = "") -> str:
        tries.append(text)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise ToolError("Once.")
        return "good"

    told = await play(
        calls("a", "a", "a"), Turn("ok"), tools=[flaky], agent={"middleware": [ToolCache(["echo"])]}
    )
    assert len(tries) == 2
    assert [result.error for result in told.results] == ["tool_error", None, None]


async def test_a_run_that_is_stopped_leaves_its_call_to_who_waits_for_it():
    held, first = asyncio.Event(), []

    @tool(name="echo")
    async def hang(ctx: ToolContext, text: str = "") -> str:
        first.append(ctx.run_id)
        if ctx.run_id == "r1":
            held.set()
            await asyncio.Event().wait()
        return "good"

    cache = ToolCache(["echo"])
    stopped, other = context(user="ann"), context(user="ann", run_id="r2")
    agent = {"middleware": [cache]}
    one = asyncio.create_task(play(calls("a"), tools=[hang], agent=agent, ctx=stopped))
    await held.wait()
    two = asyncio.create_task(play(calls("a"), Turn("ok"), tools=[hang], agent=agent, ctx=other))
    await asyncio.sleep(0.01)
    stopped.abort.abort()
    assert (await one).codes == ["aborted"]
    assert [result.content for result in (await two).results] == ["good"]
    assert first == ["r1", "r2"]


async def test_a_call_the_budget_skips_asks_the_cache_nothing():
    cache = ToolCache(["echo"])
    await cached(cache, calls("a"))
    told = await through(ToolCallBudget(max_per_turn=0), cache, turns=(calls("a"), Turn("ok")))
    assert told.codes == ["over_budget"]


async def test_the_oldest_are_forgotten():
    cache = ToolCache(["echo"], max_entries=2)
    await cached(cache, calls("a", "b", "c"), calls("a", first=4))
    assert sorted(ran) == ["a", "a", "b", "c"]


async def test_parts_are_remembered_as_parts():
    @tool(name="echo")
    async def picture(text: str = "") -> list[Any]:
        ran.append(text)
        return [TextPart("a picture")]

    told = await play(
        calls("a"),
        calls("a", first=2),
        Turn("ok"),
        tools=[picture],
        agent={"middleware": [ToolCache(["echo"])]},
    )
    assert ran == ["a"]
    assert [result.content for result in told.results] == [(TextPart("a picture"),)] * 2


# -- redact


KEY = "sk-abcdefghij0123456789"
PATTERN = r"sk-[a-z0-9]{16,}"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_a_secret_is_hidden_however_it_is_cut(size):
    text = f"The key is {KEY}, and again: {KEY}"
    told = await through(Redact(PATTERN), turns=(Turn(text, thinking=f"hm {KEY}!", delta_size=size),))
    assert told.text == "The key is [hidden], and again: [hidden]"
    assert KEY not in repr(told.events)
    assert told.transcript[-1].parts[0].text == "hm [hidden]!"


async def test_text_streams_on_and_only_its_end_is_held_back():
    told = await through(Redact(PATTERN, window=10), turns=(Turn("x" * 200, delta_size=5),))
    assert told.text == "x" * 200
    assert len(told.of(ev.TextMessageContent)) > 30


async def test_what_tools_give_is_hidden_also_the_whole_of_what_was_cut():
    @tool(max_output=60)
    async def leak(ctx: ToolContext) -> str:
        ctx.emit("progress", {"at": [KEY, 7, {"key": KEY}]})
        return f"key: {KEY} {'x' * 100}"

    told = await play(
        Turn(calls=[("c1", "leak", {})]), Turn("ok"), tools=[leak], agent={"middleware": [Redact(PATTERN)]}
    )
    assert KEY not in repr(told.events)
    assert KEY not in repr(told.transcript)
    assert told.of(ev.Custom)[0].value == {
        "toolCallId": "c1",
        "value": {"at": ["[hidden]", 7, {"key": "[hidden]"}]},
    }
    assert told.results[0].metadata["full"].startswith("key: [hidden]")


async def test_arguments_are_left_alone_unless_asked():
    await through(Redact(PATTERN), turns=(calls(KEY), Turn("ok")))
    await through(Redact(PATTERN, arguments=True, with_="-"), turns=(calls(KEY), Turn("ok")))
    assert ran == [KEY, "-"]


async def test_several_patterns_and_a_match_that_looks_back():
    redact = Redact(r"(?<=pin )\d+", r"\bcat\b", with_="*", window=8)
    told = await through(redact, turns=(Turn("concat the cat, pin 1234 and pin 5", delta_size=1),))
    assert told.text == "concat the *, pin * and pin *"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from([KEY, "sk-short", "plain ", "s", "sk-", " ", "x" * 40]), max_size=8),
    st.integers(1, 30),
    st.integers(24, 64),
)
def test_hidden_in_pieces_is_hidden_as_a_whole(words, size, window):
    text = "".join(words)
    redact = Redact(PATTERN, window=window)
    told = asyncio.run(through(Redact(PATTERN, window=window), turns=(Turn(text, delta_size=size),)))
    assert told.text == redact.hide(text)


# -- telemetry: with a double for OpenTelemetry's tracer, since its SDK is not among our packages


class Span:
    def __init__(self, name: str, parent: Any, kind: Any, attributes: dict[str, Any]) -> None:
        self.name, self.parent, self.kind, self.attributes = name, parent, kind, dict(attributes)
        self.ended = 0
        self.status: Any = None

    def set_attribute(self, name: str, value: Any) -> None:
        self.attributes[name] = value

    def set_status(self, status: Any) -> None:
        self.status = status

    def end(self) -> None:
        self.ended += 1


class Tracer:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_span(self, name: str, context: Any = None, kind: Any = None, attributes: Any = None) -> Span:
        parent = None if context is None else next(iter(context.values()))
        self.spans.append(Span(name, parent, kind, attributes))
        return self.spans[-1]


class _Silent:
    name = "one"

    async def stream(self, request: Any) -> Any:
        raise ProviderUnavailable("down")
        yield


async def traced(*turns: Turn, **rest: Any) -> tuple[Told, list[Span]]:
    tracer = Tracer()
    told = await through(lambda: Telemetry(tracer), turns=turns, **rest)
    assert all(span.ended == 1 for span in tracer.spans), [span.name for span in tracer.spans]
    return told, tracer.spans


async def test_a_run_its_turns_and_its_calls_are_spans():
    first = Turn(calls=[("c1", "echo", {"text": "a"}), ("c2", "echo", {"text": "fail"})], usage=Usage(10, 2))
    _, spans = await traced(first, Turn("ok", usage=Usage(20, 3)))
    run, one, ok, failed, two = spans
    assert [span.name for span in spans] == [
        "invoke_agent",
        "chat m",
        "execute_tool echo",
        "execute_tool echo",
        "chat m",
    ]
    assert [span.parent for span in (one, ok, failed, two)] == [run] * 4
    assert run.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "scripted",
        "gen_ai.conversation.id": "t1",
        "threadloom.run.id": "r1",
        "threadloom.run.stop_reason": "stop",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 5,
    }
    assert one.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.response.finish_reasons": ("tool_calls",),
    }
    assert ok.attributes["gen_ai.tool.call.id"] == "c1"
    assert "error.type" not in ok.attributes
    assert failed.attributes["error.type"] == "tool_error"
    assert failed.status is not None


async def test_nothing_that_anybody_said_is_in_a_span():
    _, spans = await traced(calls("secret"), Turn("secret"))
    assert "secret" not in json.dumps([span.attributes for span in spans])


async def test_a_run_that_fails_or_is_stopped_ends_its_spans():
    _, spans = await traced(Turn("Hel", error=ProviderError("Down.")))
    assert spans[0].attributes["error.type"] == "provider_error"
    assert spans[1].attributes["error.type"] == "incomplete_stream"
    ctx = context()
    ctx.abort.abort()
    _, spans = await traced(Turn("Hi."), ctx=ctx)
    assert spans[0].attributes["threadloom.run.stop_reason"] == "cancelled"


async def test_a_turns_span_names_the_endpoint_that_answered_it():
    tracer = Tracer()
    routed = Routed([(_Silent(), "m"), (ScriptedProvider(Turn("ok"), name="two"), "m")])
    await drive(Agent(routed, "m", middleware=(lambda: Telemetry(tracer),)))
    assert [span.attributes["gen_ai.provider.name"] for span in tracer.spans] == ["one", "two"]


async def test_without_the_api_nothing_happens(monkeypatch):
    monkeypatch.setattr(telemetry_module, "trace", None)
    told = await through(Telemetry, turns=(calls("a"), Turn("ok")))
    assert told.stop_reason == "stop"


async def test_without_the_sdk_nothing_happens_either():
    told = await through(Telemetry, turns=(calls("a"), Turn("ok")), agent={"strategy": max_iterations(3)})
    assert told.results[0] == ev.ToolCallResult(told.results[0].message_id, "c1", "<a>", duration_ms=0)
    assert told.transcript[-2].tool_results == (ToolResultPart("c1", "<a>", None, 0),)
