"""How a thread's runs are to answer, besides their model: as values.

    Choices       system prompt, tools that are off, parameters
      Parameters  the sampling and limit fields, in OpenAI's names; a codec maps or drops them

Kept as JSON on a thread and in a preset, and with each run (`Run.given["choices"]`): what a run was given does not
change with its thread. An empty choice is none, so `{}` is the site's own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from django.utils.translation import gettext, gettext_lazy
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from agent import ToolRegistry
from agent.text import storable
from chatsite.chat.problems import Invalid
from chatsite.phrases import number

LONGEST_SYSTEM = 20_000
"""Characters of a system prompt."""
LARGEST_SEED = 2**53 - 1
"""What JSON's readers agree on."""

Text = Annotated[str, BeforeValidator(lambda value: storable(value) if isinstance(value, str) else value)]
"""Text that a database takes, whatever was sent."""
Json = dict[str, Any]
Figure = Annotated[float, Field(allow_inf_nan=False)]
Sequence = Annotated[Text, Field(min_length=1, max_length=200)]


class Parameters(BaseModel):
    """None: as the model's provider has it."""

    model_config = ConfigDict(extra="forbid")

    temperature: Figure | None = Field(default=None, ge=0, le=2)
    top_p: Figure | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1, le=10_000_000)
    presence_penalty: Figure | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: Figure | None = Field(default=None, ge=-2, le=2)
    seed: int | None = Field(default=None, ge=0, le=LARGEST_SEED)
    stop: list[Sequence] | None = Field(default=None, max_length=4)


class Choices(BaseModel):
    """`system` stands behind the site's own system prompt; `tools_off` are names of tools the model is not told of."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    system: Text = Field(default="", max_length=LONGEST_SYSTEM)
    tools_off: list[Annotated[Text, Field(max_length=200)]] = Field(default_factory=list, max_length=500)
    parameters: Parameters = Field(default_factory=Parameters)

    def as_json(self) -> Json:
        """Only what was chosen; `read` makes the same value of it."""
        written = self.model_dump(by_alias=True, exclude_none=True)
        return {name: value for name, value in written.items() if value}

    def system_behind(self, site: str) -> str:
        return "\n\n".join(text for text in (site, self.system.strip()) if text)

    def tools_of(self, registry: ToolRegistry) -> ToolRegistry:
        off = set(self.tools_off)
        return ToolRegistry(tool for tool in registry if tool.name not in off) if off else registry

    def as_parameters(self) -> Json:
        return self.parameters.model_dump(exclude_none=True)


def read(given: Any) -> Choices:
    """Raises Invalid, in words that name the field, for what is no choice."""
    try:
        return Choices.model_validate(given)
    except ValidationError as error:
        raise Invalid(said_of(error)) from None


def kept(given: Mapping[str, Any] | None) -> Choices:
    """What stands in a row. What this version does not take is left aside rather than fail a run."""
    try:
        return Choices.model_validate(given or {})
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors(include_url=False) if detail["loc"]}
        return Choices.model_validate(
            {name: value for name, value in (given or {}).items() if name not in wrong}
        )


WORDS = {
    "system": gettext_lazy("System prompt"),
    "temperature": gettext_lazy("Temperature"),
    "top_p": gettext_lazy("Top p"),
    "max_tokens": gettext_lazy("Longest answer"),
    "presence_penalty": gettext_lazy("Presence penalty"),
    "frequency_penalty": gettext_lazy("Frequency penalty"),
    "seed": gettext_lazy("Seed"),
    "stop": gettext_lazy("Stop at"),
}
HINTS = {
    "temperature": gettext_lazy("0 to 2; higher is more varied"),
    "top_p": gettext_lazy("0 to 1; lower keeps to likely words"),
    "max_tokens": gettext_lazy("in tokens, for each turn"),
    "presence_penalty": gettext_lazy("-2 to 2; higher brings new subjects"),
    "frequency_penalty": gettext_lazy("-2 to 2; higher repeats less"),
    "seed": gettext_lazy("the same number, much the same answer"),
}


def bounds_of(name: str) -> tuple[float, float]:
    """The least and the most of a figure."""
    ge, le = Parameters.model_fields[name].metadata
    return ge.ge, le.le


_NO_NUMBER = {
    "greater_than_equal",
    "less_than_equal",
    "int_parsing",
    "int_parsing_size",
    "int_from_float",
    "int_type",
    "float_parsing",
    "float_type",
    "finite_number",
}


def said_of(error: ValidationError) -> str:
    """The first thing that is wrong, as a sentence: the field as the page names it, and what to write."""
    first = error.errors(include_url=False)[0]
    path = [str(step) for step in first["loc"]]
    name = next((str(WORDS[step]) for step in path if step in WORDS), ".".join(path) or "choices")
    if first["type"] in _NO_NUMBER and path[-1] in HINTS:
        least, most = bounds_of(path[-1])
        return gettext("%(name)s: write a number from %(least)s to %(most)s.") % {
            "name": name,
            "least": number(least),
            "most": number(most),
        }
    if first["type"] in {"string_too_long", "too_long"}:
        most = first["ctx"]["max_length"]
        return gettext("%(name)s: %(most)s are the most. Shorten it.") % {"name": name, "most": number(most)}
    if first["type"] == "extra_forbidden":
        return gettext("%(name)s: there is no such choice here.") % {"name": name}
    return f"{name}: {first['msg']}."
