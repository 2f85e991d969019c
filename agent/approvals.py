"""What a person must settle before a call runs: who is asked, how, and what an answer does.

Rule 1: a call runs unasked only when something said so. Whatever cannot be judged does not run.
Rule 2: nobody is asked about a call that could not run anyway: its arguments are held against the schema first.
Rule 3: an answer names its call, its interrupt, and what the person said; it is checked before anything runs.

    verdict    comes from                                      then
    allow      the policy, or a tool that needs no approval    it runs
    ask        the policy, or a tool that needs approval       an interrupt; the run ends and waits
    deny       the policy                                      an error result, `denied`
    failed     a policy or `needs_approval` that raised        an error result, `policy_failed`
    suspended  a subagent that asks somebody itself            the call waits with it

The policy is the application's (`RunContext.policy`); where it says None, the tool's own `needs_approval`
decides. It is asked about a client's call too, where `ask` means `allow`: the page that runs it asks its person
itself. About a call that a person has approved it is asked again, with the arguments as they will run: what was
forbidden meanwhile does not run, and its `ask` has been answered.

Nothing here waits; `verdicts.py` asks the policy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agent.context import Verdict
from agent.errors import InvalidRequest
from agent.events import Interrupt
from agent.messages import ToolCallPart
from agent.text import storable
from agent.tools import InvalidArguments, Tool, ToolRegistry, parse
from agent.wire.jsontext import dump, plain

Decision = Verdict | Literal["failed", "suspended"]
Verdicts = Mapping[str, Decision]
"""By call id. A call without one is judged by what its tool says for itself: see `stated`."""

Json = dict[str, Any]

BINDING = "tanstack:interruptBinding"


@dataclass(frozen=True, slots=True)
class Resolution:
    """A person's answer to one interrupt. `edited_args` replace the model's arguments as a whole."""

    tool_call_id: str
    interrupt_id: str
    status: Literal["approved", "denied", "cancelled"]
    edited_args: Mapping[str, Any] | None = None
    reason: str = ""


Resolutions = Mapping[str, Resolution]
"""By call id."""


# -- verdicts ------------------------------------------------------------------------------------------------


def stated(tool: Tool) -> Decision:
    """What a tool says for itself, when nothing was asked: a condition that nobody looked at asks."""
    return "ask" if tool.needs_approval and tool.execute is not None else "allow"


def with_answer(call: ToolCallPart, answer: Resolution | None) -> ToolCallPart:
    """The call as it was approved. Arguments that were sent back unchanged were not edited."""
    if answer is None or answer.status != "approved" or answer.edited_args is None:
        return call
    edited = plain(answer.edited_args, storable)
    try:
        unchanged = parse(call.arguments) == edited
    except InvalidArguments:
        unchanged = False
    return call if unchanged else call.with_edit(dump(edited))


# -- questions -----------------------------------------------------------------------------------------------


def interrupt_of(
    call: ToolCallPart, tool: Tool, *, id: str, run_id: str, expires_at: datetime | None
) -> Interrupt:
    """The question whether this call may run, as AG-UI has it and as TanStack AI's client binds to it."""
    input = arguments_of(call)
    schema = response_schema(tool.parameters)
    binding = {
        "v": 1,
        "kind": "tool-approval",
        "interruptId": id,
        "interruptedRunId": run_id,
        "generation": 0,
        "toolName": call.name,
        "toolCallId": call.id,
        "originalArgs": input,
        "inputSchemaHash": digest(tool.parameters),
        "approvalSchemaHash": digest({"approve": None, "reject": None}),
        "responseSchemaHash": digest(schema),
    }
    return Interrupt(
        id=id,
        reason="tool_call",
        message=f"The assistant wants to use {call.name}.",
        tool_call_id=call.id,
        response_schema=schema,
        expires_at=None if expires_at is None else expires_at.isoformat().replace("+00:00", "Z"),
        metadata={"kind": "approval", "toolName": call.name, "input": input, BINDING: binding},
    )


def arguments_of(call: ToolCallPart) -> Any:
    """The arguments as the JSON value they are, for whoever shows them or runs the call elsewhere."""
    return plain(parse(call.used_arguments), storable)


def response_schema(parameters: Mapping[str, Any]) -> Json:
    """What an answer looks like. References in the tool's schema lead to its own root, so that moves along."""
    roots = {key: parameters[key] for key in ("$defs", "definitions") if key in parameters}
    edited = {key: value for key, value in parameters.items() if key not in roots}
    return {"oneOf": [_branch(True, {"editedArgs": edited}), _branch(False, {})], **roots}


def _branch(approved: bool, more: Json) -> Json:
    return {
        "type": "object",
        "properties": {"approved": {"const": approved}, **more},
        "required": ["approved"],
        "additionalProperties": False,
    }


def digest(value: Any) -> str:
    """`sha256:` and the hash of the value's canonical JSON, the same in every language."""
    text = json.dumps(
        _as_in_javascript(plain(value)), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _as_in_javascript(value: Any) -> Any:
    """Where 1.0 and 1 are one number, and written `1`."""
    if isinstance(value, dict):
        return {key: _as_in_javascript(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_in_javascript(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# -- answers -------------------------------------------------------------------------------------------------


def resolution_of(interrupt: Interrupt, status: str, payload: Any = None) -> Resolution:
    """An answer as AG-UI sends it (`resolved` with a payload, or `cancelled`). Raises InvalidRequest."""
    call_id = interrupt.tool_call_id or ""
    if status == "cancelled":
        return Resolution(call_id, interrupt.id, "cancelled")
    match payload:
        case {"approved": True, "editedArgs": dict(edited)}:
            return Resolution(call_id, interrupt.id, "approved", edited)
        case True | {"approved": True} if not (isinstance(payload, dict) and payload.get("editedArgs")):
            return Resolution(call_id, interrupt.id, "approved")
        case False | {"approved": False}:
            said = payload.get("reason") if isinstance(payload, dict) else None
            return Resolution(
                call_id, interrupt.id, "denied", reason=said[:2000] if isinstance(said, str) else ""
            )
    raise InvalidRequest(
        f"The answer to {interrupt.id} must say whether the call is approved.", code="invalid_answer"
    )


def check_resolutions(
    interrupts: Sequence[Interrupt], resolutions: Sequence[Resolution], tools: ToolRegistry, now: datetime
) -> None:
    """Do these answers settle these open interrupts, all of them and nothing else?

    Raises InvalidRequest with the code unknown_interrupt, answered_twice, missing_answer, interrupt_expired,
    unknown_tool or invalid_arguments; then nothing of the set may be carried out. Cancelling is always taken.
    """
    open = {interrupt.id: interrupt for interrupt in interrupts}
    answered: set[str] = set()
    for resolution in resolutions:
        interrupt = open.get(resolution.interrupt_id)
        if interrupt is None or interrupt.tool_call_id != resolution.tool_call_id:
            raise InvalidRequest(
                f"There is no open question {resolution.interrupt_id!r} here.", code="unknown_interrupt"
            )
        if interrupt.id in answered:
            raise InvalidRequest(f"{interrupt.id} was answered twice.", code="answered_twice")
        answered.add(interrupt.id)
    if missing := [id for id in open if id not in answered]:
        raise InvalidRequest(
            f"All open questions are answered together; missing: {', '.join(missing)}.", code="missing_answer"
        )
    for resolution in resolutions:
        _check_answer(open[resolution.interrupt_id], resolution, tools, now)


def _check_answer(interrupt: Interrupt, resolution: Resolution, tools: ToolRegistry, now: datetime) -> None:
    if resolution.status == "cancelled":
        return
    if is_expired(interrupt, now):
        raise InvalidRequest(
            f"The time to answer {interrupt.id} is over; it can only be cancelled.", code="interrupt_expired"
        )
    if resolution.status == "denied":
        return
    name = str((interrupt.metadata or {}).get("toolName", ""))
    tool = _reach(interrupt, tools, name)
    if tool is None:
        raise InvalidRequest(
            f"There is no tool {name!r} any more; this can only be cancelled or denied.", code="unknown_tool"
        )
    if resolution.edited_args is not None:
        try:
            tool.read(dump(plain(resolution.edited_args)))
        except InvalidArguments as error:
            raise InvalidRequest(f"The edited arguments do not fit: {error}", code=error.code) from error


def _reach(interrupt: Interrupt, tools: ToolRegistry, name: str) -> Tool | None:
    """The tool of the call, through the subagents that lead to it."""
    for call in (interrupt.metadata or {}).get("path", ()):
        outer = tools.get(str(call.get("toolName")))
        if outer is None or outer.inner is None:
            return None
        tools = outer.inner
    return tools.get(name)


def is_expired(interrupt: Interrupt, now: datetime) -> bool:
    return interrupt.expires_at is not None and datetime.fromisoformat(interrupt.expires_at) <= now
