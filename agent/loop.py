"""The loop: what waits. It decides nothing; `steps.py` does.

`run_agent` yields a run's events: RunStarted, then turn after turn and the results of their calls, then
exactly one RunFinished or RunError, and nothing behind it. Whatever opens is closed before that, also when
the provider fails or somebody stops the run, and every call that was told gets exactly one result, or is one of
those that the run says it waits for.

The run folds each event before it tells it, so its transcript is what its reader can fold, and what the model
reads next. Three things differ from what was given:

    a call id that is there already, or none         gets a fresh one (some servers say `call_0` every turn)
    calls of a turn that may not call                are dropped: not told, not kept
    old calls that somebody spoke over               have a result in what the model reads (`close_old_calls`);
                                                     those of the last turn have one that is told

An agent without middlewares pays nothing for those of others: its events do not pass through the stack.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import assert_never

from agent.abort import Aborted
from agent.agents import Agent
from agent.approvals import Resolution, arguments_of
from agent.call_ids import CallIds
from agent.closing import calls_left, close_old_calls, closing_answers, opening_answers
from agent.context import RunContext
from agent.endings import Endings
from agent.errors import MiddlewareFailed
from agent.events import Custom, Event, ModelUsage, RunError, RunFinished, RunStarted
from agent.leave import Leave
from agent.messages import Message, ToolResultPart, Transcript, open_calls
from agent.middleware import ToolCall, TurnConfig
from agent.model_turns import ModelTurn
from agent.nesting import Nest, states_of
from agent.output import Output, OutputType
from agent.providers.base import is_native
from agent.receipts import at_work, receipt, with_receipt
from agent.reducer import apply
from agent.result_events import as_it_may_have_happened, result_event
from agent.stack import MiddlewareStack
from agent.steps import (
    Answer,
    CallModel,
    Finish,
    RunTools,
    Step,
    Wait,
    behind_words,
    last_turn,
    next_step,
)
from agent.tally import Tally
from agent.tool_calls import run_calls
from agent.tool_slots import NO_HOOKS
from agent.tools import ToolRegistry
from agent.turns import Turn
from agent.verdicts import Judge


async def run_agent(
    agent: Agent,
    transcript: Transcript,
    ctx: RunContext,
    *,
    input: Sequence[Message] = (),
    resolutions: Sequence[Resolution] = (),
    client_results: Sequence[ToolResultPart] = (),
    output: OutputType | None = None,
) -> AsyncGenerator[Event, None]:
    """Answer the transcript, with `input` behind it. Close it (`aclosing`) when you may leave early.

    `resolutions` are people's answers about calls that are open, checked by the application before
    (`check_resolutions`); `client_results` what a client sends for its own. `output` is the form that the run's
    result has to have (`output.py`).
    """
    run = AgentRun(agent, transcript, ctx, resolutions=resolutions, output=output)
    async with aclosing(run.events(input, client_results)) as told:
        async for event in told:
            yield event


class AgentRun:
    """One run. `transcript` is the fold of the events told so far: whoever drives it need not fold again."""

    def __init__(
        self,
        agent: Agent,
        transcript: Transcript,
        ctx: RunContext,
        *,
        resolutions: Sequence[Resolution] = (),
        output: OutputType | None = None,
        within: Nest | None = None,
    ) -> None:
        # A signal of its own, that is given with the caller's: a middleware may end this run and no other.
        ctx = replace(ctx, abort=ctx.abort.child())
        self.agent = agent
        self.ctx = ctx
        self.transcript = self._given = transcript
        self._tally = Tally(
            model=agent.model,
            provider=agent.provider.name,
            clock=ctx.clock,
            cost=agent.cost,
            before=ctx.before,
        )
        self._stack = MiddlewareStack(
            agent.middleware, ctx, provider=agent.provider.name, model=agent.model, transcript=transcript
        )
        self._endings = Endings(ctx, self._tally, self._stack)
        self._config = TurnConfig(agent.model, agent.system, tuple(agent.registry), agent.parameters)
        self._tools = agent.registry
        self._output = None if output is None else Output(output, native=is_native(agent.provider))
        self._ended_by: Finish | Wait = Finish("stop")
        self._leave = Leave(agent, ctx, self._tally, self._stack, owes_output=output is not None)
        self._last_words = ""
        self._silent: Turn | None = None  # the last turn, if it said nothing
        self._resolutions = {resolution.tool_call_id: resolution for resolution in resolutions}
        self._judge = Judge(ctx, self._resolutions)
        self._ids = CallIds(ctx.new_id, all_fresh=within is not None)
        self._nest = Nest(ctx, self._resolutions, self._tally.include)

    @property
    def usage(self) -> tuple[ModelUsage, ...]:
        return self._tally.usage

    @property
    def spent(self) -> float | None:
        """None when the agent knows no prices."""
        return self._tally.spent

    # -- from one end to the other ---------------------------------------------------------------------------

    async def events(
        self, input: Sequence[Message] = (), client_results: Sequence[ToolResultPart] = ()
    ) -> AsyncGenerator[Event, None]:
        tell = self._tell if not self.agent.middleware else self._tell_through_middleware
        async with aclosing(tell(tuple(input), client_results)) as told:
            async for event in told:
                self.transcript = apply(self.transcript, event)
                yield event

    async def _tell_through_middleware(
        self, input: tuple[Message, ...], client_results: Sequence[ToolResultPart]
    ) -> AsyncGenerator[Event, None]:
        stack, end, cancelled = self._stack, None, False
        try:
            with suppress(MiddlewareFailed, Aborted):
                await stack.setup()
            async with aclosing(self._tell(input, client_results)) as told:
                async for said in told:
                    for event in await stack.on_event(said):
                        if isinstance(event, RunFinished | RunError):
                            event = end = self._endings.as_it_stands(event)
                            cancelled = self._endings.is_cancelled(end)
                        yield event
                        stack.transcript = self.transcript
        finally:
            await stack.finish(end, cancelled)

    async def _tell(
        self, input: tuple[Message, ...], client_results: Sequence[ToolResultPart]
    ) -> AsyncGenerator[Event, None]:
        ctx = self.ctx
        yield RunStarted(
            thread_id=ctx.thread_id, run_id=ctx.run_id, parent_run_id=ctx.parent_run_id, input=input
        )
        terminal: RunFinished | RunError
        try:
            self._stack.check()
            await self._stack.on_start()
            async with aclosing(self._open(client_results)) as told:
                async for event in told:
                    yield event
            async with aclosing(self._take_steps()) as told:
                async for event in told:
                    yield event
            if isinstance(self._ended_by, Wait):
                await self._stack.on_pause(self._ended_by)
            self._stack.check()
            terminal = self._endings.of(self._ended_by, self.transcript, self._tools, self._nest.asked)
            if self._output is not None:
                terminal = replace(terminal, result=self._output.result)
        except Exception as error:
            # Whatever broke the run: it has one end, and every call that was told has its result before it.
            code, terminal = self._endings.broken_by(error, self.transcript)
            during = at_work(self.transcript)
            self.transcript = close_old_calls(self.transcript)
            for result in closing_answers(self.transcript, code, ctx.before.begun_calls):
                yield result_event(result, ctx)
            if self._endings.is_cancelled(terminal):
                terminal = with_receipt(terminal, receipt(self._given, self.transcript, during))
        yield terminal

    async def _open(self, client_results: Sequence[ToolResultPart]) -> AsyncGenerator[Event, None]:
        """What an earlier run left open, as far as it is settled by how this one begins."""
        calls, turn, _ = calls_left(self.transcript)
        if calls and turn is not None:
            await self._configure()
            verdicts = await self._judge.of(calls, self._tools) if turn.finish_reason == "tool_calls" else {}
            for result in opening_answers(
                self.transcript, self._tools, self._resolutions, verdicts, client_results
            ):
                yield result_event(as_it_may_have_happened(result, self.ctx), self.ctx)
        self.transcript = close_old_calls(self.transcript)

    # -- step by step ----------------------------------------------------------------------------------------

    async def _take_steps(self) -> AsyncGenerator[Event, None]:
        while True:
            step = await self._next_step()
            match step:
                case CallModel():
                    self.ctx.abort.check()
                    async with aclosing(self._call_model(step)) as told:
                        async for event in told:
                            yield event
                case Answer() | RunTools():
                    async with aclosing(self._settle_calls(step)) as told:
                        async for event in told:
                            yield event
                case Wait():
                    for call in step.client_calls:
                        # What starts a client's tool: AG-UI's clients see the call, TanStack's wait for this.
                        value = {"toolCallId": call.id, "toolName": call.name, "input": arguments_of(call)}
                        yield Custom(name="tool-input-available", value=value)
                    self._ended_by = step
                    return
                case Finish():
                    self._ended_by = step
                    return
                case _:
                    assert_never(step)

    async def _next_step(self) -> Step:
        if self._last_words:
            return Finish(self._last_words)
        step: Step
        if self._silent is not None:
            step = behind_words(self._silent.finish_reason, self._silent.paused)
        else:
            verdicts = await self._judge.of(open_calls(self.transcript), self._tools)
            step = next_step(self.transcript, self._tools, self._resolutions, verdicts)
        if isinstance(step, CallModel) and self._tally.any_turn:
            step = await self._leave.take(self.transcript)
        if isinstance(step, CallModel):
            self._last_words = step.last_words
        if isinstance(step, Finish) and self._output is not None:
            step = self._output.next(step, self._last_text())
        return step

    def _last_text(self) -> str:
        turn = last_turn(self.transcript)
        spoke = turn is not None and self._silent is None and self.transcript[-1].role == "assistant"
        return turn.text if turn is not None and spoke else ""

    async def _settle_calls(self, step: Answer | RunTools) -> AsyncGenerator[Event, None]:
        first = len(self.transcript)
        if isinstance(step, Answer):
            calls = {call.id: call for call in open_calls(self.transcript)}
            for result in step.results:
                call = ToolCall(calls[result.tool_call_id])
                result = as_it_may_have_happened(result, self.ctx)
                yield result_event(await self._stack.on_after_tool_call(call, result), self.ctx)
        else:
            self.ctx.abort.check()
            hooks = self._stack if self.agent.middleware else NO_HOOKS
            nest = replace(self._nest, states=states_of(last_turn(self.transcript)))
            async with aclosing(run_calls(step.calls, self._tools, self.ctx, hooks, nest)) as told:
                async for event in told:
                    yield event
            self._judge.suspend(self._nest.asked)
        if self.agent.middleware:
            new = [result for message in self.transcript[first:] for result in message.tool_results]
            await self._stack.on_tool_phase_complete(new)

    # -- one turn --------------------------------------------------------------------------------------------

    async def _call_model(self, step: CallModel) -> AsyncGenerator[Event, None]:
        await self._stack.on_iteration(self._tally.turns + 1)
        await self._configure()
        config = self._config
        if self._output is not None:
            config = replace(config, parameters={**config.parameters, **self._output.parameters})
        turn = ModelTurn(
            self.agent.provider,
            config,
            self._tools,
            self.ctx,
            self._tally,
            lambda given: self._ids.own(given, self.transcript),
            "none" if step.last_words or step.instruction else "auto",
            step.instruction,
        )
        try:
            async with aclosing(turn.tell(self.transcript)) as told:
                async for event in told:
                    yield event
        except Exception:
            # However the turn broke off, it is told that it ended, and what it used is counted.
            yield turn.ended
            with suppress(MiddlewareFailed, Aborted):
                await self._stack.on_usage(turn.used)
            raise
        try:
            shown = await self._leave.look_ahead(turn.ended, self.transcript, self._tools)
        except Exception:
            # The strategy failed, not the turn: its message keeps its finish reason.
            yield turn.ended
            raise
        yield shown
        await self._stack.on_usage(turn.used)
        spoke = any(message.id == turn.turn.message_id for message in self.transcript.live)
        self._silent = None if spoke else turn.turn

    async def _configure(self) -> None:
        """What the middlewares make of how the agent asks. Only the tools they leave can be reached."""
        agent = self.agent
        if not agent.middleware:
            return
        given = TurnConfig(agent.model, agent.system, tuple(agent.registry), agent.parameters)
        self._config = await self._stack.on_config(given)
        same = self._config.tools == given.tools
        self._tools = agent.registry if same else ToolRegistry(self._config.tools)
