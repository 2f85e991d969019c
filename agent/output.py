"""Structured output: a run that ends with a value of a given form.

    run_agent(agent, transcript, ctx, input=[...], output=Weather)      RunFinished.result is the dict of a Weather

Rule 1: the run is what it is without it, tools and all; only where it would end is there more to do.
Rule 2: the value is checked here, whoever promised to keep to the form.

    where the run would end                        then
    the last turn's text fits                      it ends, with that as its result
    it does not, and the provider keeps to forms   one more turn, told what is wrong (the repair)
    it does not, and the provider does not         a turn of its own that asks for nothing but the value; then, if
                                                   that does not fit either, one repair
    still not                                      RUN_ERROR invalid_output
    waiting for somebody                           it waits; the run that goes on is given `output` again

A provider that keeps to forms (`native_output`) is asked with `response_format` in every turn. The asking turns have
no tools; what asks stands behind the transcript in the request and in no record. They count in the usage like any
other turn, and no limit is asked about them: the answer is owed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from agent.errors import InvalidOutput, InvalidRequest
from agent.schemas import problems
from agent.steps import CallModel, Finish
from agent.text import storable
from agent.tools import MOST_PROBLEMS, InvalidArguments, explain, parse
from agent.wire.jsontext import plain

OutputType = type[BaseModel] | Mapping[str, Any]
"""A pydantic model, or a JSON Schema."""

ASK = (
    "Give your final answer now as JSON that fits this JSON Schema. Write the JSON value and nothing else: no words "
    "around it, no code fence.\n\n{schema}"
)
REPAIR = (
    "That does not fit: {problems}\n\nWrite the whole JSON value again, put right and with nothing around it. "
    "It must fit this JSON Schema:\n\n{schema}"
)
FENCE = re.compile(r"^```\w*\s*\n(.*)\n```$", re.DOTALL)

FINAL_ENDS = frozenset({"length", "content_filter", "no_calls"})
"""Ends behind which the model is not asked again: it was cut off, or has nothing to say."""


class Output:
    """The form, and how far one run has come with it."""

    def __init__(self, form: OutputType, *, native: bool) -> None:
        self.result: Any = None
        self._native = native
        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(form, type) and issubclass(form, BaseModel):
            self._adapter = TypeAdapter(form)
            self.name, self.schema = form.__name__, self._adapter.json_schema()
        elif isinstance(form, Mapping):
            self.name, self.schema = "output", dict(form)
        else:
            raise InvalidRequest("output: give a pydantic model or a JSON Schema.")
        self._asked = 0
        self._ends_with: Finish | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What a turn is asked with besides, in OpenAI's names."""
        if not self._native:
            return {}
        form = {"name": self.name, "schema": self.schema, "strict": is_strict(self.schema)}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def next(self, end: Finish, text: str) -> CallModel | Finish:
        """What comes where the run would end with this text. Raises InvalidOutput when there is no use in going on."""
        self._ends_with = self._ends_with or end
        try:
            self.result = plain(self.read(text), storable)
        except InvalidArguments as error:
            return self._once_more(end, str(error))
        return self._ends_with

    def read(self, text: str) -> Any:
        """The value in plain JSON. Raises InvalidArguments with what is wrong."""
        text = text.strip()
        fenced = FENCE.match(text)
        text = fenced[1] if fenced else text
        if not text:
            raise InvalidArguments("there is no value.")
        if self._adapter is not None:
            try:
                return self._adapter.dump_python(self._adapter.validate_json(text), mode="json")
            except ValidationError as error:
                raise InvalidArguments(explain(error)) from error
        value = parse(text)
        if wrong := list(islice(problems(value, self.schema), MOST_PROBLEMS)):
            raise InvalidArguments("; ".join(wrong))
        return value

    def _once_more(self, end: Finish, wrong: str) -> CallModel:
        asks = 1 if self._native else 2
        if end.reason in FINAL_ENDS or self._asked >= asks:
            raise InvalidOutput(f"The model gave no answer of the form that was asked for: {wrong[:500]}")
        self._asked += 1
        schema = json.dumps(self.schema, ensure_ascii=False)
        words = ASK if self._asked == 1 and not self._native else REPAIR
        return CallModel(instruction=words.format(schema=schema, problems=wrong))


def is_strict(schema: Any) -> bool:
    """Does it keep to what OpenAI's strict mode takes? Every object closed, and every property required."""
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        names = set(schema.get("properties", ()))
        if schema.get("additionalProperties") is not False or names != set(schema.get("required", ())):
            return False
    return all(is_strict(value) for value in schema.values())
