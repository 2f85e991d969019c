"""What the groups of a key's user let them use holds at the gateway."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace

import pytest
from django.db import OperationalError

from agent import ToolRegistry, tool
from chatsite.accounts.keys import new_api_key
from chatsite.gateway import allowance
from chatsite.gateway.errors import Refused
from chatsite.gateway.hooks.server_tools import ServerTools
from chatsite.policies import rules
from chatsite.policies.models import GroupPolicy
from tests.gateway.conftest import off_loop
from tests.gateway.hook_values import context, results_in, turn
from tests.gateway.served import CHAT, MESSAGES, MODEL, asking, least_seconds, openai_at, serve


async def everybody_may(**fields: object) -> None:
    await off_loop(lambda: GroupPolicy.objects.update_or_create(group=None, defaults=fields))
    rules.forget()


async def test_a_model_that_is_not_theirs_is_not_listed_and_unknown_in_either_dialect(http, standin):
    serve(openai_at(standin))
    await everybody_may(allowed_models=["demo"])
    assert [each["id"] for each in (await http.get("/v1/models")).json()["data"]] == ["demo"]
    assert (await http.get(f"/v1/models/{MODEL}")).status_code == 404
    for path in (CHAT, MESSAGES, f"{MESSAGES}/count_tokens"):
        refused, unknown = [await http.post(path, json=asking() | {"model": name}) for name in (MODEL, "no")]
        assert refused.status_code == unknown.status_code == 404
        words = [answer.json()["error"]["message"] for answer in (refused, unknown)]
        assert words[0].replace(MODEL, "no") == words[1]
    assert standin.exchanges == []
    await everybody_may(allowed_models=[f"{MODEL[:4]}*"])
    assert (await http.post(CHAT, json=asking())).status_code == 200


async def test_the_list_of_a_key_and_the_policy_of_its_user_both_hold(http, person, standin):
    serve(openai_at(standin))
    narrow = await off_loop(lambda: new_api_key(person, allowed_models=[MODEL]))
    await everybody_may(allowed_models=["demo"])
    headers = {"authorization": f"Bearer {narrow}"}
    assert (await http.get("/v1/models", headers=headers)).json()["data"] == []
    assert (await http.post(CHAT, json=asking(), headers=headers)).status_code == 404


async def test_asking_costs_next_to_nothing_while_there_is_no_policy(person):
    await allowance.policy_of(person.pk)
    assert await least_seconds(partial(allowance.policy_of, person.pk)) < 0.000_02


async def test_what_was_known_holds_while_the_database_is_away_and_nobody_is_let_in_unknown(
    person, monkeypatch
):
    await everybody_may(allowed_models=["demo"])
    known = await allowance.policy_of(person.pk)

    def away(pk):
        raise OperationalError("away")

    monkeypatch.setattr(rules, "policy_of_pk", away)
    now = time.monotonic()
    monkeypatch.setattr(rules, "time", SimpleNamespace(monotonic=lambda: now + 20))
    assert await allowance.policy_of(person.pk) == known
    monkeypatch.setattr(rules, "time", SimpleNamespace(monotonic=lambda: now + 40))
    with pytest.raises(Refused) as refused:
        await allowance.policy_of(person.pk)
    assert refused.value.status == 503


# -- the server's tools --------------------------------------------------------------------------------------


@tool
def look() -> str:
    """Look."""
    return "seen"


@tool(needs_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


class Kept:
    async def claim(self, call, tool_call, arguments): ...

    async def settle(self, call, result): ...


@pytest.mark.parametrize(
    ("tools", "approved", "name", "answer"),
    [
        ({}, (), "look", "seen"),
        ({"look": "deny"}, (), "look", "unknown_tool"),
        ({"*": "deny"}, ("look",), "look", "unknown_tool"),
        ({"look": "ask"}, (), "look", "approval_required"),
        ({"look": "ask"}, ("look",), "look", "approval_required"),
        ({}, (), "pay", "approval_required"),
        ({"*": "allow"}, (), "pay", "approval_required"),
        ({"pay": "allow"}, (), "pay", "paid"),
        ({}, ("pay",), "pay", "paid"),
        ({"pay": "deny"}, ("pay",), "pay", "unknown_tool"),
    ],
)
async def test_rules_of_tools_hold_for_the_servers_tools(person, tools, approved, name, answer):
    await everybody_may(tools=tools)
    hook = ServerTools(ToolRegistry([look, pay]), approved=frozenset(approved), kept=Kept())
    call = context("openai", tools=[{"type": "threadloom", "name": name}])
    call.user_id = person.pk
    made = await hook.pre_call(call.body, call)
    if not isinstance(made, dict):
        assert made.code == answer
        return
    plan = await hook.look(turn(("c1", name, {})), call)
    assert results_in(plan) == {"c1": answer}


async def test_a_tool_that_is_denied_after_it_was_asked_for_does_not_run(person):
    hook = ServerTools(ToolRegistry([look, pay]), kept=Kept())
    call = context("openai", tools=[{"type": "threadloom", "name": "look"}])
    call.user_id = person.pk
    await hook.pre_call(call.body, call)
    await everybody_may(tools={"look": "deny"})
    plan = await hook.look(turn(("c1", "look", {})), call)
    assert "not allowed" in results_in(plan)["c1"]
