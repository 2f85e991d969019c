"""What this site says to a tool call before anybody is asked: allow, deny, or leave it to the tool.

| rule, the first that fits | verdict |
|---|---|
| the tool has a permission that its user has not, or the user is deactivated | deny |
| a standing rule of the thread allows the tool | allow |
| otherwise | what the tool says for itself |

Asked anew for each call, since a rule may be taken back while the run is at work. The admin's policy per group
(allow, ask, deny) will stand between the first two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model

from agent import Tool
from agent.context import Policy, Verdict
from agent.messages import ToolCallPart
from chatsite.chat import db
from chatsite.chat.models import ApprovalRule


def of_thread(user: Any, thread_pk: int) -> Policy:
    """The policy of one run: whose it is, and of which thread."""

    async def judge(call: ToolCallPart, arguments: Mapping[str, Any], tool: Tool) -> Verdict | None:
        if not tool.permission and not tool.needs_approval:
            return None
        return await db.read(_verdict, user.pk, thread_pk, tool)

    return judge


def _verdict(user_pk: Any, thread_pk: int, tool: Tool) -> Verdict | None:
    if tool.permission:
        user = get_user_model().objects.filter(pk=user_pk, is_active=True).first()
        if user is None or not user.has_perm(tool.permission):
            return "deny"
    ruled = ApprovalRule.objects.filter(thread_id=thread_pk, tool_name=tool.name).exists()
    return "allow" if ruled else None
