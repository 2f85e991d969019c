"""The loop: what waits. It decides nothing; `steps.py` does.

`run_agent` yields a run's events: RunStarted, then turn after turn and the results of their calls, then
exactly one RunFinished or RunError, and nothing behind it. Whatever opens is closed before that, also when
the provider fails or somebody stops the run, and every call that was told gets exactly one result.

The run folds each event before it tells it, so its transcript is what its reader can fold, and what the model
reads next. Three things differ from what was given:

    a call id that is there already, or none         gets a fresh one (some servers say `call_0` every turn)
    calls of a turn that may not call                are dropped: not told, not kept
    old calls that somebody spoke over               have a result in what the model reads (`close_old_calls`)
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from agent.approvals import Decision, Resolution, Verdicts, arguments_of, interrupt_of
from agent.closing import ClosingCode, calls_left, close_old_calls, closing_answers, opening_answers
from agent.context import Aborted, RunContext
from agent.errors import AgentError
from agent.events import (
    Cancelled,
    Custom,
    Event,
    Interrupt,
    Interrupted,
    Outcome,
    RunError,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    Success,
)
from agent.messages import FinishReason, Message, ToolCallPart, ToolResultPart, Transcript, Usage, open_calls
from agent.providers.base import Provider, TurnRequest
from agent.reducer import apply
from agent.steps import (
    Answer,
    CallModel,
    Finish,
    RunTools,
    Step,
    Wait,
    behind_words,
    last_turn,
    limited,
    next_step,
)
from agent.strategies import DEFAULT_STRATEGY, Strategy, why_stop
from agent.tally import Cost, Tally
from agent.text import storable
from agent.tool_calls import result_event, run_calls
from agent.tools import Tool, ToolRegistry
from agent.turns import Turn
from agent.verdicts import judge

log = logging.getLogger(__name__)

LONGEST_ID = 200
"""Characters of a call id that is told as it came; a longer or unprintable one gets a fresh one, like none."""

BROKE = "Something went wrong on the server. What was said so far is kept."


@dataclass(frozen=True, slots=True)
class Agent:
    """Who answers: a model behind a provider, its tools, and how far it may go.

    `final_answer`: when a limit stops the run behind tool results, one last turn without tools says so in
    words. `cost` gives what some usage of a model costs, in the unit that `max_cost` is given in. Raises
    InvalidRequest for tools that cannot be used together.
    """

    provider: Provider
    model: str
    tools: Iterable[Tool] = ()
    system: str = ""
    strategy: Strategy = DEFAULT_STRATEGY
    final_answer: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost | None = None
    registry: ToolRegistry = field(init=False)

    def __post_init__(self) -> None:
        registry = self.tools if isinstance(self.tools, ToolRegistry) else ToolRegistry(self.tools)
        object.__setattr__(self, "registry", registry)


async def run_agent(
    agent: Agent,
    transcript: Transcript,
    ctx: RunContext,
    *,
    input: Sequence[Message] = (),
    resolutions: Sequence[Resolution] = (),
    client_results: Sequence[ToolResultPart] = (),
) -> AsyncGenerator[Event, None]:
    """Answer the transcript, with `input` behind it. Close it (`aclosing`) when you may leave early.

    `resolutions` are people's answers about calls that are open, checked by the application before
    (`check_resolutions`); `client_results` what a client sends for its own.
    """
    run = AgentRun(agent, transcript, ctx, resolutions=resolutions)
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
    ) -> None:
        self.agent = agent
        self.ctx = ctx
        self.transcript = transcript
        self._tally = Tally(model=agent.model, provider=agent.provider.name, clock=ctx.clock, cost=agent.cost)
        self._ended_by: Finish | Wait = Finish("stop")
        self._leave: CallModel | Finish | None = None
        self._last_words = ""
        self._silent: Turn | None = None  # the last turn, if it said nothing
        self._call_ids: set[str] | None = None
        self._resolutions = {resolution.tool_call_id: resolution for resolution in resolutions}
        self._verdicts: dict[str, Decision] = {}
        self._judged: set[str] = set()

    async def events(
        self, input: Sequence[Message] = (), client_results: Sequence[ToolResultPart] = ()
    ) -> AsyncGenerator[Event, None]:
        async with aclosing(self._tell(tuple(input), client_results)) as told:
            async for event in told:
                self.transcript = apply(self.transcript, event)
                yield event

    async def _tell(
        self, input: tuple[Message, ...], client_results: Sequence[ToolResultPart]
    ) -> AsyncGenerator[Event, None]:
        ctx = self.ctx
        yield RunStarted(
            thread_id=ctx.thread_id, run_id=ctx.run_id, parent_run_id=ctx.parent_run_id, input=input
        )
        terminal: RunFinished | RunError
        try:
            for result in await self._opening_answers(client_results):
                yield result_event(result, ctx)
            self.transcript = close_old_calls(self.transcript)
            async with aclosing(self._take_steps()) as told:
                async for event in told:
                    yield event
            terminal = self._finished(self._ended_by)
        except Exception as error:
            code, terminal = self._broken_by(error)
            self.transcript = close_old_calls(self.transcript)
            for result in closing_answers(self.transcript, code):
                yield result_event(result, ctx)
        yield terminal

    async def _take_steps(self) -> AsyncGenerator[Event, None]:
        while True:
            step = await self._next_step()
            match step:
                case CallModel():
                    self.ctx.abort.check()
                    async with aclosing(self._call_model(step)) as told:
                        async for event in told:
                            yield event
                case Answer(results):
                    for result in results:
                        yield result_event(result, self.ctx)
                case RunTools(calls):
                    self.ctx.abort.check()
                    async with aclosing(run_calls(calls, self.agent.registry, self.ctx)) as told_by_tools:
                        async for event in told_by_tools:
                            yield event
                case Wait():
                    for call in step.client_calls:
                        # What starts a client's tool: AG-UI's clients see the call, TanStack's wait for this.
                        value = {
                            "toolCallId": call.id,
                            "toolName": call.name,
                            "input": arguments_of(call),
                        }
                        yield Custom(name="tool-input-available", value=value)
                    self._ended_by = step
                    return
                case Finish():
                    self._ended_by = step
                    return
                case _:
                    assert_never(step)

    async def _opening_answers(self, client_results: Sequence[ToolResultPart]) -> Sequence[ToolResultPart]:
        calls, turn, _ = calls_left(self.transcript)
        if not calls or turn is None:
            return ()
        verdicts = await self._judge(calls) if turn.finish_reason == "tool_calls" else {}
        return opening_answers(
            self.transcript, self.agent.registry, self._resolutions, verdicts, client_results
        )

    async def _judge(self, calls: Sequence[ToolCallPart]) -> Verdicts:
        """The verdicts of these calls. Each call is judged once a run."""
        new = [call for call in calls if call.id not in self._judged]
        if new:
            with self.ctx.abort.interrupts():
                found = await judge(new, self.agent.registry, self.ctx, self._resolutions)
            self._verdicts.update(found)
            self._judged.update(call.id for call in new)
        return self._verdicts

    async def _next_step(self) -> Step:
        if self._last_words:
            return Finish(self._last_words)
        step: Step
        if self._silent is not None:
            step = behind_words(self._silent.finish_reason, self._silent.paused)
        else:
            calls = open_calls(self.transcript)
            verdicts = await self._judge(calls) if calls else self._verdicts
            step = next_step(self.transcript, self.agent.registry, self._resolutions, verdicts)
        if isinstance(step, CallModel) and self._tally.turns:
            step, self._leave = self._leave or self._ask_leave(self.transcript), None
        if isinstance(step, CallModel):
            self._last_words = step.last_words
        return step

    def _ask_leave(self, transcript: Transcript) -> CallModel | Finish:
        reason = why_stop(self.agent.strategy, self._tally.state(transcript))
        return limited(transcript, reason, self.agent.final_answer)

    # -- one turn --------------------------------------------------------------------------------------------

    async def _call_model(self, step: CallModel) -> AsyncGenerator[Event, None]:
        agent, ctx = self.agent, self.ctx
        turn = Turn(ctx.new_id(), self._own_id, may_call=not step.last_words)
        number, started = self._tally.begin_turn(), ctx.clock()
        yield StepStarted(step_name=f"turn-{number}")
        request = TurnRequest(
            model=agent.model,
            transcript=self.transcript,
            message_id=turn.message_id,
            tools=agent.registry.specs,
            tool_choice="none" if step.last_words else "auto",
            system=agent.system,
            parameters=agent.parameters,
        )
        try:
            async with aclosing(self._listen(turn, request)) as told:
                async for event in told:
                    yield event
            turn.check()
        except Exception:
            for event in turn.closings():
                yield event
            yield self._end_turn(turn, started)
            raise
        for event in turn.closings():
            yield event
        ended = self._end_turn(turn, started)
        try:
            shown = self._look_ahead(ended)
        except Exception:
            # The strategy failed, not the turn: its message keeps its finish reason.
            yield ended
            raise
        yield shown
        spoke = any(message.id == turn.message_id for message in self.transcript.live)
        self._silent = None if spoke else turn

    async def _listen(self, turn: Turn, request: TurnRequest) -> AsyncGenerator[Event, None]:
        stream = self.agent.provider.stream(request)
        pull = stream.__anext__
        waiting = self.ctx.abort.interrupts()
        try:
            while True:
                with waiting:
                    event = await pull()
                told = turn.hear(event)
                if told is not None:
                    yield told
        except StopAsyncIteration:
            return
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def _end_turn(self, turn: Turn, started: float) -> StepFinished:
        end, tally = turn.end, self._tally
        tally.end_turn(end, turn.finish_reason, turn.calls)
        facts: dict[str, Any] = {
            "messageId": turn.message_id,
            "finishReason": turn.finish_reason,
            "model": tally.model,
            "durationMs": round((self.ctx.clock() - started) * 1000),
        }
        if end is not None:
            facts["usage"] = encode_usage(end.usage)
            if end.provider_reason is not None:
                facts["providerReason"] = end.provider_reason
            if end.paused:
                facts["paused"] = True
        return StepFinished(step_name=f"turn-{tally.turns}", metadata=facts)

    def _look_ahead(self, ended: StepFinished) -> StepFinished:
        """How the turn is told. One that was cut in its calls reads `tool_calls` when another turn follows.

        So the strategy is asked already now, on the transcript as it will be with the answers.
        """
        facts = ended.metadata or {}
        if facts["finishReason"] != "length":
            return ended
        ahead = apply(self.transcript, ended)
        step = next_step(ahead, self.agent.registry)
        if not isinstance(step, Answer):
            return ended
        for result in step.results:
            ahead = apply(ahead, result_event(result, self.ctx))
        self._leave = self._ask_leave(ahead)
        if isinstance(self._leave, Finish):
            return ended
        return replace(
            ended, metadata={**facts, "finishReason": "tool_calls", "storedFinishReason": "length"}
        )

    def _own_id(self, given: str) -> str:
        if self._call_ids is None:
            self._call_ids = {call.id for message in self.transcript for call in message.tool_calls}
        sane = 0 < len(given) <= LONGEST_ID and given.isprintable() and given == storable(given)
        id = given if sane and given not in self._call_ids else f"call_{self.ctx.new_id()}"
        self._call_ids.add(id)
        return id

    # -- the end ---------------------------------------------------------------------------------------------

    def _finished(self, step: Finish | Wait) -> RunFinished:
        if isinstance(step, Finish):
            return self._ended(step.reason, Success())
        pending = tuple(call.id for call in step.client_calls)
        if step.approvals:
            ended = self._ended("interrupt", Interrupted(tuple(self._interrupts(step.approvals))))
            beside = {"pendingToolCallIds": list(pending)} if pending else {}
        else:
            ended, beside = self._ended("client_tools", Success(pending)), {}
        if step.behind:
            beside["heldToolCallIds"] = [call.id for call in step.behind]
        return replace(ended, metadata=beside or None)

    def _interrupts(self, calls: Sequence[ToolCallPart]) -> Iterator[Interrupt]:
        ctx = self.ctx
        expires_at = None if ctx.approval_ttl is None else ctx.now() + ctx.approval_ttl
        for call in calls:
            tool = self.agent.registry.get(call.name)
            assert tool is not None
            yield interrupt_of(call, tool, id=ctx.new_id(), run_id=ctx.run_id, expires_at=expires_at)

    def _broken_by(self, error: Exception) -> tuple[ClosingCode, RunFinished | RunError]:
        if isinstance(error, Aborted) or self.ctx.abort.aborted:
            if not isinstance(error, Aborted):
                log.info("run %s: stopped; meanwhile something failed", self.ctx.run_id, exc_info=error)
            return "aborted", self._ended("cancelled", Cancelled())
        if isinstance(error, AgentError):
            # A model that is away is no bug: one line, and the trace for whoever sets LOG_LEVEL=DEBUG.
            cause = error.__cause__
            # Its words and not its repr, in which aiohttp puts the request's headers, key and all.
            why = f" <- {type(cause).__name__}: {' '.join(str(cause).split())}" if cause else ""
            log.warning("run %s: %s (%s)%s", self.ctx.run_id, error, error.code, why)
            log.debug("run %s: the trace of that", self.ctx.run_id, exc_info=cause)
            return "incomplete_stream", RunError(message=str(error), code=error.code, usage=self._tally.usage)
        log.error("run %s: a bug", self.ctx.run_id, exc_info=error)
        return "incomplete_stream", RunError(message=BROKE, code="internal_error", usage=self._tally.usage)

    def _ended(self, stop_reason: str, outcome: Outcome) -> RunFinished:
        return RunFinished(
            thread_id=self.ctx.thread_id,
            run_id=self.ctx.run_id,
            outcome=outcome,
            usage=self._tally.usage,
            finish_reason=self._tally.finish_reason if self._tally.turns else _reason_of(self.transcript),
            stop_reason=stop_reason,
            model=self._tally.model,
        )


def _reason_of(transcript: Transcript) -> FinishReason | None:
    """A run that made no turn goes by the one that it took up."""
    turn = last_turn(transcript)
    return None if turn is None else turn.finish_reason


def encode_usage(usage: Usage) -> dict[str, int]:
    """As AG-UI writes it; what is nothing and not a total is left out."""
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
    }
    details = {
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "cacheWriteInputTokens": usage.cache_write_input_tokens,
    }
    return counts | {name: count for name, count in details.items() if count}
