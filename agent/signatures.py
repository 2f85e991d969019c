"""A function's signature and docstring, as what a model is told and as what its arguments are checked by.

Rule: what is told is what is checked. The schema forbids arguments that the function does not take, so a
made-up one is an error the model reads, and not something that silently did not happen.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """`injected` are the parameters that take the call's context; the model is not told of them."""

    description: str
    parameters: Schema
    injected: tuple[str, ...]
    _model: type[BaseModel]
    _names: tuple[str, ...]

    def arguments(self, raw: str) -> dict[str, Any]:
        """The JSON text as keyword arguments. Raises pydantic's ValidationError."""
        checked = self._model.model_validate_json(raw)
        return {name: getattr(checked, f"arg{place}") for place, name in enumerate(self._names)}


def read_signature(function: Callable[..., Any], context: type) -> Signature:
    """Raises TypeError for a function whose arguments have no names a model could give."""
    hints = get_type_hints(function, include_extras=True)
    described, told = _read_docstring(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    names, injected = list[str](), list[str]()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{function.__name__}: a tool takes named arguments only, not {parameter}.")
        hint = hints.get(parameter.name, Any)
        if hint is context:
            injected.append(parameter.name)
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        # The model's own field names are not the parameters': those may begin with "_" or be called "json".
        fields[f"arg{len(names)}"] = (Annotated[hint, Field(alias=parameter.name)], default)
        names.append(parameter.name)
    model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    return Signature(described, _schema(model, told), tuple(injected), model, tuple(names))


def _schema(model: type[BaseModel], told: Mapping[str, str]) -> Schema:
    schema = _untitled(model.model_json_schema())
    properties = schema.setdefault("properties", {})
    schema.setdefault("required", [])
    for name, text in told.items():
        if name in properties:
            properties[name].setdefault("description", text)
    # Plain order: a reader of a log meets the type first.
    first = ("type", "properties", "required")
    return {key: schema[key] for key in first} | {k: v for k, v in schema.items() if k not in first}


def _untitled(schema: Any) -> Any:
    """Without pydantic's titles, which say the names again. A property that is called `title` stays."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    clean: Schema = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs"):
            clean[key] = {name: _untitled(inner) for name, inner in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            clean[key] = value
        else:
            clean[key] = _untitled(value)
    return clean


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_ENTRY = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text up to the first section, and what a Google-style `Args:` section says of each parameter."""
    described, told = list[str](), dict[str, str]()
    section = name = ""
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section, name = heading[1], ""
        elif not section:
            described.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            if entry := _ENTRY.match(line):
                name, told[entry[1]] = entry[1], entry[2].strip()
            elif name and line.strip():
                told[name] = f"{told[name]} {line.strip()}".strip()
    return "\n".join(described).strip(), told
