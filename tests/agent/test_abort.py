"""Stop: at every place a run can be caught in, and that it touches nothing but the run."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from agent import AbortSignal, Agent, AgentRun, ToolContext, Transcript, run_agent, tool
from agent import events as ev
from agent import tool_calls as module_under_test
from agent.abort import Aborted
from agent.errors import ProviderError
from agent.providers.scripted import ScriptedProvider, Turn
from tests.agent.runs import ASKED, Told, assistant, call, context, drive, said
from tests.agent.verify import verify_run


class Stopped:
    """A run in a task of its own, so that a test can stop it from outside."""

    def __init__(self, *turns: Turn, tools: Any = (), transcript: Any = (), provider: Any = None) -> None:
        self.provider = provider or ScriptedProvider(*turns)
        self.abort = AbortSignal()
        self.events: list[ev.Event] = []
        self.came = asyncio.Condition()
        self.run = AgentRun(
            Agent(self.provider, "m", tools), Transcript(tuple(transcript)), context(abort=self.abort)
        )
        self.task = asyncio.create_task(self._drive())

    async def _drive(self) -> Told:
        async for event in self.run.events([ASKED]):
            async with self.came:
                self.events.append(event)
                self.came.notify_all()
        verify_run(self.events)
        return Told(self.events, self.run.transcript, self.provider)

    async def until(self, kind: type) -> None:
        async with self.came:
            await self.came.wait_for(lambda: any(isinstance(event, kind) for event in self.events))

    async def told(self) -> Told:
        told = await self.task
        assert self.task.cancelling() == 0
        return told


def check_cancelled(told: Told) -> None:
    assert isinstance(told.end, ev.RunFinished)
    assert (told.end.outcome, told.end.stop_reason) == (ev.Cancelled(), "cancelled")


class Hanging:
    """A provider that says `script` and then nothing more, for ever; `closed` when its connection is."""

    name = "hanging"

    def __init__(self, *script: Any) -> None:
        self.script = script
        self.waiting = asyncio.Event()
        self.closed = asyncio.Event()

    async def stream(self, request):
        try:
            for event in self.script:
                yield event
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            self.closed.set()


TEXT = (ev.TextMessageStart("id1"), ev.TextMessageContent("id1", "It is "))


# -- where a stop may come


async def test_a_run_that_is_stopped_before_it_starts_asks_no_model():
    ctx = context()
    ctx.abort.abort()
    provider = ScriptedProvider(Turn("a"))
    told = await drive(Agent(provider, "m"), ctx=ctx)
    check_cancelled(told)
    assert (provider.requests, told.turns) == ([], 0)
    assert told.transcript == Transcript((ASKED,))  # what the person wrote stays


async def test_stopped_before_the_first_token():
    provider = Hanging()
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort("enough")
    told = await run.told()
    check_cancelled(told)
    assert provider.closed.is_set()
    assert told.told_reasons == [None]
    assert told.transcript == Transcript((ASKED,))
    assert run.abort.reason == "enough"


async def test_stopped_in_text_keeps_what_was_said():
    provider = Hanging(*TEXT)
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert provider.closed.is_set()
    assert (told.transcript[-1].text, told.reasons) == ("It is ", [None])
    assert [type(event) for event in told.events[-3:]] == [ev.TextMessageEnd, ev.StepFinished, ev.RunFinished]


async def test_stopped_in_a_thought():
    provider = Hanging(ev.ReasoningStart("id1-reasoning-1"), ev.ReasoningMessageStart("id1-reasoning-1"))
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort()
    check_cancelled(await run.told())


async def test_stopped_in_the_arguments_of_a_call():
    provider = Hanging(ev.ToolCallStart("c1", "work", "id1"), ev.ToolCallArgs("c1", '{"te'))
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert told.codes == ["aborted"]


async def test_stopped_while_the_reader_reads():
    provider = Hanging(*TEXT)
    ctx = context()

    def stop(event: ev.Event) -> None:
        if isinstance(event, ev.TextMessageContent):
            ctx.abort.abort()

    told = await drive(Agent(provider, "m"), ctx=ctx, on_event=stop)
    check_cancelled(told)
    assert not provider.waiting.is_set()
    assert provider.closed.is_set()


async def test_stopped_in_a_tool():
    ended = asyncio.Event()

    @tool
    async def work(ctx: ToolContext) -> None:
        ctx.emit("began", 1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    run = Stopped(Turn("a", calls=[("c1", "work", {})]), tools=[work])
    await run.until(ev.Custom)
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert ended.is_set()
    assert told.codes == ["aborted"]
    assert "may have had its effect" in said(told.results[0])["error"]
    assert told.reasons == ["tool_calls"]  # that turn was whole


async def test_stopped_in_a_sync_tool_leaves_it_behind_and_ignores_its_late_result():
    release, left = threading.Event(), threading.Event()

    @tool
    def work(ctx: ToolContext) -> str:
        ctx.emit("began", 1)
        release.wait()
        ctx.emit("late", ctx.abort.aborted)
        left.set()
        return "late"

    run = Stopped(Turn(calls=[("c1", "work", {})]), tools=[work])
    await run.until(ev.Custom)
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert told.codes == ["aborted"]
    release.set()
    await asyncio.to_thread(left.wait)
    await asyncio.sleep(0)
    assert len(told.of(ev.Custom)) == 1


async def test_stopped_among_calls_tells_what_is_done_what_was_begun_and_what_was_not():
    @tool
    async def quick() -> str:
        return "done"

    @tool
    async def work(ctx: ToolContext) -> None:
        await asyncio.sleep(0)
        ctx.emit("began", 1)
        await asyncio.Event().wait()

    @tool(parallel_safe=False)
    async def later() -> None:
        raise AssertionError("never begun")

    calls = [("c1", "work", {}), ("c2", "quick", {}), ("c3", "later", {}), ("c4", "nobody", {})]
    run = Stopped(Turn(calls=calls), tools=[quick, work, later])
    await run.until(ev.Custom)
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert told.codes == ["aborted", None, "aborted", "unknown_tool"]
    assert told.results[1].content == "done"  # waiting for its sibling, but done: a stop does not hide that
    assert "while this call ran" in said(told.results[0])["error"]
    assert "before this call began" in said(told.results[2])["error"]


async def test_a_tool_that_finishes_its_work_when_told_to_stop_has_its_result_told():
    @tool
    async def careful(ctx: ToolContext) -> str:
        ctx.emit("began", 1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "half of it is written"
        raise AssertionError

    run = Stopped(Turn(calls=[("c1", "careful", {})]), tools=[careful])
    await run.until(ev.Custom)
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert (told.results[0].content, told.results[0].error) == ("half of it is written", None)


async def test_a_tool_that_fails_because_it_is_stopped_was_stopped():
    @tool
    async def touchy(ctx: ToolContext) -> None:
        ctx.emit("began", 1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("how rude") from None

    run = Stopped(Turn(calls=[("c1", "touchy", {})]), tools=[touchy])
    await run.until(ev.Custom)
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert told.codes == ["aborted"]


async def test_a_tool_that_does_not_listen_is_left_behind(monkeypatch):
    monkeypatch.setattr(module_under_test, "GRACE", 0.01)
    release = asyncio.Event()

    @tool
    async def deaf(ctx: ToolContext) -> str:
        ctx.emit("began", 1)
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    run = Stopped(Turn(calls=[("c1", "deaf", {})]), tools=[deaf])
    await run.until(ev.Custom)
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert told.codes == ["aborted"]
    left = set(module_under_test._left_behind)
    assert len(left) == 1
    release.set()
    await asyncio.wait(left)
    assert len(told.results) == 1


async def test_stopped_while_a_claim_is_kept():
    claiming = asyncio.Event()
    started = []

    async def claim(part: Any, arguments: Any) -> None:
        claiming.set()
        await asyncio.Event().wait()

    @tool
    async def work() -> None:
        started.append(1)

    ctx = context(on_claim=claim)
    running = asyncio.create_task(
        drive(Agent(ScriptedProvider(Turn(calls=[("c1", "work", {})])), "m", [work]), ctx=ctx)
    )
    await claiming.wait()
    ctx.abort.abort()
    told = await running
    check_cancelled(told)
    assert "before this call began" in said(told.results[0])["error"]
    assert started == []


async def test_stopped_between_turns_makes_no_further_one():
    @tool
    async def quick() -> str:
        return "done"

    provider = ScriptedProvider(Turn(calls=[("c1", "quick", {})]), Turn("never"))
    ctx = context()

    def stop(event: ev.Event) -> None:
        if isinstance(event, ev.ToolCallResult):
            ctx.abort.abort()

    told = await drive(Agent(provider, "m", [quick]), ctx=ctx, on_event=stop)
    check_cancelled(told)
    assert len(provider.requests) == 1
    assert told.codes == [None]


async def test_stopped_between_a_turn_and_its_tools_begins_none():
    started = []

    @tool
    async def work() -> None:
        started.append(1)

    ctx = context()

    def stop(event: ev.Event) -> None:
        if isinstance(event, ev.StepFinished):
            ctx.abort.abort()

    provider = ScriptedProvider(Turn(calls=[("c1", "work", {})]))
    told = await drive(Agent(provider, "m", [work]), ctx=ctx, on_event=stop)
    check_cancelled(told)
    assert (started, told.codes) == ([], ["aborted"])
    assert "before this call began" in said(told.results[0])["error"]


async def test_a_stop_that_comes_when_all_is_said_changes_nothing():
    ctx = context()

    def stop(event: ev.Event) -> None:
        if isinstance(event, ev.StepFinished):
            ctx.abort.abort()

    told = await drive(Agent(ScriptedProvider(Turn("Done.")), "m"), ctx=ctx, on_event=stop)
    assert told.stop_reason == "stop"


async def test_twice_is_once():
    provider = Hanging(*TEXT)
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort("first")
    run.abort.abort("second")
    check_cancelled(await run.told())
    run.abort.abort("third")
    assert run.abort.reason == "first"


class Met(AbortSignal):
    """A signal that two threads meet in, behind whatever asks whether it was given already."""

    def __init__(self) -> None:
        self.gate, self.reasons = threading.Barrier(2), []
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "reason" and value:
            self.reasons.append(value)
            with suppress(threading.BrokenBarrierError):
                self.gate.wait(0.05)


def test_of_two_threads_at_once_one_stops_it():
    signal = Met()
    threads = [threading.Thread(target=signal.abort, args=(reason,)) for reason in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert signal.reasons == [signal.reason]


async def test_stopped_from_another_thread():
    provider = Hanging(*TEXT)
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    await asyncio.to_thread(run.abort.abort)
    check_cancelled(await run.told())


async def test_a_tool_may_stop_its_own_run():
    @tool
    async def enough(ctx: ToolContext) -> str:
        ctx.abort.abort("the tool had enough")
        return "stopped it"

    told = await drive(Agent(ScriptedProvider(Turn(calls=[("c1", "enough", {})])), "m", [enough]))
    check_cancelled(told)
    assert told.results[0].content == "stopped it"


async def test_a_provider_that_stops_its_own_run_does_not_cancel_its_reader():
    ctx = context()

    class Quitter:
        name = "quitter"

        async def stream(self, request):
            yield TEXT[0]
            ctx.abort.abort()
            yield TEXT[1]
            yield ev.TurnEnd("stop")

    told = await drive(Agent(Quitter(), "m"), ctx=ctx, on_event=lambda event: None)
    check_cancelled(told)


async def test_the_next_run_on_a_stopped_transcript_goes_on():
    provider = Hanging(ev.ToolCallStart("c1", "work", "id1"), ev.ToolCallArgs("c1", '{"te'))
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort()
    stopped = await run.told()
    told = await drive(Agent(ScriptedProvider(Turn("ok")), "m"), stopped.transcript, input=[])
    assert (told.stop_reason, told.results) == ("stop", [])


async def test_an_old_calls_tool_that_is_stopped_is_answered():
    ctx = context()
    ctx.abort.abort()
    left = [ASKED, assistant("m1", call("c1"), reason="tool_calls")]
    told = await drive(
        Agent(ScriptedProvider(), "m", [tool(name="echo")(lambda: None)]), left, input=[], ctx=ctx
    )
    check_cancelled(told)
    assert told.codes == ["aborted"]


# -- a stop and something else at once


async def test_a_provider_that_turns_a_stop_into_its_own_error_is_stopped_all_the_same():
    class Clumsy(Hanging):
        async def stream(self, request):
            try:
                async for event in super().stream(request):
                    yield event
            except asyncio.CancelledError:
                raise ProviderError("The connection broke.") from None

    provider = Clumsy(*TEXT)
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort()
    check_cancelled(await run.told())


async def test_a_provider_that_swallows_a_stop_is_stopped_all_the_same():
    class Stubborn(Hanging):
        async def stream(self, request):
            try:
                async for event in super().stream(request):
                    yield event
            except asyncio.CancelledError:
                pass
            yield ev.TextMessageContent("id1", "and another thing")
            yield ev.TurnEnd("stop")

    provider = Stubborn(*TEXT)
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort()
    told = await run.told()
    check_cancelled(told)
    assert told.text == "It is "


async def test_a_connection_that_fails_to_close_does_not_turn_a_stop_into_an_error():
    class Sticky(Hanging):
        async def stream(self, request):
            try:
                async for event in super().stream(request):
                    yield event
            finally:
                raise OSError("could not close")

    provider = Sticky(*TEXT)
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort()
    check_cancelled(await run.told())


async def test_a_connection_that_fails_to_close_behind_a_reader_does_not_either():
    class Sticky(Hanging):
        async def stream(self, request):
            try:
                async for event in super().stream(request):
                    yield event
            finally:
                raise OSError("could not close")

    ctx = context()

    def stop(event: ev.Event) -> None:
        if isinstance(event, ev.TextMessageContent):
            ctx.abort.abort()

    check_cancelled(await drive(Agent(Sticky(*TEXT), "m"), ctx=ctx, on_event=stop))


# -- what is not a stop


async def test_a_cancelled_task_is_cancelled_and_closes_the_connection():
    provider = Hanging(*TEXT)
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.task
    assert provider.closed.is_set()
    assert not any(ev.is_terminal(event) for event in run.events)


async def test_a_cancelled_task_ends_its_tools():
    ended = asyncio.Event()

    @tool
    async def work(ctx: ToolContext) -> None:
        ctx.emit("began", 1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    run = Stopped(Turn(calls=[("c1", "work", {})]), tools=[work])
    await run.until(ev.Custom)
    run.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.task
    assert ended.is_set()


async def test_a_stop_and_a_cancellation_at_once_are_a_cancellation():
    provider = Hanging(*TEXT)
    run = Stopped(provider=provider)
    await provider.waiting.wait()
    run.abort.abort()
    run.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.task
    assert provider.closed.is_set()


@pytest.mark.parametrize("after", [ev.RunStarted, ev.StepStarted, ev.TextMessageContent])
async def test_a_reader_that_leaves_closes_the_connection(after):
    provider = Hanging(*TEXT)
    events = run_agent(Agent(provider, "m"), Transcript(), context(), input=[ASKED])
    async for event in events:
        if isinstance(event, after):
            break
    await events.aclose()
    assert provider.closed.is_set() or after is not ev.TextMessageContent


async def test_a_reader_that_leaves_ends_the_tools():
    ended = asyncio.Event()

    @tool
    async def work(ctx: ToolContext) -> None:
        ctx.emit("began", 1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    provider = ScriptedProvider(Turn(calls=[("c1", "work", {})]))
    events = run_agent(Agent(provider, "m", [work]), Transcript(), context(), input=[ASKED])
    async for event in events:
        if isinstance(event, ev.Custom):
            break
    await events.aclose()
    assert ended.is_set()


async def test_the_reader_is_never_cancelled_by_a_stop():
    # The reader waits in the same task as the run: a stop that comes then must leave it alone.
    ctx = context()
    events = run_agent(Agent(Hanging(*TEXT), "m"), Transcript(), ctx, input=[ASKED])
    kinds = []
    async for event in events:
        kinds.append(type(event))
        if isinstance(event, ev.TextMessageContent):
            asyncio.get_running_loop().call_soon(ctx.abort.abort)
            for _ in range(5):
                await asyncio.sleep(0)  # the reader's own wait, with the stop in the middle of it
    assert kinds[-1] is ev.RunFinished


async def test_each_event_may_be_pulled_from_another_task():
    ctx = context()
    provider = Hanging(*TEXT)
    events = run_agent(Agent(provider, "m"), Transcript(), ctx, input=[ASKED])
    kinds: list[type] = []

    async def pull() -> None:
        kinds.append(type(await anext(events)))

    while ev.TextMessageContent not in kinds:
        await asyncio.create_task(pull())
    waiting = asyncio.create_task(pull())
    await provider.waiting.wait()
    ctx.abort.abort()
    await waiting
    while kinds[-1] is not ev.RunFinished:
        await asyncio.create_task(pull())
    with pytest.raises(StopAsyncIteration):
        await anext(events)


# -- the signal itself


async def test_a_wait_under_a_given_signal_does_not_begin():
    signal = AbortSignal()
    signal.abort()
    with pytest.raises(Aborted), signal.interrupts():
        raise AssertionError("not reached")


async def test_a_wait_outside_is_not_ended():
    signal = AbortSignal()
    gate = asyncio.Event()
    asyncio.get_running_loop().call_soon(signal.abort)
    asyncio.get_running_loop().call_later(0.01, gate.set)
    await gate.wait()
    assert signal.aborted


async def test_one_signal_ends_many_waits():
    signal = AbortSignal()
    waiting = [asyncio.create_task(signal.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    signal.abort()
    await asyncio.gather(*waiting)


async def test_a_wait_that_was_over_in_time_is_not_ended_later():
    signal = AbortSignal()
    done = asyncio.get_running_loop().create_future()

    async def work() -> str:
        with signal.interrupts():
            await done
        await asyncio.sleep(0)
        return "went on"

    working = asyncio.create_task(work())
    await asyncio.sleep(0)
    done.set_result(
        None
    )  # the task is to go on in this very step, and leaves the wait before the stop gets to it
    await asyncio.sleep(0)
    signal.abort()
    assert await working == "went on"


async def test_errors_in_a_wait_pass_through():
    with pytest.raises(LookupError), AbortSignal().interrupts():
        raise LookupError
