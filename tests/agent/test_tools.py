"""What a tool is: from its signature to a schema, and from the model's text to arguments."""

from __future__ import annotations

import json
from datetime import date
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent import InvalidRequest, Tool, ToolContext, ToolRegistry, tool, with_client_tools
from agent.providers.base import ToolSpec
from agent.tools import InvalidArguments


class Unit(Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(BaseModel):
    title: str
    zip: str | None = None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date


@tool
def get_weather(
    city: Annotated[str, Field(description="The city's name")], days: int = 1
) -> dict[str, object]:
    """The weather in a city.

    Only for places that exist.

    Args:
        city: not this, the annotation says it better
        days (int): how many days ahead,
            today included
    Returns:
        What it is like.
    """
    return {"city": city, "days": days}


@tool
async def travel(
    to: Place, unit: Unit = Unit.C, mode: Literal["car", "train"] = "car", ctx: ToolContext = None
) -> str:  # type: ignore[assignment]
    return f"{to.title} {unit.value} {mode} {ctx.tool_call_id}"


def refusal(tool: Tool, arguments: str) -> str:
    with pytest.raises(InvalidArguments) as caught:
        tool.read(arguments)
    return str(caught.value)


# -- from the signature


def test_name_and_description_come_from_the_function():
    assert get_weather.name == "get_weather"
    assert get_weather.description == "The weather in a city.\n\nOnly for places that exist."


def test_the_schema_comes_from_the_signature():
    assert get_weather.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city's name"},
            "days": {"type": "integer", "default": 1, "description": "how many days ahead, today included"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_tool_without_parameters_has_an_object_schema_too():
    @tool
    def now() -> str:
        return ""

    assert now.description == ""
    assert {key: now.parameters[key] for key in ("type", "properties", "required")} == {
        "type": "object",
        "properties": {},
        "required": [],
    }


def test_models_enums_and_literals_are_in_the_schema_without_their_titles():
    text = json.dumps(travel.parameters)
    assert '"title": {"type": "string"}' in text  # the property of that name
    assert text.count("title") == 2  # it, and its place among the required
    assert travel.parameters["properties"]["to"] == {"$ref": "#/$defs/Place"}
    assert travel.parameters["properties"]["mode"]["enum"] == ["car", "train"]


def test_the_context_is_no_parameter_for_the_model():
    assert set(travel.parameters["properties"]) == {"to", "unit", "mode"}


def test_name_and_description_can_be_given():
    @tool(name="other-name", description="Said otherwise.")
    def something() -> None:
        """Not this."""

    assert something.spec == ToolSpec("other-name", "Said otherwise.", something.parameters)


def test_parameters_may_have_any_name():
    @tool
    def odd(
        json: str, schema: int = 1, model_config: bool = False, _private: str = "p", copy: str = "c"
    ) -> str:
        return f"{json}{schema}{model_config}{_private}{copy}"

    given = odd.read('{"json": "a", "_private": "b"}')
    assert odd.function(**given) == "a1Falsebc"
    assert set(odd.parameters["properties"]) == {"json", "schema", "model_config", "_private", "copy"}


def test_a_default_may_be_a_field():
    @tool
    def page(size: int = Field(10, description="How many", le=50)) -> int:
        return size

    assert page.read("{}") == {"size": 10}
    assert page.parameters["properties"]["size"] == {
        "type": "integer",
        "default": 10,
        "maximum": 50,
        "description": "How many",
    }
    assert "size" in refusal(page, '{"size": 51}')


def test_a_tool_can_still_be_called_as_the_function_it_is():
    assert get_weather("Oslo") == {"city": "Oslo", "days": 1}
    with pytest.raises(TypeError):
        Tool("pick", "")()


@pytest.mark.parametrize("source", ["*args", "**kwargs", "a, /"])
def test_a_function_whose_arguments_have_no_names_is_no_tool(source):
    scope: dict[str, object] = {}
    exec(f"def unnamed({source}): ...", scope)
    with pytest.raises(TypeError, match="named arguments"):
        tool(scope["unnamed"])


@pytest.mark.parametrize("name", ["", "with space", "x" * 65, "a.b", "ä"])
def test_a_name_that_no_provider_takes_is_refused(name):
    with pytest.raises(ValueError, match="tool name"):
        Tool(name, "")


def test_options_are_kept():
    options = {
        "needs_approval": True,
        "timeout": 5,
        "retries": 2,
        "parallel_safe": False,
        "idempotent": True,
        "max_output": 10,
        "permission": "chat.x",
    }

    @tool(**options)
    def careful() -> None: ...

    assert {name: getattr(careful, name) for name in options} == options


def test_options_change_nothing_by_themselves():
    assert (get_weather.needs_approval, get_weather.timeout, get_weather.retries) == (False, None, 0)
    assert (get_weather.parallel_safe, get_weather.idempotent) == (True, False)
    assert (get_weather.max_output, get_weather.permission) == (None, None)


def test_retries_without_idempotence_are_refused():
    with pytest.raises(ValueError, match="idempotent"):
        Tool("x", "", retries=1)


def test_async_functions_run_in_the_loop_and_others_in_a_thread():
    assert get_weather.blocking
    assert not travel.blocking


# -- from the model's text


def test_arguments_are_what_the_function_takes():
    assert get_weather.read('{"city": "Oslo", "days": 2}') == {"city": "Oslo", "days": 2}
    assert travel.read('{"to": {"title": "Rome"}, "unit": "fahrenheit"}') == {
        "to": Place(title="Rome"),
        "unit": Unit.F,
        "mode": "car",
    }


def test_what_is_close_enough_is_taken():
    assert get_weather.read('{"city": "Oslo", "days": "2"}')["days"] == 2


def test_a_strict_model_reads_json_as_json():
    @tool
    def on(when: Strict) -> str:
        return str(when.day)

    assert on.read('{"when": {"day": "2024-02-29"}}') == {"when": Strict(day=date(2024, 2, 29))}


@pytest.mark.parametrize("text", ["", "  ", "\n", "null", " null "])
def test_nothing_and_null_mean_no_arguments(text):
    @tool
    def now(zone: str = "UTC") -> str:
        return zone

    assert now.read(text) == {"zone": "UTC"}


def test_null_goes_to_a_schema_that_takes_null():
    seen = []
    nullable = Tool(
        "x", "", {"type": ["object", "null"]}, lambda a, c: None, check=lambda text: seen.append(text) or {}
    )
    nullable.read("null")
    nullable.read("")
    assert seen == ["null", "{}"]


@pytest.mark.parametrize("text", ["[]", '"Oslo"', "1", "true"])
def test_other_json_goes_to_the_schema_as_it_is(text):
    assert refusal(get_weather, text)
    assert "object" in refusal(Tool("x", "", execute=lambda a, c: None), text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{}", "city: "),
        ('{"city": 1}', "city: "),
        ('{"city": "Oslo", "days": "many"}', "days: "),
    ],
)
def test_a_schema_failure_names_the_path_of_what_is_wrong(text, path):
    assert path in refusal(get_weather, text)


def test_a_path_leads_all_the_way_in():
    assert "to.title: " in refusal(travel, '{"to": {"title": 5}}')


def test_arguments_that_the_function_does_not_take_are_named():
    assert "country: " in refusal(get_weather, '{"city": "Oslo", "country": "NO"}')


def test_a_refusal_does_not_repeat_the_value_and_names_five_problems_at_most():
    @tool
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    text = refusal(total, json.dumps({"numbers": ["secret" * 1000] * 50}))
    assert "numbers.0: " in text
    assert "and 45 more" in text
    assert "secret" not in text
    assert len(text) < 1000


@pytest.mark.parametrize("text", ["{", '{"city": "Os', "nonsense", "[" * 10_000 + "]" * 10_000, '"\ud800"'])
@pytest.mark.parametrize(
    "made", [get_weather, Tool("x", "", execute=lambda a, c: None)], ids=["function", "plain"]
)
def test_broken_json_is_invalid_arguments_however_deep(made, text):
    assert refusal(made, text)


def test_a_plain_tool_wants_what_its_schema_requires():
    plain = Tool("x", "", {"type": "object", "required": ["a", "b"]}, lambda a, c: None)
    assert plain.read('{"a": 1, "b": 2}') == {"a": 1, "b": 2}
    assert refusal(plain, '{"a": 1}') == "b: Field required"


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "hot": {"type": ["boolean", "null"]},
        "unit": {"enum": ["C", "F"]},
        "v": {"const": 1},
        "stops": {
            "type": "array",
            "items": {"type": "object", "required": ["at"], "properties": {"at": {"type": "number"}}},
        },
        "deep": {"type": "object", "additionalProperties": False, "properties": {"x": {}}},
        "any": {"anyOf": [{"type": "string"}]},
        "odd": True,
    },
    "required": ["city"],
}
PLAIN = Tool("plain", "", SCHEMA, lambda arguments, ctx: None)


@pytest.mark.parametrize(
    "given",
    [
        {"city": "Oslo"},
        {"city": "", "days": 2, "hot": None, "unit": "F", "v": 1, "stops": [{"at": 1.5}, {"at": 2}]},
        {"city": "Oslo", "days": 2.0, "deep": {"x": [1]}, "any": 5, "odd": 1, "unheard": "of"},
    ],
)
def test_what_fits_a_given_schema_is_taken(given):
    assert PLAIN.read(json.dumps(given)) == given


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "city: Field required"),
        ({"city": 1}, "city: Should be string"),
        ({"days": 1.5}, "days: Should be integer"),
        ({"days": True}, "days: Should be integer"),
        ({"days": None}, "days: Should be integer"),
        ({"hot": 1}, "hot: Should be boolean or null"),
        ({"unit": "K"}, "unit: Should be one of 'C', 'F'"),
        ({"v": 2}, "v: Should be 1"),
        ({"stops": [{"at": 1}, {}]}, "stops.1.at: Field required"),
        ({"stops": [{"at": "1"}]}, "stops.0.at: Should be number"),
        ({"stops": {}}, "stops: Should be array"),
        ({"deep": {"x": 1, "y": 2}}, "deep.y: No such field"),
    ],
)
def test_what_does_not_fit_a_given_schema_is_named_by_its_path(wrong, said):
    assert refusal(PLAIN, json.dumps({"city": "Oslo"} | wrong if wrong else {})) == said


def test_a_number_beyond_all_bounds_is_no_integer():
    assert "days" in refusal(PLAIN, '{"city": "Oslo", "days": 1e999}')


def test_a_type_nobody_knows_lets_everything_pass():
    assert Tool("x", "", {"type": "object", "properties": {"a": {"type": "file"}}}).read('{"a": 1}') == {
        "a": 1
    }


def test_a_model_is_told_five_problems_at_once_at_most():
    text = refusal(PLAIN, json.dumps({"city": "Oslo", "stops": [{} for _ in range(50)]}))
    assert text.count("Field required") == 5


# -- the registry


def test_a_registry_has_its_tools_by_name_in_order():
    registry = ToolRegistry([travel, get_weather])
    assert registry.get("travel") is travel
    assert registry.get("nobody") is None
    assert [spec.name for spec in registry.specs] == ["travel", "get_weather"] == list(registry.names)
    assert "travel" in registry
    assert len(registry) == 2


def test_two_tools_of_one_name_are_an_error():
    with pytest.raises(InvalidRequest, match="two tools called travel"):
        ToolRegistry([travel, Tool("travel", "")])


@pytest.mark.parametrize("needed", [True, lambda args, ctx: False])
def test_a_client_tool_asks_at_its_client_and_not_here(needed):
    with pytest.raises(InvalidRequest, match="at the client"):
        ToolRegistry([Tool("rm", "", needs_approval=needed)])


def test_a_client_brings_tools_of_its_own_and_the_servers_win():
    registry = ToolRegistry([travel])
    both = with_client_tools(registry, [ToolSpec("travel", "Mine.", {}), ToolSpec("pick", "Pick.", {})])
    assert both.get("travel") is travel
    assert (both.names, both.get("pick").execute) == (("travel", "pick"), None)
    assert with_client_tools(registry, [ToolSpec("travel", "Mine.", {})]) is registry
    assert registry.names == ("travel",)


@pytest.mark.parametrize("name", ["", "with space", "x" * 65, "ünï"])
def test_a_client_tool_of_a_name_no_provider_takes_is_refused(name):
    with pytest.raises(InvalidRequest, match="no tool name"):
        with_client_tools(ToolRegistry(), [ToolSpec(name, "", {})])


def test_two_client_tools_of_one_name_are_refused():
    with pytest.raises(InvalidRequest, match="two tools"):
        with_client_tools(ToolRegistry(), [ToolSpec("pick", "", {}), ToolSpec("pick", "", {})])


def explode(value: str) -> str:
    raise KeyError(value)


def test_a_validator_with_a_bug_runs_nothing(caplog):
    @tool
    def shout(text: Annotated[str, AfterValidator(explode)]) -> str:
        return text

    with pytest.raises(InvalidArguments, match="could not be checked") as caught:
        shout.read('{"text": "a"}')
    assert caught.value.code == "internal_error"
    assert "KeyError" in caplog.text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": 5, "properties": [], "enum": 3},
        {"type": {"object": 1}, "required": [1, None], "items": 7},
        {"type": ["object", 9], "required": "abc", "properties": None},
    ],
)
def test_a_schema_that_is_none_checks_nothing_and_breaks_nothing(schema):
    assert Tool("pick", "", schema).read('{"a": 1}') == {"a": 1}
