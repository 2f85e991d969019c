"""The server's tools, for gateway callers that ask for them: what is refused, what runs, and what is kept of it."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection

from agent import ToolContext, ToolError, ToolRegistry, tool
from agent.events import TurnEnd
from agent.mcp import Servers, read_servers
from agent.messages import ImagePart, Message, ToolCallPart
from agent.rerun import Refusal, turn_of
from chatsite.gateway.hooks import server_tools as module
from chatsite.gateway.hooks.server_tools import ServerTools
from chatsite.gateway.models import ExchangeCall
from tests.gateway.conftest import off_loop
from tests.gateway.hook_values import context, results_in, turn
from tests.mcp_server import be_patient, stand_in


class Kept:
    """A ledger in memory: what was claimed, and what became of it, in order."""

    def __init__(self, fails: bool = False) -> None:
        self.said: list[tuple] = []
        self.fails = fails
        self.settled = asyncio.Event()

    async def claim(self, call, tool_call, arguments):
        if self.fails:
            raise OSError("no space left")
        self.said.append(("claim", tool_call.id, tool_call.name, dict(arguments)))

    async def settle(self, call, result):
        self.said.append(("settle", result.tool_call_id, result.error))
        self.settled.set()


ran: list[str] = []


@tool
def get_weather(city: str) -> dict:
    """The weather in a city."""
    ran.append(city)
    if city == "nowhere":
        raise ToolError("no such city", code="no_city")
    return {"city": city, "temperature": 62}


@tool(needs_approval=True)
def send_email(to: str) -> str:
    """Sends an email."""
    ran.append(to)
    return "sent"


@tool(needs_approval=lambda arguments: arguments["amount"] > 10)
def pay(amount: int) -> str:
    """Pays."""
    ran.append(str(amount))
    return "paid"


@tool(permission="auth.view_user")
def list_people(ctx: ToolContext) -> str:
    """Lists people."""
    return f"asked by {ctx.user.username}"


@tool
def draw() -> ImagePart:
    """A picture."""
    return ImagePart("image/png", data="AAAA")


TOOLS = ToolRegistry([get_weather, send_email, pay, list_people, draw])


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def hook(kept):
    return ServerTools(ToolRegistry([get_weather, send_email, pay, draw]), kept=kept)


def asking(*names, dialect="openai", **body):
    body["tools"] = [*body.get("tools", ()), *({"type": "threadloom", "name": name} for name in names)]
    call = context(dialect, **body)
    call.exchange_id = "e1"
    return call


async def look(hook, call, *calls):
    assert not isinstance(await hook.pre_call(call.body, call), Refusal)
    return await hook.look(turn(*calls), call)


# -- asking --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_what_is_asked_for_becomes_a_function_tool_among_the_callers_own(hook, dialect):
    own = {"name": "mine", "input_schema": {}}
    call = asking("get_weather", dialect=dialect, tools=[own])
    call.asked_tools = ("pay",)
    assert hook.wants(call)
    body = await hook.pre_call(call.body, call)
    first, *added = body["tools"]
    assert first == own
    functions = [entry["function"] if dialect == "openai" else entry for entry in added]
    assert [function["name"] for function in functions] == ["get_weather", "pay"]
    schema = functions[0]["parameters" if dialect == "openai" else "input_schema"]
    assert schema["required"] == ["city"]


def test_a_request_that_asks_for_nothing_is_not_wanted(hook):
    for tools in ([], [{"name": "get_weather"}], "nonsense", [None, {"type": "function"}]):
        assert not hook.wants(context("openai", tools=tools))


@pytest.mark.parametrize(
    ("dialect", "then"),
    [
        ("openai", {"type": "function", "function": {"name": "get_weather"}}),
        ("anthropic", {"type": "tool", "name": "get_weather"}),
    ],
)
async def test_the_choice_of_one_is_in_the_callers_dialect(hook, dialect, then):
    call = asking("get_weather", dialect=dialect, tool_choice={"type": "threadloom", "name": "get_weather"})
    assert (await hook.pre_call(call.body, call))["tool_choice"] == then


async def test_asked_for_twice_is_once_and_the_mark_of_the_prompt_cache_stays(hook):
    call = asking("get_weather", "get_weather", dialect="anthropic")
    call.body["tools"][0]["cache_control"] = {"type": "ephemeral"}
    call.asked_tools = ("get_weather",)
    [tool] = (await hook.pre_call(call.body, call))["tools"]
    assert tool["cache_control"] == {"type": "ephemeral"}


async def refusal(hook, call):
    answer = await hook.pre_call(call.body, call)
    assert isinstance(answer, Refusal)
    return answer


async def test_an_unknown_name_is_refused_with_those_that_there_are(hook):
    said = await refusal(hook, asking("get_weather", "fly"))
    assert said.status == 400
    assert said.reason == ("tools[1].name: there is no server tool 'fly'; there are draw, get_weather, pay")
    call = context("openai")
    call.asked_tools = ("fly",)
    assert (await refusal(hook, call)).reason.startswith("x-threadloom-tools: there is no server tool 'fly'")


async def test_where_there_are_no_tools_that_is_said():
    said = await refusal(ServerTools(ToolRegistry()), asking("get_weather"))
    assert "gives its callers no tools" in said.reason


@pytest.mark.parametrize("name", [None, "", 7, ["get_weather"]])
async def test_a_name_that_is_none_is_refused(hook, name):
    assert (await refusal(hook, asking(name))).reason.startswith("tools[0].name: must be")


async def test_a_tool_that_the_caller_declares_as_well_is_refused(hook):
    call = asking("get_weather", tools=[{"type": "function", "function": {"name": "get_weather"}}])
    assert "keep one of them" in (await refusal(hook, call)).reason


async def test_a_tool_that_needs_a_persons_yes_is_refused_unless_the_settings_allow_it(hook, kept):
    said = await refusal(hook, asking("send_email"))
    assert (said.status, said.code) == (403, "approval_required")
    assert "nobody can be asked here" in said.reason
    allowing = ServerTools(TOOLS, approved=frozenset({"send_email"}), kept=kept)
    plan = await look(allowing, asking("send_email"), ("c1", "send_email", {"to": "ada"}))
    assert results_in(plan) == {"c1": "sent"}


@pytest.mark.django_db(transaction=True)
async def test_a_tool_with_a_permission_is_only_there_for_who_has_it(kept):
    hook = ServerTools(TOOLS, kept=kept)
    ada = await off_loop(lambda: User.objects.create(username="ada"))
    call = asking("list_people")
    call.user_id = ada.pk
    assert "there is no server tool 'list_people'" in (await refusal(hook, call)).reason
    await off_loop(lambda: ada.user_permissions.add(Permission.objects.get(codename="view_user")))
    plan = await look(hook, call, ("c1", "list_people", {}))
    assert results_in(plan) == {"c1": "asked by ada"}


# -- running -------------------------------------------------------------------------------------------------


async def test_calls_run_and_are_in_the_ledger_before_and_after(hook, kept):
    call = asking("get_weather")
    plan = await look(hook, call, ("c1", "get_weather", {"city": "SF"}), ("c2", "mine", {}))
    assert results_in(plan) == {"c1": '{"city":"SF","temperature":62}'}
    assert plan.request_patch.messages[: len(call.messages)] == call.messages
    assert kept.said == [("claim", "c1", "get_weather", {"city": "SF"}), ("settle", "c1", None)]


async def test_calls_of_others_are_not_its_affair(hook):
    call = asking("pay")
    await hook.pre_call(call.body, call)
    asked = turn(("c1", "get_weather", {"city": "SF"}), ("c2", "mine", {}))
    assert await hook.claims(asked, call) is None
    assert await hook.look(asked, call) is None
    assert ran == []


async def test_wrong_arguments_and_failures_are_error_results(hook, kept):
    call = asking("get_weather")
    wrong = [("c1", "get_weather", {"town": "SF"}), ("c2", "get_weather", {"city": "nowhere"})]
    plan = await look(hook, call, *wrong)
    said = results_in(plan)
    assert "city: " in said["c1"]
    assert "no such city" in said["c2"]
    assert all(block["is_error"] for block in plan.request_patch.messages[-1]["content"])
    # What never began is not in the ledger.
    assert kept.said == [("claim", "c2", "get_weather", {"city": "nowhere"}), ("settle", "c2", "no_city")]


async def test_a_call_that_needs_a_yes_for_its_arguments_does_not_run(hook):
    plan = await look(hook, asking("pay"), ("c1", "pay", {"amount": 5}), ("c2", "pay", {"amount": 50}))
    said = results_in(plan)
    assert said["c1"] == "paid"
    assert "nobody can be asked here" in said["c2"]
    assert ran == ["5"]


async def test_calls_of_a_turn_that_was_cut_off_do_not_run(hook):
    call = asking("get_weather")
    await hook.pre_call(call.body, call)
    cut = Message("m", "assistant", (ToolCallPart("c1", "get_weather", '{"city": "S'),))
    plan = await hook.look(turn_of(cut, TurnEnd("length"), "m"), call)
    assert "cut off by the output limit" in results_in(plan)["c1"]
    assert ran == []


async def test_a_turn_that_the_provider_filtered_ends_the_loop(hook):
    call = asking("get_weather")
    await hook.pre_call(call.body, call)
    filtered = Message("m", "assistant", (ToolCallPart("c1", "get_weather", '{"city": "SF"}'),))
    plan = await hook.look(turn_of(filtered, TurnEnd("content_filter"), "m"), call)
    assert plan.terminate
    assert ran == []


async def test_an_id_that_a_model_uses_again_is_two_calls_in_the_ledger(hook, kept):
    call = asking("get_weather")
    await look(hook, call, ("call_1", "get_weather", {"city": "SF"}))
    plan = await hook.look(turn(("call_1", "get_weather", {"city": "LA"})), call)
    assert list(results_in(plan)) == ["call_1"]
    claimed = [said[1] for said in kept.said if said[0] == "claim"]
    assert len(set(claimed)) == 2


async def test_a_picture_goes_back_as_one(hook):
    plan = await look(hook, asking("draw"), ("c1", "draw", {}))
    [block] = results_in(plan)["c1"]
    assert block["type"] == "image"


@pytest.mark.django_db(transaction=True)
async def test_the_row_is_there_before_the_tool_starts_and_says_how_it_ended():
    seen = []

    @tool
    def look_at_the_ledger() -> str:
        """Looks."""
        seen.extend(ExchangeCall.objects.values_list("call_id", "name", "state"))
        connection.close()
        return "seen"

    call = asking("look_at_the_ledger")
    call.keep = "full"
    await look(ServerTools(ToolRegistry([look_at_the_ledger])), call, ("c1", "look_at_the_ledger", {}))
    assert seen == [("c1", "look_at_the_ledger", "claimed")]
    row = await off_loop(ExchangeCall.objects.get)
    assert (row.exchange_id, row.state, row.result, row.error_code) == ("e1", "done", "seen", "")


async def test_a_tool_does_not_start_when_the_ledger_cannot_keep_it(caplog):
    hook = ServerTools(TOOLS, kept=Kept(fails=True))
    with caplog.at_level(logging.CRITICAL):
        plan = await look(hook, asking("get_weather"), ("c1", "get_weather", {"city": "SF"}))
    assert "internal error" in results_in(plan)["c1"]
    assert "no space left" not in results_in(plan)["c1"]
    assert ran == []


async def test_a_result_that_cannot_be_kept_still_goes_to_the_model(hook, kept, caplog):
    async def settle(call, result):
        raise OSError("no space left")

    kept.settle = settle
    plan = await look(hook, asking("get_weather"), ("c1", "get_weather", {"city": "SF"}))
    assert "62" in results_in(plan)["c1"]
    assert "could not be kept" in caplog.text


async def test_when_the_caller_leaves_the_tools_stop_and_the_ledger_says_so(kept):
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_ever() -> str:
        """Waits."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    hook = ServerTools(ToolRegistry([wait_for_ever]), kept=kept)
    work = asyncio.create_task(look(hook, asking("wait_for_ever"), ("c1", "wait_for_ever", {})))
    async with asyncio.timeout(20):
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await stopped.wait()
        await kept.settled.wait()
    assert kept.said[-1] == ("settle", "c1", "aborted")


async def test_a_tool_without_a_limit_has_one_here(kept, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.1)
    release = threading.Event()

    @tool
    def hang() -> str:
        """Hangs."""
        release.wait(30)
        return ""

    plan = await look(ServerTools(ToolRegistry([hang]), kept=kept), asking("hang"), ("c1", "hang", {}))
    release.set()
    assert "no answer within 0.1 s" in results_in(plan)["c1"]


async def test_the_calls_of_a_turn_have_an_end_together(kept, monkeypatch):
    monkeypatch.setattr(module, "ALL_SECONDS", 1.0)

    @tool(parallel_safe=False, timeout=30)
    async def slow() -> str:
        """Is slow."""
        await asyncio.sleep(30)
        return ""

    hook = ServerTools(ToolRegistry([slow]), kept=kept)
    plan = await look(hook, asking("slow"), ("c1", "slow", {}), ("c2", "slow", {}))
    said = results_in(plan)
    assert "stopped while this call ran" in said["c1"]
    assert "stopped before this call began" in said["c2"]
    assert kept.said == [("claim", "c1", "slow", {}), ("settle", "c1", "aborted")]


@pytest.mark.slow
async def test_tools_of_an_mcp_server_are_asked_for_like_any_other(tmp_path, monkeypatch):
    """They are known only when that server was asked, behind the making of the hook."""
    be_patient(monkeypatch)
    kept, servers = Kept(), None
    hook = ServerTools(lambda: ToolRegistry(servers.tools() if servers else ()), kept=kept)
    said = await refusal(hook, asking("s__add"))
    assert "gives its callers no tools" in said.reason
    with stand_in(tmp_path) as running:
        servers = Servers(read_servers({"s": {"url": running.at()}}))
        try:
            await servers.look()
            plan = await look(hook, asking("s__add", dialect="anthropic"), ("c1", "s__add", {"a": 2, "b": 3}))
            assert (await refusal(hook, asking("s__write"))).code == "approval_required"
        finally:
            servers.close()
    assert results_in(plan) == {"c1": "5"}
    assert [line[0] for line in kept.said] == ["claim", "settle"]
