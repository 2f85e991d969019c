"""The calls of one turn: what runs when, what the model reads of it, and that nothing leaks out of a call."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import threading
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from agent import Tool, ToolContext, ToolError, ToolRegistry, tool
from agent.errors import InvalidRequest
from agent.events import Custom, ToolCallResult
from agent.messages import FilePart, ImagePart, TextPart, ToolCallPart, ToolResultPart
from agent.results import content_of, error_result
from agent.tool_calls import run_calls
from tests.agent.runs import call, context, said


async def run(*calls: ToolCallPart | ToolResultPart, tools: Any = (), ctx: Any = None) -> list[Any]:
    return [event async for event in run_calls(calls, ToolRegistry(tools), ctx or context())]


async def run_one(made: Tool, arguments: Any = "{}", **fields: Any) -> ToolCallResult:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    (result,) = await run(call("c1", made.name, text), tools=[made], ctx=context(**fields))
    return result


def returning(value: Any, **options: Any) -> Tool:
    async def give() -> Any:
        return value

    return tool(name="give", **options)(give)


def raising(error: BaseException, **options: Any) -> Tool:
    async def give() -> Any:
        raise error

    return tool(name="give", **options)(give)


# -- sync and async


@tool
def where() -> str:
    return threading.current_thread().name


@tool
async def where_async() -> str:
    return threading.current_thread().name


async def test_a_sync_tool_runs_in_a_thread_and_an_async_one_in_the_loop():
    here = threading.current_thread().name
    assert (await run_one(where)).content != here
    assert (await run_one(where_async)).content == here


async def test_a_sync_tool_sees_the_context_variables_of_the_run():
    language = contextvars.ContextVar("language", default="none")
    language.set("no")

    @tool
    def speak() -> str:
        return language.get()

    assert (await run_one(speak)).content == "no"


async def test_many_blocked_tools_hold_no_worker_of_the_shared_pool():
    release, started = threading.Event(), threading.Barrier(41)

    @tool
    def block() -> str:
        started.wait()
        release.wait()
        return "done"

    calls = [call(f"c{n}", "block") for n in range(40)]
    running = asyncio.create_task(run(*calls, tools=[block]))
    await asyncio.to_thread(started.wait)  # the pool still has a worker, though forty tools block
    release.set()
    assert {event.content for event in await running} == {"done"}


async def test_an_object_that_can_be_called_may_be_a_plain_tools_function():
    class Search:
        async def __call__(self, arguments: Any, ctx: ToolContext) -> str:
            return f"{arguments['q']} for {ctx.tool_call_id}"

    made = Tool("search", "", {"type": "object", "required": ["q"]}, Search())
    assert not made.blocking
    assert (await run_one(made, {"q": "cats"})).content == "cats for c1"


async def test_a_sync_function_may_give_something_to_await():
    async def later() -> str:
        return "later"

    assert (await run_one(Tool("x", "", execute=lambda arguments, ctx: later()))).content == "later"


# -- what the model reads


class Weather(BaseModel):
    city: str
    degrees: Decimal


@dataclass
class Point:
    x: int
    on: date


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("62 °F", "62 °F"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (62, "62"),
        (1.5, "1.5"),
        ([], "[]"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Weather(city="Oslo", degrees=Decimal("1.10")), '{"city":"Oslo","degrees":"1.10"}'),
        ([Point(1, date(2024, 2, 29))], '[{"x":1,"on":"2024-02-29"}]'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ({1, 2} - {2}, "[1]"),
        (b"text", '"text"'),
        (b"\xff\xfe", '"__4="'),
        (float("nan"), '"NaN"'),
        ({"x": float("inf")}, '{"x":"Infinity"}'),
        ("half \ud83d", "half �"),
        ("whole \ud83d\ude00", "whole 😀"),
        ({"a": "half \ud83d"}, '{"a":"half �"}'),
    ],
)
async def test_a_string_stays_and_everything_else_is_json(value, content):
    result = await run_one(returning(value))
    assert (result.content, result.error) == (content, None)
    result.content.encode()


PARTS = [TextPart("a cat"), ImagePart("image/png", data="aGk="), FilePart("audio", url="https://x/y.mp3")]


async def test_a_list_of_parts_stays_multimodal():
    assert (await run_one(returning(PARTS))).content == tuple(PARTS)
    assert (await run_one(returning(PARTS[1]))).content == (PARTS[1],)


async def test_an_empty_list_is_no_list_of_parts():
    assert (await run_one(returning([]))).content == "[]"


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(10_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "value",
    [object(), circle(), deep(), lambda: 1, [TextPart("a"), "b"]],
    ids=["object", "circle", "deep", "function", "parts and more"],
)
async def test_what_cannot_be_said_in_json_is_an_internal_error(value, caplog):
    result = await run_one(returning(value))
    assert result.error == "internal_error"
    assert "internal error" in said(result)["error"]
    assert "cannot be said in JSON" in caplog.text


async def test_a_result_says_how_long_its_tool_ran():
    times = iter([10.0, 12.5])
    assert (await run_one(returning("x"), clock=lambda: next(times))).duration_ms == 2500


async def test_a_call_that_never_began_has_no_duration():
    (result,) = await run(call("c1", "give", "{"), tools=[returning("x")])
    assert result.duration_ms is None


# -- what went wrong


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ToolError("No such city."), "tool_error", "No such city."),
        (ToolError("Full.", code="sold_out"), "sold_out", "Full."),
        (InvalidRequest("Not like that."), "invalid_request", "Not like that."),
        (ValueError("no such city"), "tool_error", "no such city"),
        (RuntimeError("boom"), "tool_error", "boom"),
        (Exception("boom"), "tool_error", "boom"),
        (LookupError("nothing there"), "tool_error", "nothing there"),
        (ZeroDivisionError("division by zero"), "tool_error", "division by zero"),
        (FileNotFoundError("no note of that name"), "tool_error", "no note of that name"),
        (TimeoutError("the printer is slow"), "tool_error", "the printer is slow"),
    ],
)
async def test_a_raised_error_is_its_message_with_a_code(error, code, message):
    result = await run_one(raising(error))
    assert (result.error, said(result)) == (code, {"error": message})


class Secret(Exception):
    """Of a library: who knows what it says."""


@pytest.mark.parametrize(
    "error",
    [
        KeyError("password"),
        TypeError("password"),
        AttributeError("password"),
        AssertionError("password"),
        RecursionError("password"),
        NotImplementedError("password"),
        FileNotFoundError(2, "No such file", "/etc/password"),
        UnicodeDecodeError("utf-8", b"password", 0, 1, "x"),
        Secret("password"),
        ValueError(),
        SystemExit("password"),
        asyncio.CancelledError("password"),
        GeneratorExit("password"),
        BaseExceptionGroup("password", [GeneratorExit()]),
    ],
    ids=repr,
)
async def test_a_bug_shows_the_model_a_safe_message_and_the_log_the_trace(error, caplog):
    result = await run_one(raising(error))
    assert result.error == "internal_error"
    assert said(result) == {"error": "The tool failed because of an internal error."}
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("x"), SystemExit(3), StopIteration("x")])
async def test_whatever_a_sync_tool_raises_stays_in_its_call(error, caplog):
    @tool
    def fail() -> None:
        raise error

    assert (await run_one(fail)).error in ("tool_error", "internal_error")


async def test_a_raised_error_is_logged_with_its_trace_but_a_tools_own_answer_is_not(caplog):
    await run_one(raising(ToolError("No such city.")))
    assert caplog.text == ""
    await run_one(raising(ValueError("no such city")))
    assert "Traceback" in caplog.text


async def test_an_error_with_half_a_character_can_still_be_sent():
    result = await run_one(raising(ToolError("half \ud83d")))
    assert said(result) == {"error": "half �"}


async def test_invalid_arguments_are_an_error_and_the_tool_is_not_called():
    called = []

    @tool
    def add(a: int) -> None:
        called.append(a)

    result = await run_one(add, {"a": "one"})
    assert result.error == "invalid_arguments"
    assert "a: " in said(result)["error"]
    assert called == []


async def test_arguments_nested_ten_thousand_deep_are_invalid_and_no_crash():
    @tool
    def keep(data: dict[str, Any]) -> None: ...

    result = await run_one(keep, '{"data":' * 10_000 + "1" + "}" * 10_000)
    assert result.error == "invalid_arguments"


async def test_empty_arguments_are_none():
    assert (await run_one(returning("ok"), "")).content == "ok"


async def test_an_unknown_or_client_tool_never_runs_here():
    results = await run(call("c1", "nobody"), call("c2", "pick"), tools=[Tool("pick", "")])
    assert [result.error for result in results] == ["unknown_tool", "unknown_tool"]


# -- timeout and retries


async def test_a_tool_out_of_time_is_a_timeout():
    @tool(timeout=0.01)
    async def slow() -> None:
        await asyncio.Event().wait()

    result = await run_one(slow)
    assert result.error == "timeout"
    assert "0.01 s" in said(result)["error"]


async def test_a_sync_tool_out_of_time_is_left_behind_and_its_late_result_goes_nowhere():
    release, left = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def slow(ctx: ToolContext) -> str:
        release.wait()
        ctx.emit("late", 1)
        left.set()
        return "late"

    events = await run(call("c1", "slow"), tools=[slow])
    assert [event.error for event in events] == ["timeout"]
    release.set()
    await asyncio.to_thread(left.wait)
    await asyncio.sleep(0)


async def test_one_tools_timeout_is_not_its_siblings():
    @tool(timeout=0.01)
    async def slow() -> None:
        await asyncio.Event().wait()

    results = await run(call("c1", "slow"), call("c2", "give"), tools=[slow, returning("x")])
    assert [result.error for result in results] == ["timeout", None]


def failing(times: int, error: Exception, **options: Any) -> tuple[Tool, list[ToolContext]]:
    attempts: list[ToolContext] = []

    @tool(idempotent=True, **options)
    async def flaky(ctx: ToolContext) -> str:
        attempts.append(ctx)
        if len(attempts) <= times:
            raise error
        return f"attempt {ctx.attempt}"

    return flaky, attempts


async def test_a_failed_attempt_is_made_again():
    flaky, attempts = failing(2, ValueError("not yet"), retries=2)
    assert (await run_one(flaky)).content == "attempt 3"
    assert [ctx.attempt for ctx in attempts] == [1, 2, 3]
    assert len({ctx.idempotency_key for ctx in attempts}) == 1


async def test_the_last_attempts_error_is_the_result():
    flaky, attempts = failing(9, ValueError("not yet"), retries=2)
    assert said(await run_one(flaky)) == {"error": "not yet"}
    assert len(attempts) == 3


async def test_an_attempt_out_of_time_is_made_again():
    attempts = []

    @tool(idempotent=True, retries=1, timeout=0.01)
    async def slow_once() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            await asyncio.Event().wait()
        return "ok"

    assert (await run_one(slow_once)).content == "ok"


async def test_a_tools_own_answer_is_final():
    flaky, attempts = failing(9, ToolError("No such city."), retries=2)
    assert said(await run_one(flaky)) == {"error": "No such city."}
    assert len(attempts) == 1


async def test_the_idempotency_key_outlives_the_run():
    keys = []

    @tool
    async def note(ctx: ToolContext) -> None:
        keys.append(ctx.idempotency_key)

    await run_one(note, run_id="r1")
    await run_one(note, run_id="r2")
    await run_one(note, thread_id="t2")
    assert keys[0] == keys[1] != keys[2]


# -- long results


async def test_a_long_result_is_cut_for_the_model_and_whole_for_people():
    result = await run_one(returning("abcdefghij", max_output=4))
    assert result.content == "abcd\n[cut here: 6 of 10 bytes are not shown]"
    assert result.metadata == {"full": "abcdefghij"}
    assert result.error is None


async def test_a_cut_never_parts_a_character():
    result = await run_one(returning("aé€😀", max_output=5))
    assert result.content.startswith("aé\n")


@pytest.mark.parametrize("value", ["abcd", {"a": 1}])
async def test_a_result_that_fits_is_not_touched(value):
    result = await run_one(returning(value, max_output=7))
    assert result.metadata is None


async def test_json_is_cut_too():
    result = await run_one(returning({"a": "b" * 100}, max_output=10))
    assert result.content.startswith('{"a":"bbbb\n[cut here:')
    assert json.loads(result.metadata["full"]) == {"a": "b" * 100}


async def test_of_parts_the_text_is_cut_and_the_pictures_stay():
    result = await run_one(returning([TextPart("abcdef"), PARTS[1], TextPart("ghi")], max_output=7))
    first, picture, last = result.content
    assert (first, picture) == (TextPart("abcdef"), PARTS[1])
    assert last.text.startswith("g\n[cut here: 2 of 3")
    assert result.metadata == {"full": "abcdef\nghi"}


async def test_parts_that_fit_are_not_touched():
    result = await run_one(returning(PARTS, max_output=100))
    assert (result.content, result.metadata) == (tuple(PARTS), None)


# -- side by side


class Gates:
    """A tool whose calls wait until the test lets them go, and tell when they began."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.tools = [
            tool(name="wait")(self.wait),
            tool(name="alone", parallel_safe=False)(self.wait),
        ]

    async def wait(self, key: str, ctx: ToolContext) -> str:
        self.began.append(key)
        await self.gates.setdefault(key, asyncio.Event()).wait()
        return key

    def open(self, key: str) -> None:
        self.gates.setdefault(key, asyncio.Event()).set()

    def calls(self, *names: str) -> list[ToolCallPart]:
        return [call(f"c-{key}", name, json.dumps({"key": key})) for key, name in zip("abcdef", names)]  # noqa: B905


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_calls_run_side_by_side_and_results_stand_in_call_order():
    gates = Gates()
    told: list[str] = []

    async def drive() -> None:
        async for event in run_calls(
            gates.calls("wait", "wait", "wait"), ToolRegistry(gates.tools), context()
        ):
            told.append(event.tool_call_id)

    running = asyncio.create_task(drive())
    await settle()
    assert gates.began == ["a", "b", "c"]
    gates.open("b")
    gates.open("c")
    await settle()
    assert told == []  # quicker ones wait for their earlier sibling to be told
    gates.open("a")
    await running
    assert told == ["c-a", "c-b", "c-c"]


async def test_a_result_is_told_as_soon_as_its_earlier_siblings_are():
    gates = Gates()
    gates.open("a")
    events = run_calls(gates.calls("wait", "wait"), ToolRegistry(gates.tools), context())
    async with aclosing(events):
        first = await anext(events)
        assert first.tool_call_id == "c-a"
        gates.open("b")
        assert (await anext(events)).tool_call_id == "c-b"


async def test_a_call_that_is_not_parallel_safe_runs_alone_in_its_place():
    gates = Gates()
    calls = gates.calls("wait", "alone", "alone", "wait", "wait")
    running = asyncio.create_task(run(*calls, tools=gates.tools))
    seen = []
    for key in "abcde":
        await settle()
        seen.append("".join(gates.began))
        gates.open(key)
    results = await running
    assert seen == ["a", "ab", "abc", "abcde", "abcde"]
    assert [result.content for result in results] == list("abcde")


async def test_one_failing_call_does_not_cancel_its_siblings():
    gates = Gates()
    fails = raising(ValueError("no"))
    running = asyncio.create_task(run(*gates.calls("wait"), call("c2", "give"), tools=[*gates.tools, fails]))
    await settle()
    gates.open("a")
    assert [result.error for result in await running] == [None, "tool_error"]


async def test_an_answer_among_the_calls_is_told_in_its_place():
    answer = error_result("c2", "unknown_tool", "There is no such tool.")
    gives = returning("x")
    results = await run(call("c1", "give"), answer, call("c3", "give"), tools=[gives])
    assert [(result.tool_call_id, result.error) for result in results] == [
        ("c1", None),
        ("c2", "unknown_tool"),
        ("c3", None),
    ]
    assert [r.tool_call_id for r in await run(answer, tools=[gives])] == ["c2"]
    assert await run(tools=[gives]) == []


async def test_each_result_is_a_message_of_its_own():
    results = await run(call("c1", "give"), call("c2", "give"), tools=[returning("x")])
    assert len({result.message_id for result in results}) == 2


# -- progress


async def test_progress_comes_as_it_happens_and_while_siblings_run():
    gates = Gates()

    @tool
    async def dig(ctx: ToolContext) -> str:
        for depth in (1, 2):
            ctx.emit("depth", depth)
            await asyncio.sleep(0)
        return "dug"

    calls = [*gates.calls("wait"), call("c2", "dig")]
    events = run_calls(calls, ToolRegistry([*gates.tools, dig]), context())
    async with aclosing(events):
        for depth in (1, 2):
            assert await anext(events) == Custom("depth", {"toolCallId": "c2", "value": depth})
        gates.open("a")
        assert [event.tool_call_id async for event in events] == ["c-a", "c2"]


async def test_a_sync_tools_progress_comes_from_its_thread_before_its_result():
    @tool
    def dig(ctx: ToolContext) -> str:
        ctx.emit("depth", {"metres": 3})
        return "dug"

    first, second = await run(call("c1", "dig"), tools=[dig])
    assert first == Custom("depth", {"toolCallId": "c1", "value": {"metres": 3}})
    assert second.content == "dug"


async def test_progress_behind_the_result_is_no_news():
    kept: list[ToolContext] = []

    @tool
    async def keep(ctx: ToolContext) -> str:
        kept.append(ctx)
        return "kept"

    gates = Gates()
    events = run_calls(
        [*gates.calls("wait"), call("c2", "keep")], ToolRegistry([*gates.tools, keep]), context()
    )
    async with aclosing(events):
        pull = asyncio.create_task(anext(events))
        await settle()
        kept[0].emit("late", 1)
        gates.open("a")
        assert isinstance(await pull, ToolCallResult)
        assert all([isinstance(event, ToolCallResult) async for event in events])


# -- what a tool is told, and who is told of it before


async def test_a_tool_knows_its_run_thread_user_and_call():
    seen = []

    @tool
    async def look(ctx: ToolContext) -> None:
        seen.append(ctx)

    ctx = context(thread_id="t7", run_id="r7", user="ada")
    await run(call("c7", "look"), tools=[look], ctx=ctx)
    (got,) = seen
    assert (got.thread_id, got.run_id, got.tool_call_id, got.user) == ("t7", "r7", "c7", "ada")
    assert got.abort is ctx.abort
    assert got.attempt == 1


async def test_a_claim_is_kept_before_the_tool_starts_and_once_a_call():
    order = []

    async def claim(part: ToolCallPart, arguments: Any) -> None:
        await asyncio.sleep(0)
        order.append(("claim", part.id, dict(arguments)))

    @tool(idempotent=True, retries=1)
    async def flaky(n: int) -> str:
        order.append(("run", n))
        if len(order) == 2:
            raise ValueError("once more")
        return "ok"

    result = await run_one(flaky, '{"n": "5"}', on_claim=claim)
    assert result.content == "ok"
    # The claim holds what the model wrote, the tool gets what it takes.
    assert order == [("claim", "c1", {"n": "5"}), ("run", 5), ("run", 5)]


async def test_what_never_starts_is_never_claimed():
    claimed = []

    async def claim(part: ToolCallPart, arguments: Any) -> None:
        claimed.append(part.id)

    @tool
    async def add(a: int) -> int:
        return a

    await run(
        call("c1", "add", "{}"),
        call("c2", "nobody"),
        error_result("c3", "unknown_tool", "x"),
        call("c4", "add", '{"a": 1}'),
        tools=[add],
        ctx=context(on_claim=claim),
    )
    assert claimed == ["c4"]


async def test_a_tool_whose_claim_cannot_be_kept_does_not_start(caplog):
    started = []

    async def claim(part: ToolCallPart, arguments: Any) -> None:
        raise OSError("disk full")

    @tool
    async def act() -> None:
        started.append(1)

    result = await run_one(act, on_claim=claim)
    assert (result.error, started) == ("internal_error", [])
    assert "disk full" in caplog.text


# -- leaving early


async def test_whoever_stops_reading_ends_the_tools():
    ended = asyncio.Event()

    @tool
    async def work(ctx: ToolContext) -> None:
        ctx.emit("began", 1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    events = run_calls([call("c1", "work")], ToolRegistry([work]), context())
    assert isinstance(await anext(events), Custom)
    await events.aclose()
    assert ended.is_set()


async def test_parts_hold_nothing_that_a_database_cannot():
    parts = content_of([TextPart("a\x00b\ud800"), ImagePart("image/png", data="AAAA", name="\ud83d.png")])
    assert parts == (TextPart("a\ufffdb\ufffd"), ImagePart("image/png", data="AAAA", name="\ufffd.png"))


async def test_content_of_is_what_the_model_reads():
    assert content_of({"a": 1}) == '{"a":1}'


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.WARNING)
