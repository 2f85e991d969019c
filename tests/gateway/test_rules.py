"""The rules hook: requests are refused, masked and capped, answers reported, by lines of the settings."""

from __future__ import annotations

import logging

import pytest

from agent.rerun import Refusal
from chatsite.gateway.hooks.rules import hook, read_rules
from tests.gateway.hook_values import context

RULES = """
# What does not leave the house
refuse codename (?i)nightingale
mask card \\b\\d{4}-\\d{4}\\b
cap 500
report apology (?i)i am sorry
"""


@pytest.fixture(autouse=True)
def _rules(settings):
    settings.GATEWAY_RULES = RULES


async def made(dialect="openai", **body):
    call = context(dialect, **body)
    return await hook.pre_call(call.body, call)


PLACES = {
    "text": {"messages": [{"role": "user", "content": "%"}]},
    "block": {"messages": [{"role": "user", "content": [{"type": "text", "text": "%"}]}]},
    "system": {"system": "%", "messages": []},
    "system blocks": {"system": [{"type": "text", "text": "%"}], "messages": []},
    "tool message": {"messages": [{"role": "tool", "tool_call_id": "c", "content": "%"}]},
    "tool result": {
        "messages": [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "%"}]}
        ]
    },
    "arguments": {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"x": "%"}'}}],
            }
        ]
    },
    "input": {
        "messages": [
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"x": ["%"]}}],
            }
        ]
    },
}


def filled(value, text):
    if isinstance(value, str):
        return value.replace("%", text)
    if isinstance(value, list):
        return [filled(item, text) for item in value]
    return {key: filled(inner, text) for key, inner in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("place", PLACES)
async def test_a_text_that_must_not_leave_is_refused_wherever_it_stands(place, caplog):
    with caplog.at_level(logging.INFO, "chatsite"):
        refusal = await made(**filled(PLACES[place], "about Project Nightingale"))
    assert isinstance(refusal, Refusal)
    assert refusal.status == 403
    assert "'codename'" in refusal.reason
    assert "Nightingale" not in refusal.reason + caplog.text
    assert "codename [req_1]" in caplog.text


@pytest.mark.parametrize("place", PLACES)
async def test_what_must_not_be_read_is_masked_wherever_it_stands(place):
    new = await made(**filled(PLACES[place], "my 1234-5678 and 8765-4321"))
    for name, value in filled(PLACES[place], "my [card] and [card]").items():
        assert new[name] == value


async def test_names_ids_thinking_and_pictures_are_no_texts():
    blocks = [
        {"type": "thinking", "thinking": "nightingale 1234-5678", "signature": "nightingale"},
        {"type": "tool_use", "id": "nightingale", "name": "nightingale", "input": {}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "1234-5678"}},
    ]
    messages = [{"role": "assistant", "content": blocks}]
    assert (await made("anthropic", messages=messages))["messages"] == messages


@pytest.mark.parametrize(
    ("given", "then"),
    [
        ({"max_tokens": 4000}, {"max_tokens": 500}),
        ({"max_tokens": 20}, {"max_tokens": 20}),
        ({"max_tokens": None, "max_completion_tokens": 900}, {"max_completion_tokens": 500}),
        ({"max_tokens": None}, {"max_tokens": 500}),
        ({"max_tokens": None, "model": "gpt-5"}, {"max_completion_tokens": 500}),
        ({"max_tokens": "x"}, {"max_tokens": 500}),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, {"thinking": {"type": "disabled"}}),
    ],
)
async def test_no_more_tokens_than_the_cap(given, then):
    new = await made(**given)
    assert {name: new[name] for name in then} == then


async def test_a_budget_for_thinking_fits_below_the_cap(settings):
    settings.GATEWAY_RULES = "cap 3000"
    new = await made("anthropic", max_tokens=9000, thinking={"type": "enabled", "budget_tokens": 5000})
    assert new["thinking"]["budget_tokens"] < new["max_tokens"] == 3000


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"role": "assistant", "content": "I am sorry, no."}}]},
        {"type": "message", "content": [{"type": "text", "text": "I am sorry, no."}]},
    ],
)
async def test_an_answer_that_fits_is_reported_without_its_words(answer, caplog):
    assert await hook.post_call(answer, context("openai")) is None
    assert "apology [req_1]" in caplog.text
    assert "sorry" not in caplog.text


async def test_an_answer_that_does_not_fit_is_not_reported(caplog):
    await hook.post_call({"choices": [{"message": {"content": "Yes."}}]}, context("openai"))
    assert caplog.text == ""


def test_without_rules_nothing_is_wanted(settings):
    assert hook.wants(context("openai"))
    settings.GATEWAY_RULES = "# none\n\n"
    assert not hook.wants(context("openai"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("refuse codename", "line 1: write refuse NAME REGEX"),
        ("\nallow x y", "line 2: write refuse NAME REGEX"),
        ("cap 0", "line 1: write"),
        ("cap many", "line 1: write"),
        ("mask x (", "line 1: "),
        ("mask x a*", "line 1: this regular expression fits every text"),
    ],
)
def test_a_line_that_is_no_rule_is_named(text, why):
    with pytest.raises(ValueError) as error:
        read_rules(text)
    assert str(error.value).startswith(why)
