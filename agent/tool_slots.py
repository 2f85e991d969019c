"""One call of a turn, from its arguments to its result: prepare, execute, finalize.

    prepare    find the tool, read the arguments, ask   unknown_tool, invalid_arguments, or what a middleware
               the middlewares                          gives instead
    execute    claim, then attempt after attempt        the tool's code, tool_error, timeout, internal_error
    finalize   the value as the model reads it, then    internal_error when it cannot be said in JSON
               as the middlewares leave it

Nothing a tool does ends anything but its own call. What the model should read is a value.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from agent.abort import Aborted
from agent.context import RunContext
from agent.errors import MiddlewareFailed, ToolError
from agent.events import Custom, Event, ToolCallResult
from agent.messages import ToolCallPart, ToolResultPart
from agent.middleware import Skip, ToolCall, Transform
from agent.nesting import Berth, Nest, Suspended
from agent.receipts import BEGUN
from agent.result_events import as_it_may_have_happened, result_event
from agent.results import content_of, cut_to, error_result, text_of
from agent.text import storable
from agent.tool_attempts import BROKEN, attempt_tool, failure
from agent.tools import InvalidArguments, Tool, ToolContext, ToolOutput, ToolRegistry, parse
from agent.wire.jsontext import dump, plain

log = logging.getLogger("agent.tool_calls")

ABORTED_BEFORE = "The run was stopped before this call began."
ABORTED_WITHIN = "The run was stopped while this call ran: it may have had its effect."


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


News = asyncio.Queue["Event | Slot"]
"""What the calls of a turn have to say; a slot stands behind the last of its own."""


class Slot:
    """One call of the turn, and what became of it. `given` is the result of one that does not run."""

    def __init__(
        self,
        call: ToolCallPart,
        tool: Tool | None,
        ctx: RunContext,
        hooks: ToolHooks,
        news: News,
        nest: Nest | None,
        given: ToolResultPart | None = None,
    ):
        self.call = call
        self.tool = tool
        self.ctx = ctx
        self.alone = tool is not None and not tool.parallel_safe
        self.nested = tool is not None and tool.inner is not None
        self.suspended: Suspended | None = None
        self.over = False  # whoever reads the news has read all of it
        self.task: asyncio.Task[None] | None = None
        self.result: ToolCallResult | None = None
        self.claimed = False
        self.muted = False
        self.stopped = False
        self._hooks = hooks
        self._news = news
        self._nest = nest
        self._given = given
        self._loop = asyncio.get_running_loop()

    @classmethod
    def of(
        cls,
        call: ToolCallPart | ToolResultPart,
        tools: ToolRegistry,
        ctx: RunContext,
        hooks: ToolHooks,
        news: News,
        nest: Nest | None = None,
    ) -> Slot:
        if isinstance(call, ToolCallPart):
            return cls(call, tools.get(call.name), ctx, hooks, news, nest)
        call = as_it_may_have_happened(call, ctx)
        slot = cls(ToolCallPart(call.tool_call_id, ""), None, ctx, hooks, news, None, call)
        slot.result = None if hooks is not NO_HOOKS else result_event(call, ctx)
        return slot

    def start(self) -> None:
        if self.result is None and not self.over:
            self.task = asyncio.create_task(self._work(), name=f"tool {self.call.name}")
        else:
            self.over = True

    def hold(self) -> None:
        """Do not begin it in this run."""
        self.over = True

    def cancel(self) -> asyncio.Task[None] | None:
        """Its task, which is told to end; None when there is none at work."""
        if self.task is None or self.task.done():
            return None
        self.stopped = True
        self.task.cancel()
        return self.task

    async def _work(self) -> None:
        try:
            done = await self._run()
            if not self.claimed:
                done = replace(done, result=as_it_may_have_happened(done.result, self.ctx))
            done = await self._finished(done)
        except Suspended as asked:
            self._put(asked.event(self.call.id))
            if self._nest is not None:
                self._nest.asked[self.call.id] = asked.interrupts
            self.suspended, self.muted = asked, True
            self._news.put_nowait(self)
            return
        except (Aborted, MiddlewareFailed):
            return  # the run ends, and says so of every call that has no result
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if self.stopped and isinstance(error, asyncio.CancelledError):
                raise
            # Nobody stopped us: the tool cancelled itself, or left by a way that is no error. A call without a
            # result would keep its run from ever ending.
            log.exception("tool %s: left without a result", self.call.name)
            done = _Done(error_result(self.call.id, "internal_error", BROKEN))
        if not self.muted or done.result.error is None:
            self.result = result_event(
                done.result, self.ctx, done.full, self.call.edited, done.transformed, done.beside
            )
        self.muted = True
        self._news.put_nowait(self)

    async def _finished(self, done: _Done) -> _Done:
        call = ToolCall(self.call, self.tool, done.arguments, self.claimed)
        try:
            result = await self._hooks.on_after_tool_call(call, done.result)
        except (Aborted, MiddlewareFailed):
            if self.claimed:
                return done  # what happened has happened
            raise
        instead = self.claimed and result.content != done.result.content
        return replace(done, result=result, full=done.full or text_of(done.result) if instead else done.full)

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
            # What goes on inside was claimed when it began.
            if self.ctx.on_claim is not None and (self._berth is None or self._berth.state is None):
                await self.ctx.on_claim(call, _as_object(parse(tool.json_text(text))))
        except InvalidArguments as error:
            return _Done(error_result(call.id, error.code, str(error)), transformed=transformed)
        except (Aborted, MiddlewareFailed):
            raise
        except Exception as error:
            # A hook's decision that makes no sense, or a claim that was not kept: nothing began, and the call gets
            # a result like any other.
            return _Done(failure(call, error, None), transformed=transformed)
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
                value = await attempt_tool(tool, arguments, self._tool_context(attempt))
            except Suspended:
                raise
            except ToolError as error:
                return _Done(failure(self.call, error, self._since(started)))
            # A tool that leaves the process is a tool that failed; the server stays.
            except (Exception, SystemExit) as error:
                if attempt > tool.retries:
                    return _Done(failure(self.call, error, self._since(started)))
                log.info("tool %s: attempt %d failed and is made again", tool.name, attempt, exc_info=True)
            else:
                return self._finalize(tool, value, self._since(started))
        raise AssertionError("unreachable: the last attempt returns")

    def _finalize(self, tool: Tool, value: Any, duration_ms: int) -> _Done:
        beside: Mapping[str, Any] = {}
        if isinstance(value, ToolOutput):
            beside = plain(value.metadata, storable)
            if value.error is not None:
                result = error_result(self.call.id, value.error, str(value.value), duration_ms=duration_ms)
                return _Done(result, beside=beside)
            value = value.value
        try:
            content = content_of(value)
        except Exception:
            # Tools return what they like, also things that fail when they are read.
            log.exception("tool %s: its result cannot be said in JSON", tool.name)
            return _Done(error_result(self.call.id, "internal_error", BROKEN, duration_ms=duration_ms))
        cut = cut_to(content, tool.max_output)
        return _Done(ToolResultPart(self.call.id, cut.content, None, duration_ms), cut.full, beside=beside)

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
            berth=self._berth,
        )

    @property
    def _berth(self) -> Berth | None:
        return Berth(self._nest, self.call.id, self._put) if self._nest is not None and self.nested else None

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

    def _put(self, event: Event) -> None:
        # Progress of a call that has its result, or of a run that has ended, is no news.
        if not self.muted:
            self._news.put_nowait(event)

    def aborted(self) -> ToolCallResult:
        begun = self.claimed or self.call.id in self.ctx.before.begun_calls
        return result_event(
            error_result(self.call.id, "aborted", ABORTED_WITHIN if begun else ABORTED_BEFORE),
            self.ctx,
            edited=self.call.edited,
            beside={BEGUN: True} if begun else {},
        )


@dataclass(frozen=True, slots=True)
class _Done:
    """`transformed` is the JSON text of the arguments that a middleware put in the place of the call's."""

    result: ToolResultPart
    full: str | None = None
    arguments: Mapping[str, Any] | None = None
    transformed: str | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
