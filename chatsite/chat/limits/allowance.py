"""What somebody may use here: by their policy, and by the key that they came with.

`agents` narrows models and tools by it, `policy` the calls of a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent import Tool
from chatsite.accounts.keys import KeyView
from chatsite.chat import db
from chatsite.policies import quotas, rules
from chatsite.policies.quotas import Account
from chatsite.policies.values import ASK, DENY, NO_POLICY, Policy


@dataclass(frozen=True, slots=True)
class Allowance:
    policy: Policy = NO_POLICY
    key: KeyView | None = None
    user_pk: Any = None

    def opens(self, model: str) -> bool:
        return self.policy.may_use(model) and (self.key is None or self.key.may_use(model))

    def denies(self, tool: str) -> bool:
        return self.policy.rule_of(tool) == DENY

    def asks_for(self, tool: Tool) -> bool:
        """Whether a person may be asked before the tool runs."""
        if self.policy.is_allowed_by_name(tool.name):
            return False
        return bool(tool.needs_approval) or self.policy.rule_of(tool.name) == ASK

    @property
    def accounts(self) -> tuple[Account, ...]:
        """Whose limits hold: the person's, their groups', their key's. Empty when there are none."""
        key = None if self.key is None else quotas.account_of_key(self.key)
        theirs = quotas.accounts_of(self.user_pk, self.policy)
        return theirs if key is None else (*theirs, key)

    @property
    def rules_tools(self) -> bool:
        return bool(self.policy.tools)


EVERYTHING = Allowance()


async def of(user: Any) -> Allowance:
    """Costs no query while no administrator has set anything."""
    policy = await policy_of(user)
    key = getattr(user, "came_by", None)
    return EVERYTHING if policy is NO_POLICY and key is None else Allowance(policy, key, user.pk)


async def policy_of(user: Any) -> Policy:
    return rules.known(user.pk) or await db.read(rules.policy_of, user)
