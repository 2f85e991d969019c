"""Runs that end with a value of a given form."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from agent import Agent, AgentRun, InvalidRequest, Transcript, run_agent, tool, user_message
from agent import events as ev
from agent.errors import ProviderError
from agent.messages import Usage
from agent.output import Output, is_strict
from agent.providers.scripted import ScriptedProvider, Turn
from agent.tools import InvalidArguments
from agent.wire import openai_chat
from agent.wire.agui import decode_event, encode_event
from tests.agent.runs import ASKED, context
from tests.agent.verify import verify_run


class Weather(BaseModel):
    city: str
    degrees: int
    day: date | None = None


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GOOD = '{"city": "Oslo", "degrees": 3, "day": "2030-01-02"}'
VALUE = {"city": "Oslo", "degrees": 3, "day": "2030-01-02"}
ran: list[str] = []


@tool
async def get_weather(city: str = "") -> str:
    ran.append(city)
    return "cold"


@tool(needs_approval=True)
async def risky() -> str:
    ran.append("risky")
    return "ok"


class Native(ScriptedProvider):
    native_output = True


async def asked(
    *turns: Turn,
    output: Any = Weather,
    native: bool = False,
    before: Any = (),
    input: Any = (ASKED,),
    **agent: Any,
) -> tuple[list[ev.Event], Any, Transcript]:
    ran.clear()
    provider = (Native if native else ScriptedProvider)(*turns)
    run = AgentRun(
        Agent(provider, "m", [get_weather, risky], **agent),
        Transcript(tuple(before)),
        context(),
        output=output,
    )
    events = [event async for event in run.events(input)]
    verify_run(events)
    return events, provider, run.transcript


async def test_an_answer_that_fits_is_the_result_at_once():
    events, provider, _ = await asked(Turn(GOOD))
    assert events[-1].result == VALUE
    assert (events[-1].stop_reason, len(provider.requests)) == ("stop", 1)


async def test_a_fence_around_it_is_taken_off():
    events, _, _ = await asked(Turn(f"```json\n{GOOD}\n```"))
    assert events[-1].result == VALUE


async def test_a_provider_that_keeps_to_forms_is_asked_for_it_in_every_turn():
    events, provider, _ = await asked(
        Turn(calls=[("c1", "get_weather", {})]), Turn(GOOD), native=True, parameters={"seed": 7}
    )
    assert events[-1].result == VALUE
    for request in provider.requests:
        form = request.parameters["response_format"]
        assert form["type"] == "json_schema"
        assert form["json_schema"]["name"] == "Weather"
        assert form["json_schema"]["schema"] == Weather.model_json_schema()
        assert form["json_schema"]["strict"] is False
        assert request.parameters["seed"] == 7


async def test_another_is_asked_in_a_last_turn_without_tools():
    events, provider, transcript = await asked(Turn("It is cold in Oslo."), Turn(GOOD))
    assert events[-1].result == VALUE
    last = provider.requests[-1]
    assert last.tool_choice == "none"
    assert "response_format" not in last.parameters
    assert last.transcript[-1].role == "user"
    assert '"degrees"' in last.transcript[-1].text
    # What asks stands in no record; the answer does.
    assert [message.role for message in transcript] == ["user", "assistant", "assistant"]
    assert transcript[-1].text == GOOD


async def test_the_run_is_what_it_is_without_it_tools_and_all():
    events, provider, _ = await asked(
        Turn(calls=[("c1", "get_weather", {"city": "Oslo"})]), Turn("Cold."), Turn(GOOD)
    )
    assert ran == ["Oslo"]
    assert [request.tool_choice for request in provider.requests] == ["auto", "auto", "none"]
    assert events[-1].result == VALUE


@pytest.mark.parametrize("native", [True, False])
async def test_one_repair_is_made_with_what_is_wrong(native):
    script = (
        [Turn('{"city": "Oslo"}'), Turn(GOOD)]
        if native
        else [Turn("Cold."), Turn('{"city": "Oslo"}'), Turn(GOOD)]
    )
    events, provider, _ = await asked(*script, native=native)
    assert events[-1].result == VALUE
    assert "degrees: Field required" in provider.requests[-1].transcript[-1].text


@pytest.mark.parametrize("native", [True, False])
async def test_what_does_not_fit_in_the_end_is_an_error(native):
    events, provider, _ = await asked(
        *[Turn("Cold.", usage=Usage(1, 1))] * (2 if native else 3), native=native
    )
    assert isinstance(events[-1], ev.RunError)
    assert events[-1].code == "invalid_output"
    assert len(provider.requests) == (2 if native else 3)
    assert events[-1].usage[0].usage == Usage(len(provider.requests), len(provider.requests))


async def test_a_turn_that_says_nothing_is_asked_like_any_other():
    events, _, _ = await asked(Turn(), Turn(GOOD))
    assert events[-1].result == VALUE


async def test_calls_in_the_asking_turn_are_dropped():
    events, _, _ = await asked(Turn("Cold."), Turn(calls=[("c1", "get_weather", {})]), Turn(GOOD))
    assert ran == []
    assert events[-1].result == VALUE


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_a_run_that_was_cut_off_has_no_output(reason):
    events, provider, _ = await asked(Turn('{"city": ', finish_reason=reason))
    assert (events[-1].code, len(provider.requests)) == ("invalid_output", 1)


async def test_behind_a_limit_the_output_is_still_owed_and_is_the_last_word():
    events, provider, _ = await asked(
        Turn(calls=[("c1", "get_weather", {})]), Turn(GOOD), strategy=lambda state: False, final_answer=True
    )
    assert (events[-1].stop_reason, events[-1].result, len(provider.requests)) == ("strategy", VALUE, 2)


async def test_a_run_that_must_wait_waits_and_the_next_gives_the_output():
    events, _, transcript = await asked(Turn(calls=[("c1", "risky", {})]))
    assert (events[-1].stop_reason, events[-1].result) == ("interrupt", None)
    events, _, _ = await asked(Turn(GOOD), before=transcript, input=[user_message("u2", "Just say it.")])
    assert events[-1].result == VALUE


async def test_a_json_schema_will_do():
    events, _, _ = await asked(Turn("Cold."), Turn("{}"), Turn('{"city": "Oslo"}'), output=SCHEMA)
    assert events[-1].result == {"city": "Oslo"}


@pytest.mark.parametrize("form", [int, "Weather", 7, Weather(city="x", degrees=1)])
async def test_what_is_no_form_is_refused_before_the_run(form):
    with pytest.raises(InvalidRequest):
        await asked(Turn(GOOD), output=form)


@pytest.mark.parametrize(
    "text", ["", "  ", "{", "[" * 10_000, '{"city": "\\ud800"}', "```\n```", "NaN", "null"]
)
def test_nonsense_is_no_value_and_no_crash(text):
    for form in (Weather, SCHEMA):
        with pytest.raises(InvalidArguments):
            Output(form, native=False).read(text)


async def test_a_provider_that_fails_in_the_asking_turn_is_an_error_like_any_other():
    events, _, _ = await asked(Turn("Cold."), Turn(error=ProviderError("Down.")))
    assert events[-1].code == "provider_error"


async def test_run_agent_takes_it_and_the_result_goes_over_the_wire():
    agent = Agent(ScriptedProvider(Turn(GOOD)), "m")
    events = [
        event async for event in run_agent(agent, Transcript(), context(), input=[ASKED], output=Weather)
    ]
    assert decode_event(encode_event(events[-1])).result == VALUE


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": False}, False),
        (SCHEMA, False),
        ({"type": "array", "items": SCHEMA}, False),
        ({"type": "string"}, True),
    ],
)
def test_strict_is_asked_for_where_the_form_allows_it(schema, strict):
    assert is_strict(schema) is strict


def test_an_endpoint_that_does_not_know_response_format_is_asked_without():
    body = {"model": "m", "response_format": {}, "messages": []}
    refusal = ProviderError("No.", detail="'response_format' of type json_schema is not supported")
    assert openai_chat.amend_request(body, refusal) == {"model": "m", "messages": []}
    assert openai_chat.NATIVE_OUTPUT
