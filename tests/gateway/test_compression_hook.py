"""The compression hook: what is cut before the first round, the model reads back by its key."""

from __future__ import annotations

import json
import re

import pytest

from agent.compression import PAGE
from chatsite.gateway.hooks.compression import NO_SUCH_KEY, hook
from tests.gateway.hook_values import context, results_in, turn


@pytest.fixture(autouse=True)
def _limits(settings):
    settings.COMPRESSION_ABOVE, settings.COMPRESSION_KEEP = 3_000, 2


def long_talk(dialect, size=30_000, **more):
    story = "word " * (size // 5)
    said = [("user", "First"), ("assistant", story), ("user", "Next"), ("assistant", "Yes"), ("user", "Last")]
    return context(dialect, messages=[{"role": role, "content": text} for role, text in said], **more)


def key_in(body):
    return re.search(r"ctx_[0-9a-f]{16}", json.dumps(body))[0]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_what_was_cut_comes_back_page_by_page(dialect):
    call = long_talk(dialect)
    story = call.messages[1]["content"]
    assert hook.wants(call)
    body = await hook.pre_call(call.body, call)
    key = key_in(body["messages"])
    asked = turn(
        ("c1", "fetch_context", {"key": key}),
        ("c2", "fetch_context", {"key": f" {key} ", "start": PAGE}),
        ("c3", "mine", {}),
    )
    assert [each.id for each in await hook.claims(asked, call)] == ["c1", "c2"]
    said = results_in(await hook.look(asked, call))
    first, note = said["c1"].rsplit("\n", 1)
    assert first + said["c2"] == story
    assert f"start={PAGE}" in note


@pytest.mark.parametrize(
    "arguments",
    [{}, {"key": "ctx_0"}, {"key": 7}, {"key": None, "start": "x"}, {"_unparsed": '{"key": "c'}],
)
async def test_a_key_that_names_nothing_is_text(arguments):
    call = long_talk("openai")
    await hook.pre_call(call.body, call)
    plan = await hook.look(turn(("c1", "fetch_context", arguments)), call)
    assert results_in(plan)["c1"] == NO_SUCH_KEY


async def test_one_request_cannot_read_what_was_cut_from_another():
    call, other = long_talk("openai"), long_talk("openai", 40_000)
    key = key_in((await hook.pre_call(call.body, call))["messages"])
    await hook.pre_call(other.body, other)
    plan = await hook.look(turn(("c1", "fetch_context", {"key": key})), other)
    assert results_in(plan)["c1"] == NO_SUCH_KEY


def test_a_request_for_several_answers_is_not_wanted():
    assert not hook.wants(long_talk("openai", n=2))


def test_a_short_request_is_not_wanted():
    assert not hook.wants(long_talk("openai", 100))


async def test_a_tool_of_the_callers_own_by_that_name_is_left_alone():
    tool = {"type": "function", "function": {"name": "fetch_context", "parameters": {}}}
    call = long_talk("openai", tools=[tool])
    assert await hook.pre_call(call.body, call) is None
    asked = turn(("c1", "fetch_context", {"key": "x"}))
    assert await hook.claims(asked, call) is None
    assert await hook.look(asked, call) is None
