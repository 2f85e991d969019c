"""Subagents: a tool whose work is another run, with an agent, a transcript and limits of its own.

    research = subagent_tool(researcher, name="research", description="Finds things out. Give it one question.")
    Agent(provider, "some-model", tools=[research])

    what the inner run does         what the outer one makes of it
    it begins, speaks, ends         SUBAGENT_STARTED, its events with `subagentRunId`, SUBAGENT_FINISHED or _ERROR
    it ends well                    its last words (or its output) are the call's result
    it fails, or says nothing       an error result, with its code or what stopped it
    it uses tokens                  they count in the outer run's usage and budgets
    it must ask a person            the call stays open, the question is one of the outer run's, with `path`; the run
                                    that brings the answer goes on with the same inner transcript
    it is stopped                   with the outer one, at once

A result keeps the whole inner transcript beside it (`metadata["subagent"]`: runId, messages). An agent with client
tools cannot be a subagent: its pages know nothing of its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from agent import events as ev
from agent.agents import Agent
from agent.context import NOTHING_BEFORE
from agent.errors import InvalidRequest
from agent.loop import AgentRun
from agent.messages import Transcript, user_message
from agent.nesting import Berth, OpenThings, Suspended, inner, surfaced
from agent.output import OutputType
from agent.steps import last_turn
from agent.text import storable
from agent.tools import NeedsApproval, Tool, ToolContext, ToolOutput
from agent.wire.agui_messages import decode_messages, encode_messages

TASK: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with all that is needed to do it."}
    },
    "required": ["task"],
    "additionalProperties": False,
}

Prompt = Callable[[Mapping[str, Any]], str]


def subagent_tool(
    agent: Agent,
    *,
    name: str,
    description: str,
    parameters: Mapping[str, Any] = TASK,
    prompt: Prompt = lambda arguments: str(arguments["task"]),
    output: OutputType | None = None,
    needs_approval: NeedsApproval = False,
    timeout: float | None = None,
    parallel_safe: bool = True,
    max_output: int | None = None,
    permission: str | None = None,
) -> Tool:
    """`prompt` makes of a call's arguments what the agent is asked; `output` is the form its result has to have."""
    if any(tool.execute is None for tool in agent.registry):
        raise InvalidRequest(f"{name}: an agent with client tools cannot be a subagent.")

    async def execute(arguments: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        if not isinstance(ctx.berth, Berth):
            raise InvalidRequest(f"{name} runs inside a run only.")
        return await _Work(agent, name, output, ctx.berth).do(prompt, arguments)

    return Tool(
        name=name,
        description=description,
        parameters=parameters,
        execute=execute,
        function=execute,
        inner=agent.registry,
        needs_approval=needs_approval,
        timeout=timeout,
        parallel_safe=parallel_safe,
        max_output=max_output,
        permission=permission,
    )


@dataclass
class _Work:
    agent: Agent
    name: str
    output: OutputType | None
    berth: Berth

    async def do(self, prompt: Prompt, arguments: Mapping[str, Any]) -> ToolOutput:
        nest, state = self.berth.nest, self.berth.state
        ctx = replace(
            nest.ctx, run_id=nest.ctx.new_id(), parent_run_id=nest.ctx.run_id, before=NOTHING_BEFORE
        )
        before = Transcript(decode_messages(state["messages"]) if state is not None else ())
        input = () if state is not None else (user_message(ctx.new_id(), storable(prompt(arguments))),)
        run = AgentRun(
            self.agent,
            before,
            ctx,
            resolutions=tuple(nest.resolutions.values()),
            output=self.output,
            within=nest,
        )
        beside: dict[str, Any] = {"input": input[0].text} if input else {"resumes": state and state["runId"]}
        started = ev.SubagentStarted(
            subagent_run_id=ctx.run_id,
            name=self.name,
            parent_tool_call_id=self.berth.call_id,
            metadata=beside,
        )
        end = await self._tell(run, started, input)
        return self._ended(run, end)

    async def _tell(
        self, run: AgentRun, started: ev.SubagentStarted, input: Any
    ) -> ev.RunFinished | ev.RunError:
        run_id, tell, open = run.ctx.run_id, self.berth.tell, OpenThings()
        end: ev.RunFinished | ev.RunError | None = None
        open.hear(started)
        tell(started)
        try:
            async with aclosing(run.events(input)) as events:
                async for event in events:
                    if isinstance(event, ev.RunFinished | ev.RunError):
                        end = event
                    elif not isinstance(event, ev.RunStarted):
                        told = inner(event, run_id)
                        open.hear(told)
                        tell(told)
        finally:
            self.berth.nest.charge(run.usage, run.spent)
            if end is None:
                for closing in open.closings():
                    tell(closing)
        assert end is not None
        return end

    def _ended(self, run: AgentRun, end: ev.RunFinished | ev.RunError) -> ToolOutput:
        run_id, tell = run.ctx.run_id, self.berth.tell
        kept = {"runId": run_id, "messages": encode_messages(run.transcript, exact=True)}
        beside = {"subagent": kept}
        if isinstance(end, ev.RunError):
            tell(ev.SubagentError(subagent_run_id=run_id, message=end.message, code=end.code))
            return ToolOutput(end.message, beside, error=end.code or "subagent_error")
        match end.outcome:
            case ev.Cancelled():
                tell(ev.SubagentError(subagent_run_id=run_id, message="It was stopped.", code="aborted"))
                return ToolOutput(
                    "It was stopped: what it did may have had its effect.", beside, error="aborted"
                )
            case ev.Interrupted(interrupts):
                call = (self.berth.call_id, self.name)
                outer = self.berth.nest.ctx.run_id
                asked = tuple(
                    surfaced(each, call=call, run_id=run_id, outer_run_id=outer) for each in interrupts
                )
                suspended = tuple(each.id for each in asked)
                tell(ev.SubagentFinished(subagent_run_id=run_id, suspended=suspended))
                raise Suspended(kept, asked)
        turn = last_turn(run.transcript)
        value = end.result if self.output is not None else (turn.text if turn is not None else "")
        tell(ev.SubagentFinished(subagent_run_id=run_id, result=value))
        if value == "":
            return ToolOutput(
                f"It ended without an answer ({end.stop_reason}).", beside, error=end.stop_reason
            )
        return ToolOutput(value, beside)
