"""What this site says to a tool call before anybody is asked: allow, deny, or leave it to the tool.

| rule, the first that fits | verdict |
|---|---|
| the tool has a permission that its user has not | deny |
| a standing rule of the thread allows the tool | allow |
| otherwise | what the tool says for itself |

The admin's policy per group (allow, ask, deny) will stand between the first two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from agent import Tool
from agent.context import Policy, Verdict
from agent.messages import ToolCallPart


def of_thread(user: Any, always_allowed: Collection[str]) -> Policy:
    """The policy of one run: whose it is, and which tools its thread always allows."""

    async def judge(call: ToolCallPart, arguments: Mapping[str, Any], tool: Tool) -> Verdict | None:
        if tool.permission and not await user.ahas_perm(tool.permission):
            return "deny"
        return "allow" if tool.name in always_allowed else None

    return judge
