"""May a call run? Asks the application's policy and the tools' own conditions; `approvals.py` says what follows."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from agent.approvals import Decision, Resolutions, Verdicts, with_answer
from agent.context import RunContext, Verdict
from agent.messages import ToolCallPart
from agent.tools import InvalidArguments, Tool, ToolContext, ToolRegistry

log = logging.getLogger(__name__)


class Judge:
    """Gives the verdicts of a run's calls, those that anything has an opinion on. Each call is judged once a run."""

    def __init__(self, ctx: RunContext, resolutions: Resolutions) -> None:
        self._ctx = ctx
        self._resolutions = resolutions
        self._verdicts: dict[str, Decision] = {}
        self._judged: set[str] = set()

    async def of(self, calls: Iterable[ToolCallPart], tools: ToolRegistry) -> Verdicts:
        for call in calls:
            if call.id not in self._judged:
                with self._ctx.abort.interrupts():
                    await self._judge(call, tools.get(call.name))
                self._judged.add(call.id)
        return self._verdicts

    def suspend(self, call_ids: Iterable[str]) -> None:
        """The work of these calls waits for a person by itself."""
        self._verdicts.update(dict.fromkeys(call_ids, "suspended"))

    async def _judge(self, call: ToolCallPart, tool: Tool | None) -> None:
        if tool is None or (self._ctx.policy is None and not callable(tool.needs_approval)):
            return
        call = with_answer(call, self._resolutions.get(call.id))
        try:
            arguments = tool.read(call.used_arguments)
        except InvalidArguments:
            return  # its error is its result, whatever anybody thinks of it
        try:
            self._verdicts[call.id] = await _verdict(call, arguments, tool, self._ctx)
        except Exception:
            # A policy is the application's own code. What nobody could decide does not run.
            log.exception("tool %s: whether it may run could not be found out", tool.name)
            self._verdicts[call.id] = "failed"


async def _verdict(call: ToolCallPart, arguments: Mapping[str, Any], tool: Tool, ctx: RunContext) -> Verdict:
    if ctx.policy is not None:
        said = ctx.policy(call, arguments, tool)
        verdict = await said if inspect.isawaitable(said) else said
        if verdict is not None:
            if verdict not in ("allow", "ask", "deny"):
                raise ValueError(f"{verdict!r} is no verdict.")
            return verdict
    if not callable(tool.needs_approval):
        return "ask" if tool.needs_approval else "allow"
    needed = _asked(tool.needs_approval, arguments, _context_of(call, ctx))
    return "ask" if (await needed if inspect.isawaitable(needed) else needed) else "allow"


def _asked(condition: Any, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
    """A condition takes the arguments, and the call's context when it has room for it."""
    kinds = [parameter.kind for parameter in inspect.signature(condition).parameters.values()]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    room = sum(kind in positional for kind in kinds)
    takes_both = room > 1 or inspect.Parameter.VAR_POSITIONAL in kinds
    return condition(arguments, ctx) if takes_both else condition(arguments)


def _context_of(call: ToolCallPart, ctx: RunContext) -> ToolContext:
    return ToolContext(
        thread_id=ctx.thread_id,
        run_id=ctx.run_id,
        tool_call_id=call.id,
        user=ctx.user,
        abort=ctx.abort,
        tell=lambda name, value: None,
    )
