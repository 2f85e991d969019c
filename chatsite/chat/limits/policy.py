"""What this site says to a tool call before anybody is asked: allow, ask, deny, or leave it to the tool.

| rule, the first that fits | verdict |
|---|---|
| the tool has a permission that its user has not, or the user is deactivated | deny |
| the user's groups deny the tool | deny |
| a standing rule of the thread allows the tool | allow |
| the user's groups allow it by name | allow, also where the tool wants to ask |
| they say ask | ask |
| otherwise (also: allowed by `*`) | what the tool says for itself |

So "always in this thread" settles what a group wants asked, for it is the person's own answer; what is denied nobody
can allow. Asked anew for each call, since a rule may be taken back while the run is at work. A client's tool is the
client's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model

from agent import Tool
from agent.context import Policy, Verdict
from agent.messages import ToolCallPart
from chatsite.chat import db
from chatsite.chat.limits import allowance
from chatsite.chat.models import ApprovalRule
from chatsite.policies.values import ALLOW, ASK, DENY, Rule


def of_thread(user: Any, thread_pk: int) -> Policy:
    """The policy of one run: whose it is, and of which thread."""

    async def judge(call: ToolCallPart, arguments: Mapping[str, Any], tool: Tool) -> Verdict | None:
        if tool.execute is None:
            return None
        rule = await _rule_of(user, tool.name)
        if rule == DENY:
            return "deny"
        if not tool.permission and not tool.needs_approval and rule is None:
            return None
        return await db.read(_verdict, user.pk, thread_pk, tool, rule)

    return judge


async def _rule_of(user: Any, tool: str) -> Rule | None:
    """None also for what is allowed by `*`, which says nothing but that it is not denied."""
    policy = await allowance.policy_of(user)
    rule = policy.rule_of(tool)
    return None if rule == ALLOW and not policy.is_allowed_by_name(tool) else rule


def _verdict(user_pk: Any, thread_pk: int, tool: Tool, rule: Rule | None) -> Verdict | None:
    if tool.permission:
        user = get_user_model().objects.filter(pk=user_pk, is_active=True).first()
        if user is None or not user.has_perm(tool.permission):
            return "deny"
    if rule == ALLOW or ApprovalRule.objects.filter(thread_id=thread_pk, tool_name=tool.name).exists():
        return "allow"
    return "ask" if rule == ASK else None
