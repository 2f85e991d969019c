"""How a run ends: its one terminal event, whatever it was that ended it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.abort import Aborted
from agent.approvals import interrupt_of
from agent.closing import ClosingCode
from agent.context import RunContext
from agent.errors import AgentError, MiddlewareFailed
from agent.events import Cancelled, Interrupt, Interrupted, Outcome, RunError, RunFinished, Success
from agent.messages import FinishReason, ToolCallPart, Transcript
from agent.stack import MiddlewareStack
from agent.steps import Finish, Wait, last_turn
from agent.tally import Tally
from agent.text import storable
from agent.tools import ToolRegistry

log = logging.getLogger("agent.loop")

BROKE = "Something went wrong on the server. What was said so far is kept."


class Endings:
    def __init__(self, ctx: RunContext, tally: Tally, stack: MiddlewareStack) -> None:
        self._ctx = ctx
        self._tally = tally
        self._stack = stack

    def of(
        self,
        step: Finish | Wait,
        transcript: Transcript,
        tools: ToolRegistry,
        asked_within: Mapping[str, tuple[Interrupt, ...]],
    ) -> RunFinished:
        """`asked_within` are the questions of subagents, by the call that is theirs."""
        if isinstance(step, Finish):
            return self._finished(step.reason, Success(), transcript)
        pending = tuple(call.id for call in step.client_calls)
        beside: dict[str, Any] = {}
        if step.behind:
            beside["heldToolCallIds"] = [call.id for call in step.behind]
        if not step.approvals and not step.subagents:
            return self._finished("client_tools", Success(pending), transcript, beside)
        if pending:
            beside["pendingToolCallIds"] = list(pending)
        within = (each for call in step.subagents for each in asked_within[call.id])
        asked = Interrupted((*self._interrupts(step.approvals, tools), *within))
        return self._finished("interrupt", asked, transcript, beside)

    def broken_by(
        self, error: Exception, transcript: Transcript
    ) -> tuple[ClosingCode, RunFinished | RunError]:
        """The terminal event, and why calls that are open get no result of their own."""
        if self._stack.failure is not None or isinstance(error, MiddlewareFailed):
            return "aborted", self._error(self._stack.failure or error)
        if isinstance(error, Aborted) or self._ctx.abort.aborted:
            if not isinstance(error, Aborted):
                log.info("run %s: stopped; meanwhile something failed", self._ctx.run_id, exc_info=error)
            return "aborted", self._stopped(transcript)
        if isinstance(error, AgentError):
            # A model that is away is no bug: one line, and the trace for whoever sets LOG_LEVEL=DEBUG.
            cause = error.__cause__
            # Its words and not its repr, in which aiohttp puts the request's headers, key and all.
            why = f" <- {type(cause).__name__}: {' '.join(str(cause).split())}" if cause else ""
            log.warning("run %s: %s (%s)%s", self._ctx.run_id, error, error.code, why)
            log.debug("run %s: the trace of that", self._ctx.run_id, exc_info=cause)
            return "incomplete_stream", self._error(error)
        log.error("run %s: a bug", self._ctx.run_id, exc_info=error)
        return "incomplete_stream", RunError(message=BROKE, code="internal_error", usage=self._tally.usage)

    def as_it_stands(self, end: RunFinished | RunError) -> RunFinished | RunError:
        """The same end, unless a middleware failed over it."""
        failure = self._stack.failure
        return end if failure is None or isinstance(end, RunError) else self._error(failure)

    @staticmethod
    def is_cancelled(end: RunFinished | RunError) -> bool:
        return isinstance(end, RunFinished) and isinstance(end.outcome, Cancelled)

    def _stopped(self, transcript: Transcript) -> RunFinished:
        reason = self._stack.abort_reason
        if reason is None:
            return self._finished("cancelled", Cancelled(), transcript)
        return self._finished("aborted", Cancelled(), transcript, {"abortReason": reason})

    def _interrupts(self, calls: Sequence[ToolCallPart], tools: ToolRegistry) -> Iterator[Interrupt]:
        ctx = self._ctx
        expires_at = None if ctx.approval_ttl is None else ctx.now() + ctx.approval_ttl
        for call in calls:
            tool = tools.get(call.name)
            assert tool is not None
            yield interrupt_of(call, tool, id=ctx.new_id(), run_id=ctx.run_id, expires_at=expires_at)

    def _error(self, error: Exception) -> RunError:
        code = error.code if isinstance(error, AgentError) else "internal_error"
        return RunError(message=storable(str(error)), code=code, usage=self._tally.usage)

    def _finished(
        self,
        stop_reason: str,
        outcome: Outcome,
        transcript: Transcript,
        metadata: Mapping[str, Any] | None = None,
    ) -> RunFinished:
        tally = self._tally
        return RunFinished(
            thread_id=self._ctx.thread_id,
            run_id=self._ctx.run_id,
            outcome=outcome,
            usage=tally.usage,
            finish_reason=tally.finish_reason if tally.turns else _reason_of(transcript),
            stop_reason=stop_reason,
            model=tally.model,
            metadata=metadata or None,
        )


def _reason_of(transcript: Transcript) -> FinishReason | None:
    """A run that made no turn goes by the one that it took up."""
    turn = last_turn(transcript)
    return None if turn is None else turn.finish_reason
