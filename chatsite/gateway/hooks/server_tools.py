"""The server's own tools, for callers that ask for them by name (`asked_tools.py`). Built in: no setting loads it.

`GATEWAY_TOOLS` is the dotted path of a ToolRegistry, or of what makes one: it is asked anew for each request, since the
tools of MCP servers come and go. The calls run as in the chat, by
`agent.tool_calls`: the same checks of arguments, timeouts, results and error codes. Each is in the ledger before its
tool starts, and so is what became of it.

| what is asked for | answer |
|---|---|
| a tool that is not there, or needs a permission that the key's user has not | 400, with the names that there are |
| a tool that always needs a person's yes | 403: nobody can be asked here |
| a tool that needs it for some arguments | it may be asked for; such a call gets an error result |

`GATEWAY_APPROVED_TOOLS` lists tools that need nobody's yes here. What the groups of the key's user say of a tool stands
before that: deny is as not there, ask as one that always needs a yes, allow (by its name) as one that never does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol, TypeVar

from django.contrib.auth import get_user_model
from django.db import connection
from django.utils.module_loading import import_string

from agent import RunContext, Tool, ToolRegistry, Transcript, next_step
from agent.abort import Aborted
from agent.call_ids import CallIds
from agent.context import new_id
from agent.errors import InvalidRequest
from agent.events import ToolCallResult
from agent.messages import Message, ToolCallPart, ToolResultPart
from agent.rerun import BaseHook, Call, Json, Patch, Plan, Refusal, RelayContext, Turn
from agent.rerun_answers import answered
from agent.result_events import result_event
from agent.results import error_result
from agent.steps import Answer, RunTools
from agent.tool_calls import run_calls
from agent.tool_slots import ABORTED_WITHIN
from agent.verdicts import Judge
from agent.wire.anthropic.encode import encode_blocks
from chatsite.gateway import allowance, ledger
from chatsite.gateway.conf import setting
from chatsite.gateway.hooks.asked_tools import asked_in, asks, with_tools
from chatsite.policies.values import ALLOW, ASK, DENY, NO_POLICY, Policy, Rule

log = logging.getLogger(__name__)

T = TypeVar("T")
Tools = ToolRegistry | Callable[[], ToolRegistry]

SECONDS = 60.0
"""For one attempt of a tool that sets no limit of its own: a caller waits for it."""
ALL_SECONDS = 300.0
"""For the calls of one turn."""

NOBODY = "needs a person's approval, and nobody can be asked here"
NOT_TO_BE_RUN = frozenset({"stop", "content_filter"})
"""A turn that ended so asks for nothing more, though it holds calls."""


class Ledger(Protocol):
    async def claim(self, call: RelayContext, tool_call: ToolCallPart, arguments: Mapping[str, Any]) -> None:
        """Kept when this returns. The tool does not start when it raises."""

    async def settle(self, call: RelayContext, result: ToolCallResult) -> None: ...


class ServerTools(BaseHook):
    timeout = ALL_SECONDS + 10  # the calls are stopped before, so that each has its result

    def __init__(
        self, tools: Tools, *, approved: frozenset[str] = frozenset(), kept: Ledger = ledger
    ) -> None:
        """`approved`: names of tools that need nobody's yes here."""
        self._find = tools if callable(tools) else lambda: tools
        self._approved = approved
        self._kept = kept

    @property
    def _tools(self) -> ToolRegistry:
        """Those of this moment."""
        found = (tool for tool in self._find() if tool.execute is not None)
        return ToolRegistry(replace(tool, timeout=tool.timeout or SECONDS) for tool in found)

    @property
    def serves(self) -> frozenset[str]:
        return frozenset(self._tools.names)

    def wants(self, request: RelayContext) -> bool:
        return asks(request.body, request.asked_tools)

    async def pre_call(self, body: Json, call: RelayContext) -> Json | Refusal | None:
        try:
            asked = asked_in(body, call.asked_tools)
        except InvalidRequest as error:
            return Refusal(str(error), code=error.code)
        policy = await _policy_of(call)
        usable = await self._usable(call.user_id, policy)
        for name, where in asked.items():
            if name not in usable:
                known = [each for each, tool in usable.items() if not self._asks_always(tool, policy)]
                return Refusal(f"{where}: {_unknown(name, known)}", code="unknown_tool")
            if self._asks_always(usable[name], policy):
                return Refusal(f"{where}: {name} {NOBODY}.", 403, "approval_required")
        call.notes["asked"] = frozenset(asked)
        return with_tools(body, call.dialect, {name: usable[name] for name in asked})

    async def _usable(self, user_pk: int | None, policy: Policy) -> dict[str, Tool]:
        tools = [tool for tool in self._tools if policy.rule_of(tool.name) != DENY]
        wanted = {tool.permission for tool in tools if tool.permission}
        granted = await _in_thread(_permissions, user_pk, wanted) if wanted else frozenset()
        return {tool.name: tool for tool in tools if not tool.permission or tool.permission in granted}

    def _asks_always(self, tool: Tool, policy: Policy) -> bool:
        said = _said_of(tool, policy, self._approved)
        return said == ASK or (tool.needs_approval is True and said != ALLOW)

    async def claims(self, turn: Turn, call: RelayContext) -> Sequence[Call] | None:
        asked = call.notes.get("asked", frozenset())
        return tuple(each for each in turn.calls if each.name in asked) or None

    async def look(self, turn: Turn, call: RelayContext) -> Plan | None:
        calls = await self.claims(turn, call)
        if not calls:
            return None
        if turn.stop_reason in NOT_TO_BE_RUN:
            return Plan(terminate=True)
        ids = call.notes.setdefault("ids", CallIds(new_id))
        work = _Work(call, [(each.id, _part(each, ids)) for each in calls], self._kept)
        results = await work.results(turn, self._tools, self._approved)
        texts = {id: _content(result) for id, result in results.items()}
        failed = frozenset(id for id, result in results.items() if result.error is not None)
        messages = [*call.messages, *answered(turn, texts, failed=failed)]
        return Plan(run_agentic_loop=True, request_patch=Patch(messages=messages))


@dataclass(slots=True)
class _Work:
    """The calls of one turn: the model's id of each, and the call under an id that the request has only once."""

    call: RelayContext
    calls: list[tuple[str, ToolCallPart]]
    kept: Ledger
    open: dict[str, ToolCallPart] = field(default_factory=dict)
    """Claimed, and not settled yet."""

    async def results(
        self, turn: Turn, tools: ToolRegistry, approved: frozenset[str]
    ) -> dict[str, ToolResultPart]:
        """One for each call, by the model's id."""
        ctx = await self._context(approved)
        parts = tuple(part for _, part in self.calls)
        judge = Judge(ctx, {})
        message = Message("turn", "assistant", parts, turn.stop_reason)
        step = next_step(Transcript([message]), tools, {}, await judge.of(parts, tools))
        todo = step.calls if isinstance(step, RunTools) else step.results if isinstance(step, Answer) else ()
        done: dict[str, ToolResultPart] = {}
        try:
            async for event in self._told(todo, tools, ctx):
                done[event.tool_call_id] = ToolResultPart(event.tool_call_id, event.content, event.error)
        finally:
            # Whoever asked has left in the middle: what was begun may have had its effect.
            for part in self.open.values():
                _spawn(self._settle(_unknown_outcome(part, ctx)))
        return {id: done.get(part.id) or _nobody(part) for id, part in self.calls}

    async def _told(
        self, todo: Sequence[ToolCallPart | ToolResultPart], tools: ToolRegistry, ctx: RunContext
    ) -> AsyncGenerator[ToolCallResult, None]:
        limit = asyncio.get_running_loop().call_later(ALL_SECONDS, ctx.abort.abort, "out of time")
        try:
            async with aclosing(run_calls(todo, tools, ctx)) as events:
                with suppress(Aborted):
                    async for event in events:
                        if isinstance(event, ToolCallResult) and event.subagent_run_id is None:
                            if self.open.pop(event.tool_call_id, None) is not None:
                                await asyncio.shield(_spawn(self._settle(event)))
                            yield event
        finally:
            limit.cancel()

    async def _context(self, approved: frozenset[str]) -> RunContext:
        call, policy = self.call, await _policy_of(self.call)
        id = call.exchange_id or call.request_id
        return RunContext(
            thread_id=f"gateway-{id}",
            run_id=id,
            user=await _in_thread(_user, call.user_id) if call.user_id is not None else None,
            on_claim=self._claim,
            policy=lambda part, arguments, tool: _said_of(tool, policy, approved),
        )

    async def _claim(self, part: ToolCallPart, arguments: Mapping[str, Any]) -> None:
        await self.kept.claim(self.call, part, arguments)
        self.open[part.id] = part

    async def _settle(self, result: ToolCallResult) -> None:
        try:
            await self.kept.settle(self.call, result)
        except Exception:
            # What happened has happened: the model is told, and the ledger goes on saying that the call began.
            log.exception(
                "The result of call %s could not be kept. [%s]", result.tool_call_id, self.call.request_id
            )


async def _policy_of(call: RelayContext) -> Policy:
    """As it is now: a rerun may come minutes after the request."""
    return NO_POLICY if call.user_id is None else await allowance.policy_of(call.user_id)


def _said_of(tool: Tool, policy: Policy, approved: frozenset[str]) -> Rule | None:
    rule = policy.rule_of(tool.name)
    if rule in (DENY, ASK) or policy.is_allowed_by_name(tool.name):
        return rule
    return ALLOW if tool.name in approved else None


def _part(call: Call, ids: CallIds) -> ToolCallPart:
    return ToolCallPart(ids.own(call.id, Transcript()), call.name, call.text)


def _content(result: ToolResultPart) -> Any:
    content = result.content
    return content if isinstance(content, str) else encode_blocks(content)


def _nobody(part: ToolCallPart) -> ToolResultPart:
    return error_result(part.id, "approval_required", f"This call was not run: it {NOBODY}.")


def _unknown_outcome(part: ToolCallPart, ctx: RunContext) -> ToolCallResult:
    return result_event(error_result(part.id, "aborted", ABORTED_WITHIN), ctx)


def _unknown(name: str, known: Sequence[str]) -> str:
    if not known:
        return "this server gives its callers no tools"
    return f"there is no server tool {name[:64]!r}; there are {', '.join(sorted(known))}"


# -- the database, and tasks that outlive their request ------------------------------------------------------


def _user(pk: int) -> Any:
    return get_user_model().objects.filter(pk=pk, is_active=True).first()


def _permissions(user_pk: int | None, wanted: set[str]) -> frozenset[str]:
    user = _user(user_pk) if user_pk is not None else None
    return frozenset(name for name in wanted if user is not None and user.has_perm(name))


async def _in_thread(job: Callable[..., T], *args: Any) -> T:
    def work() -> T:
        try:
            return job(*args)
        finally:
            # Nobody else cares for the connection of a thread of this pool.
            connection.close()

    return await asyncio.to_thread(work)


_tasks: set[asyncio.Task[None]] = set()


def _spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


@cache
def server_tools() -> ServerTools:
    """The hook of these settings."""
    return ServerTools(tools_from_settings, approved=frozenset(setting("GATEWAY_APPROVED_TOOLS")))


def tools_from_settings() -> ToolRegistry:
    """Raises ImportError or TypeError for a GATEWAY_TOOLS that names no tools."""
    path = setting("GATEWAY_TOOLS")
    if not path:
        return ToolRegistry()
    named = import_string(path)
    tools = named if isinstance(named, ToolRegistry) or not callable(named) else named()
    if not isinstance(tools, ToolRegistry):
        raise TypeError(f"it is {type(tools).__name__}, and no ToolRegistry")
    return tools
