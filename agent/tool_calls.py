"""Runs the calls of one turn: prepare, execute, finalize.

Rule 1: one result for each call, in call order. A quick call waits for its earlier siblings to be told;
progress (Custom) is told as it comes.
Rule 2: nothing a tool does ends anything but its own call. What the model should read is a value.
Rule 3: whoever leaves early (stop, closed reader) leaves nothing behind that runs, but for a thread or a task
that does not listen: its late result goes nowhere.

    prepare    find the tool, read the arguments, ask   unknown_tool, invalid_arguments, or what a middleware
               the middlewares                          gives instead
    execute    claim, then attempt after attempt        the tool's code, tool_error, timeout, internal_error
    finalize   the value as the model reads it, then    internal_error when it cannot be said in JSON
               as the middlewares leave it

What a raised exception tells the model:

    ToolError                                  its message and its code: the tool's answer
    ValueError, LookupError, RuntimeError,     its message, tool_error: words somebody chose; logged
    ArithmeticError, Exception and a few
    more, of exactly that class
    all others                                 a safe sentence, internal_error: a bug, or words of a library
                                               that may hold addresses and keys; logged with its trace
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from agent.context import Aborted, RunContext
from agent.errors import AgentError, MiddlewareFailed, ToolError
from agent.events import Custom, ToolCallResult
from agent.messages import ToolCallPart, ToolResultPart
from agent.middleware import Skip, ToolCall, Transform
from agent.results import content_of, cut_to, error_result
from agent.text import storable
from agent.tools import InvalidArguments, Tool, ToolContext, ToolRegistry, parse
from agent.wire.jsontext import dump, plain

log = logging.getLogger(__name__)

GRACE = 0.25
"""Seconds that a cancelled tool gets to tidy up before it is left behind."""

BROKEN = "The tool failed because of an internal error."
ABORTED_BEFORE = "The run was stopped before this call began."
ABORTED_WITHIN = "The run was stopped while this call ran: it may have had its effect."

WORDED = frozenset(
    {
        Exception,
        RuntimeError,
        ValueError,
        LookupError,
        ArithmeticError,
        ZeroDivisionError,
        OverflowError,
        PermissionError,
        FileNotFoundError,
        ConnectionError,
        TimeoutError,
    }
)

_left_behind: set[asyncio.Task[None]] = set()


class ToolHooks(Protocol):
    """What has a say in a call: the run's middlewares."""

    async def on_before_tool_call(self, call: ToolCall) -> Transform | Skip | None: ...
    async def on_after_tool_call(self, call: ToolCall, result: ToolResultPart) -> ToolResultPart: ...


class _NoHooks:
    async def on_before_tool_call(self, call: ToolCall) -> None:
        return None

    async def on_after_tool_call(self, call: ToolCall, result: ToolResultPart) -> ToolResultPart:
        return result


NO_HOOKS: ToolHooks = _NoHooks()


async def run_calls(
    calls: Sequence[ToolCallPart | ToolResultPart],
    tools: ToolRegistry,
    ctx: RunContext,
    hooks: ToolHooks = NO_HOOKS,
) -> AsyncGenerator[Custom | ToolCallResult, None]:
    """A result among the calls stands in the place of one that does not run.

    When the run is stopped, it tells the results that are left and raises Aborted.
    """
    news: asyncio.Queue[Custom | None] = asyncio.Queue()
    slots = [_Slot.of(call, tools, ctx, hooks, news) for call in calls]
    told = 0
    try:
        for wave in _waves(slots):
            for slot in wave:
                slot.start()
            while any(slot.result is None for slot in wave):
                with ctx.abort.interrupts():
                    event = await news.get()
                if event is not None:
                    yield event
                while told < len(slots) and (result := slots[told].result) is not None:
                    told += 1
                    yield result
        for slot in slots[told:]:
            assert slot.result is not None
            yield slot.result
    except Aborted:
        await _stop(slots)
        for slot in slots[told:]:
            # What finished in time is told as it is: a stop must not hide what has already happened.
            yield slot.result or slot.aborted()
        raise
    finally:
        await _stop(slots)


def _waves(slots: Sequence[_Slot]) -> Iterator[list[_Slot]]:
    """Calls that may run side by side; one that is not parallel_safe is alone."""
    wave: list[_Slot] = []
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


async def _stop(slots: Sequence[_Slot]) -> None:
    running = [slot.task for slot in slots if slot.task is not None and not slot.task.done()]
    for slot in slots:
        slot.muted = True
    if not running:
        return
    for task in running:
        task.cancel()
        _left_behind.add(task)
        task.add_done_callback(_left_behind.discard)
    await asyncio.wait(running, timeout=GRACE)


class _Slot:
    """One call of the turn, and what became of it. `given` is the result of one that does not run."""

    def __init__(
        self,
        call: ToolCallPart,
        tool: Tool | None,
        ctx: RunContext,
        hooks: ToolHooks,
        news: asyncio.Queue[Custom | None],
        given: ToolResultPart | None = None,
    ):
        self.call = call
        self.tool = tool
        self.ctx = ctx
        self.alone = tool is not None and not tool.parallel_safe
        self.task: asyncio.Task[None] | None = None
        self.result: ToolCallResult | None = None
        self.claimed = False
        self.muted = False
        self._hooks = hooks
        self._news = news
        self._given = given
        self._loop = asyncio.get_running_loop()

    @classmethod
    def of(
        cls,
        call: ToolCallPart | ToolResultPart,
        tools: ToolRegistry,
        ctx: RunContext,
        hooks: ToolHooks,
        news: asyncio.Queue[Custom | None],
    ) -> _Slot:
        if isinstance(call, ToolCallPart):
            return cls(call, tools.get(call.name), ctx, hooks, news)
        slot = cls(ToolCallPart(call.tool_call_id, ""), None, ctx, hooks, news, call)
        slot.result = None if hooks is not NO_HOOKS else result_event(call, ctx)
        return slot

    def start(self) -> None:
        if self.result is None:
            self.task = asyncio.create_task(self._work(), name=f"tool {self.call.name}")

    async def _work(self) -> None:
        try:
            done = await self._finished(await self._run())
        except asyncio.CancelledError:
            if self.muted:
                raise
            # Nobody stopped us: the tool cancelled itself.
            log.exception("tool %s: cancelled itself", self.call.name)
            done = _Done(error_result(self.call.id, "internal_error", BROKEN))
        except (Aborted, MiddlewareFailed):
            return  # the run ends, and says so of every call that has no result
        if not self.muted or done.result.error is None:
            self.result = result_event(done.result, self.ctx, done.full, self.call.edited, done.transformed)
        self.muted = True
        self._news.put_nowait(None)

    async def _finished(self, done: _Done) -> _Done:
        call = ToolCall(self.call, self.tool, done.arguments, self.claimed)
        try:
            return replace(done, result=await self._hooks.on_after_tool_call(call, done.result))
        except (Aborted, MiddlewareFailed):
            if self.claimed:
                return done  # what happened has happened
            raise

    async def _run(self) -> _Done:
        call, tool = self.call, self.tool
        if self._given is not None:
            return _Done(self._given)
        if tool is None or tool.execute is None:
            return _Done(error_result(call.id, "unknown_tool", f"There is no tool {call.name[:64]!r}."))
        text, transformed = call.used_arguments, None
        try:
            arguments = tool.read(text)
            match await self._hooks.on_before_tool_call(ToolCall(call, tool, arguments)):
                case Skip(result, error):
                    return replace(self._skipped(result, error), arguments=arguments)
                case Transform(instead):
                    text = transformed = dump(plain(instead))
                    arguments = tool.read(text)
            if self.ctx.on_claim is not None:
                await self.ctx.on_claim(call, _as_object(parse(tool.json_text(text))))
        except InvalidArguments as error:
            return _Done(error_result(call.id, error.code, str(error)), transformed=transformed)
        except (Aborted, MiddlewareFailed):
            raise
        except Exception as error:
            return _Done(_failure(call, error, None), transformed=transformed)
        self.claimed = True
        return replace(await self._execute(tool, arguments), arguments=arguments, transformed=transformed)

    def _skipped(self, result: Any, error: str | None) -> _Done:
        if error is not None:
            return _Done(error_result(self.call.id, error, str(result)))
        return _Done(ToolResultPart(self.call.id, content_of(result)))

    async def _execute(self, tool: Tool, arguments: Mapping[str, Any]) -> _Done:
        started = self.ctx.clock()
        for attempt in range(1, tool.retries + 2):
            try:
                value = await _attempt(tool, arguments, self._tool_context(attempt))
            except ToolError as error:
                return _Done(_failure(self.call, error, self._since(started)))
            # A tool that leaves the process is a tool that failed; the server stays.
            except (Exception, SystemExit) as error:
                if attempt > tool.retries:
                    return _Done(_failure(self.call, error, self._since(started)))
                log.info("tool %s: attempt %d failed and is made again", tool.name, attempt, exc_info=True)
            else:
                return self._finalize(tool, value, self._since(started))
        raise AssertionError("unreachable: the last attempt returns")

    def _finalize(self, tool: Tool, value: Any, duration_ms: int) -> _Done:
        try:
            content = content_of(value)
        except Exception:
            log.exception("tool %s: its result cannot be said in JSON", tool.name)
            return _Done(error_result(self.call.id, "internal_error", BROKEN, duration_ms=duration_ms))
        cut = cut_to(content, tool.max_output)
        return _Done(ToolResultPart(self.call.id, cut.content, None, duration_ms), cut.full)

    def _since(self, started: float) -> int:
        return round((self.ctx.clock() - started) * 1000)

    def _tool_context(self, attempt: int) -> ToolContext:
        ctx = self.ctx
        return ToolContext(
            thread_id=ctx.thread_id,
            run_id=ctx.run_id,
            tool_call_id=self.call.id,
            user=ctx.user,
            abort=ctx.abort,
            tell=self._tell,
            attempt=attempt,
        )

    def _tell(self, name: str, value: Any) -> None:
        value = plain(value, storable)
        event = Custom(name=storable(name), value={"toolCallId": self.call.id, "value": value})
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._put(event)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: Custom) -> None:
        # Progress of a call that has its result, or of a run that has ended, is no news.
        if not self.muted:
            self._news.put_nowait(event)

    def aborted(self) -> ToolCallResult:
        text = ABORTED_WITHIN if self.claimed else ABORTED_BEFORE
        return result_event(error_result(self.call.id, "aborted", text), self.ctx, edited=self.call.edited)


@dataclass(frozen=True, slots=True)
class _Done:
    """`transformed` is the JSON text of the arguments that a middleware put in the place of the call's."""

    result: ToolResultPart
    full: str | None = None
    arguments: Mapping[str, Any] | None = None
    transformed: str | None = None


def result_event(
    result: ToolResultPart,
    ctx: RunContext,
    full: str | None = None,
    edited: str | None = None,
    transformed: str | None = None,
) -> ToolCallResult:
    """`metadata["full"]` is the whole text of a result of which the model gets a part, `editedArguments` what a
    person made of the call's arguments, `transformedArguments` what a middleware did."""
    metadata = {"full": full, "editedArguments": edited, "transformedArguments": transformed}
    return ToolCallResult(
        message_id=ctx.new_id(),
        tool_call_id=result.tool_call_id,
        content=result.content,
        error=result.error,
        duration_ms=result.duration_ms,
        metadata={key: value for key, value in metadata.items() if value is not None} or None,
    )


class _TimedOut(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"The tool gave no answer within {seconds:g} s.")


async def _attempt(tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
    assert tool.execute is not None
    execute = partial(tool.execute, arguments, ctx)
    try:
        async with asyncio.timeout(tool.timeout) as limit:
            value = await _in_thread(execute) if tool.blocking else execute()
            return await value if inspect.isawaitable(value) else value
    except TimeoutError as error:
        if limit.expired():
            raise _TimedOut(tool.timeout or 0) from error
        raise


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Like `asyncio.to_thread`, but not in the shared pool.

    A blocked tool would hold a worker of that pool for good, and a few of them would keep the whole process
    from so much as resolving a host name. A daemon thread does not keep the process from ending either.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(work)
        except BaseException as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=run, name="tool", daemon=True).start()
    value, error = await future
    if error is not None:
        raise error
    return value


def _failure(call: ToolCallPart, error: BaseException, duration_ms: int | None) -> ToolResultPart:
    code, text = "internal_error", BROKEN
    if isinstance(error, AgentError):
        code, text = error.code, str(error)
    elif isinstance(error, _TimedOut):
        code, text = "timeout", str(error)
        log.warning("tool %s: %s", call.name, text)
    elif _is_worded(error):
        code, text = "tool_error", str(error)
        log.warning("tool %s raised", call.name, exc_info=error)
    else:
        log.error("tool %s: a bug", call.name, exc_info=error)
    return error_result(call.id, code, text, duration_ms=duration_ms)


def _is_worded(error: BaseException) -> bool:
    # An OSError that the system made holds a number and often a path; one that a tool made holds its words.
    return type(error) in WORDED and bool(str(error)) and getattr(error, "errno", None) is None


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
