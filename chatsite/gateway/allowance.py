"""What the user of a key may use here: by their policy and by the key's own list of models.

Asking costs a look into a dict; every few seconds one request of a user waits for the database, as for its key.
"""

from __future__ import annotations

import logging

from django.db import DatabaseError

from chatsite.accounts.keys import KeyView
from chatsite.gateway import auth
from chatsite.gateway.errors import Refused
from chatsite.policies import rules
from chatsite.policies.values import Policy

log = logging.getLogger(__name__)


async def policy_of(user_pk: int) -> Policy:
    """Raises Refused when nobody can say it."""
    return rules.known(user_pk) or await _asked(user_pk)


async def _asked(user_pk: int) -> Policy:
    try:
        return await auth.in_thread(rules.policy_of_pk, user_pk)
    except DatabaseError as error:
        policy = rules.known(user_pk, within=auth.WHILE_DOWN)
        if policy is not None:
            return policy
        log.warning("a policy could not be looked up: %s", error)
        message = "What you may use cannot be looked up at the moment. Try again soon."
        raise Refused(503, "not_stored", message, headers={"retry-after": "5"}) from None


def opens(key: KeyView, policy: Policy, model: str) -> bool:
    return key.may_use(model) and policy.may_use(model)
