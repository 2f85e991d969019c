"""Several calls in one turn, as whole runs: slow, fast, failing, hanging, huge and talkative ones."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from agent import Agent, AgentRun, ToolContext, ToolError, Transcript, tool
from agent import events as ev
from agent.messages import ImagePart, TextPart
from agent.providers.scripted import ScriptedProvider, Turn
from agent.wire import anthropic, openai_chat
from agent.wire.agui import decode_event, encode_event
from tests.agent.runs import ASKED, Told, context, play, said

HUGE = "x" * 5_000_000


def calls(*names: str) -> Turn:
    return Turn(calls=[(f"c{number}", name, {}) for number, name in enumerate(names, 1)])


async def batch(*tools: Any, **rest: Any) -> Told:
    return await play(calls(*(each.name for each in tools)), Turn("ok"), tools=tools, **rest)


def after(seconds: float, value: Any, name: str, meets: asyncio.Barrier | None = None, **options: Any) -> Any:
    async def work() -> Any:
        if meets:
            await meets.wait()
        await asyncio.sleep(seconds)
        if isinstance(value, Exception):
            raise value
        return value

    return tool(name=name, **options)(work)


async def test_a_slow_a_fast_a_failing_and_a_hanging_tool_in_one_batch():
    side_by_side = asyncio.Barrier(4)
    told = await batch(
        after(0.2, "slow", "slow", side_by_side),
        after(0, "fast", "fast", side_by_side),
        after(0.05, ToolError("It failed."), "fails", side_by_side),
        after(60, "never", "hangs", timeout=0.1),
        after(0.2, "done", "other", side_by_side),
        ctx=context(clock=time.monotonic),
    )
    assert [result.tool_call_id for result in told.results] == ["c1", "c2", "c3", "c4", "c5"]
    assert told.codes == [None, None, "tool_error", "timeout", None]
    durations = [result.duration_ms for result in told.results]
    assert durations[0] >= max(199, durations[1])
    assert told.stop_reason == "stop"


async def test_a_tool_that_runs_alone_does_so_among_the_others():
    running: list[str] = []
    beside: dict[str, list[str]] = {}

    def watched(name: str, **options: Any) -> Any:
        async def work() -> str:
            running.append(name)
            await asyncio.sleep(0.01)
            beside[name] = list(running)
            running.remove(name)
            return name

        return tool(name=name, **options)(work)

    told = await batch(
        watched("a"), watched("b"), watched("alone", parallel_safe=False), watched("c"), watched("d")
    )
    assert beside["alone"] == ["alone"]
    assert set(beside["a"]) | set(beside["b"]) == {"a", "b"}
    assert set(beside["c"]) | set(beside["d"]) == {"c", "d"}
    assert [result.content for result in told.results] == ["a", "b", "alone", "c", "d"]


async def test_retries_happen_beside_the_others():
    tries = []

    @tool(retries=2, idempotent=True)
    async def flaky(ctx: ToolContext) -> str:
        tries.append((ctx.attempt, ctx.idempotency_key))
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return "third time"

    told = await batch(flaky, after(0, "fast", "fast"))
    assert tries == [(1, "t1:c1"), (2, "t1:c1"), (3, "t1:c1")]
    assert [result.content for result in told.results] == ["third time", "fast"]


async def test_five_megabytes_reach_the_model_whole_or_cut_and_people_whole():
    told = await batch(after(0, HUGE, "huge"), after(0, HUGE, "cut", max_output=1000))
    whole, cut = told.results
    assert whole.content == HUGE
    assert len(cut.content) < 1100
    assert "4,999,000 of 5,000,000 bytes are not shown" in cut.content
    assert cut.metadata == {"full": HUGE}
    read = told.provider.requests[1].transcript
    assert [len(part.tool_results[0].content) < 1100 for part in read[2:]] == [False, True]
    assert decode_event(encode_event(cut)) == cut


async def test_a_picture_reaches_the_model_as_a_picture():
    picture = ImagePart("image/png", data="aGk=")
    told = await batch(after(0, [TextPart("Here:"), picture], "camera"), after(0, picture, "other"))
    assert [result.content for result in told.results] == [(TextPart("Here:"), picture), (picture,)]
    assert [decode_event(encode_event(result)) for result in told.results] == told.results
    request = told.provider.requests[1]
    shown = str(anthropic.encode_request(request)["messages"])
    assert shown.count("aGk=") == 2
    assert "image not shown" in str(openai_chat.encode_request(request)["messages"])


async def test_progress_comes_as_it_happens():
    """Each tool tells the next only when the last was heard: news that came in one heap would be waited for in vain."""
    heard = {id: [threading.Event() for _ in range(5)] for id in ("c1", "c2")}
    in_time: list[bool] = []

    @tool
    async def talks(ctx: ToolContext) -> str:
        for number in range(5):
            ctx.emit("progress", number)
            in_time.append(await asyncio.to_thread(heard["c1"][number].wait, 20))
        return "done"

    @tool
    def talks_in_a_thread(ctx: ToolContext) -> str:
        for number in range(5):
            ctx.emit("progress", number)
            in_time.append(heard["c2"][number].wait(20))
        return "done"

    provider = ScriptedProvider(calls("talks", "talks_in_a_thread"), Turn("ok"))
    run = AgentRun(Agent(provider, "m", [talks, talks_in_a_thread]), Transcript(), context())
    told: dict[str, list[int]] = {"c1": [], "c2": []}
    async for event in run.events([ASKED]):
        if isinstance(event, ev.Custom):
            id, number = event.value["toolCallId"], event.value["value"]
            told[id].append(number)
            heard[id][number].set()
    assert told == {"c1": list(range(5)), "c2": list(range(5))}
    assert in_time == [True] * 10


async def test_one_result_is_told_while_the_next_still_works_and_never_out_of_order():
    gate = asyncio.Event()

    async def wait() -> str:
        await gate.wait()
        return "late"

    tools = [after(0, "first", "first"), tool(name="second")(wait), after(0, "third", "third")]
    provider = ScriptedProvider(calls("first", "second", "third"), Turn("ok"))
    run = AgentRun(Agent(provider, "m", tools), Transcript(), context())
    told = []
    async for event in run.events([ASKED]):
        if isinstance(event, ev.ToolCallResult):
            told.append((event.tool_call_id, gate.is_set()))
            gate.set()
    assert told == [("c1", False), ("c2", True), ("c3", True)]


async def test_a_result_that_is_no_json_and_one_with_half_a_character_are_told():
    told = await batch(
        after(0, {"a": object()}, "odd"), after(0, {"t": "\ud83d"}, "half"), after(0, "ok\x00", "nul")
    )
    assert told.codes == ["internal_error", None, None]
    assert said(told.results[1]) == {"t": "\ufffd"}
    assert told.results[2].content == "ok\ufffd"
    assert all(str(encode_event(result)).encode() for result in told.results)
