"""A call's arguments as the fields of a form, and back.

Rule 1: every argument that the model wrote is a field, also one that the schema does not know.
Rule 2: what comes back as it was shown is the value that it was. Only what was changed is read.
Rule 3: a schema may be anything; what makes no sense in it counts as absent.

    schema                        field       is
    type string, short or formed  line        a line of text
    type string                   text        a box that grows
    type number, integer          number      a line, read as a number
    type boolean                  flag        a box to tick
    enum, const                   choice      a list, by the places of its values
    anything else                 json        a box, read as JSON
    a value of great length       long        shown, not to be edited

`$ref` and "or null" are seen through. A schema without properties gives one json field for all arguments.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote

from django.utils.translation import gettext as _

from agent.text import storable, whole
from agent.wire.jsontext import plain as storable_json
from chatsite.chat.render import words
from chatsite.chat.render.blocks import tidy
from chatsite.chat.state import InterruptView

Kind = Literal["line", "text", "integer", "number", "flag", "choice", "json", "long"]

MISSING: Final = object()
"""The value of an argument that is not there."""

MOST_EDITABLE = 20_000
"""Characters of a value that can be edited; a longer one would make a page that is slow to type in."""

SHORT = 120
"""Characters up to which a text with a limit is a line."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Unreadable(ValueError):
    """A field that cannot be read; the message is for the person who filled it in."""


@dataclass(frozen=True, slots=True)
class Field:
    """`name` is None for the field of all arguments. `value` is what the model wrote, or MISSING."""

    name: str | None
    label: str
    kind: Kind
    value: Any
    hint: str = ""
    required: bool = False
    nullable: bool = False
    choices: tuple[Any, ...] = ()
    default: Any = MISSING

    @property
    def shown(self) -> str:
        """What stands in the control: text, the place of a choice, `on` or `off`."""
        value = self.default if self.value is MISSING else self.value
        if self.kind == "flag":
            return "on" if value is True else "off"
        if value is MISSING or (value is None and self.nullable):
            return ""
        if self.kind == "choice":
            return str(_place_in(self.choices, value))
        return tidy(value if isinstance(value, str) and self.kind != "json" else json_text(value))

    def read(self, posted: Sequence[str]) -> Any:
        """The value that came back, or MISSING. Raises Unreadable."""
        text = posted[-1].replace("\r\n", "\n") if posted else self.shown
        if self.kind == "long" or text == self.shown:
            return self.value
        if self.kind == "flag":
            return text == "on"
        if self.kind in ("line", "text"):
            return None if self.nullable and not text else storable(text)
        if not text.strip():
            return self._cleared()
        value = self._parsed(text.strip())
        return self.value if self.value is not MISSING and _same(value, self.value) else value

    def _cleared(self) -> Any:
        if self.nullable:
            return None
        if self.required:
            raise Unreadable(_("{label}: this is needed. Fill it in.").format(label=self.label))
        return MISSING

    def _parsed(self, text: str) -> Any:
        match self.kind:
            case "integer":
                if not _INTEGER.fullmatch(text):
                    said = _("{label}: “{text}” is not a whole number.")
                    raise Unreadable(said.format(label=self.label, text=words.plain(text)))
                return int(text)
            case "number":
                value = float(text) if _NUMBER.fullmatch(text) else math.inf
                if not math.isfinite(value):
                    said = _("{label}: “{text}” is not a number.")
                    raise Unreadable(said.format(label=self.label, text=words.plain(text)))
                return int(text) if _INTEGER.fullmatch(text) else value
            case "choice":
                if not (_INTEGER.fullmatch(text) and 0 <= int(text) < len(self.choices)):
                    raise Unreadable(_("{label}: choose one of the list.").format(label=self.label))
                return self.choices[int(text)]
        return _parsed_json(self.label, text)


def fields_of(question: InterruptView) -> tuple[Field, ...]:
    """The fields of a question, the required ones first."""
    schema, given = question.schema, question.input
    properties = schema.get("properties")
    if not isinstance(given, Mapping) or not isinstance(properties, Mapping):
        return (_field_of_all(given),)
    if not properties and not given:
        return () if schema.get("additionalProperties") is False else (_field_of_all(given),)
    required = [name for name in _strings(schema.get("required")) if name in properties]
    # A database may keep an object's keys in an order of its own, a list's never: so the order is the same for
    # who saw the question come and for who loads it.
    names = dict.fromkeys([*required, *sorted({*map(str, properties), *map(str, given)})])
    return tuple(
        _field(name, properties.get(name), given.get(name, MISSING), schema, name in required)
        for name in names
    )


def read_arguments(question: InterruptView, posted: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """The arguments as a person left them; None when nothing was changed. Raises Unreadable.

    `posted` are lists of values by the names of controls; a control that is not among them was not touched.
    """
    fields = fields_of(question)
    values = [field.read(posted.get(control(question, field), ())) for field in fields]
    if all(value is field.value for field, value in zip(fields, values, strict=True)):
        return None
    if fields[0].name is None:
        if not isinstance(values[0], dict):
            raise Unreadable(
                _("{label}: this must be a JSON object, in braces.").format(label=fields[0].label)
            )
        return storable_json(values[0], storable)
    read = {field.name: value for field, value in zip(fields, values, strict=True) if value is not MISSING}
    return storable_json(read, storable)


def control(question: InterruptView, field: Field) -> str:
    """The name of a field's control."""
    return name_of(question, "all" if field.name is None else "arg", field.name or "")


def name_of(question: InterruptView, *steps: str) -> str:
    """The name of a control of a question: nothing in it but what may stand in any attribute."""
    return ".".join(in_attribute(step) for step in (question.id, *steps))


def in_attribute(text: str) -> str:
    return quote(whole(text), safe="")


def json_text(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return json_text(storable_json(value))


# -- reading a schema ----------------------------------------------------------------------------------------


def _field_of_all(given: Any) -> Field:
    long = len(json_text(given)) > MOST_EDITABLE
    return Field(None, _("Arguments"), "long" if long else "json", given, required=True)


def _field(name: str, told: Any, value: Any, root: Mapping[str, Any], required: bool) -> Field:
    schema, nullable = _seen_through(told, root)
    label = _text(schema, "title") or _text(told, "title") or name
    choices = _choices(schema)
    kind = _kind(schema, choices)
    if told is None or not _fits(kind, value, choices, nullable):
        kind, choices = ("text", ()) if isinstance(value, str) and not choices else ("json", ())
    if kind in ("line", "text", "json") and value is not MISSING and _length(value) > MOST_EDITABLE:
        kind = "long"
    if kind == "line" and isinstance(value, str) and not _is_line(value):
        kind = "text"
    default = schema.get("default", MISSING) if kind == "flag" else MISSING
    return Field(
        name,
        words.plain(label),
        kind,
        value,
        hint=words.plain(_text(told, "description") or _text(schema, "description"), 300),
        required=required,
        nullable=nullable,
        choices=choices,
        default=default,
    )


def _seen_through(schema: Any, root: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The schema behind references and "or null", and whether null was among what it takes."""
    nullable = False
    for _step in range(8):
        if not isinstance(schema, Mapping):
            break
        ref = schema.get("$ref")
        branches = schema.get("anyOf") or schema.get("oneOf")
        kinds = schema.get("type")
        if isinstance(ref, str):
            schema = _referred(ref, root)
        elif isinstance(branches, list):
            others = [branch for branch in branches if not _is(branch, "null")]
            nullable = nullable or len(others) < len(branches)
            if len(others) != 1:
                return {}, nullable
            schema = others[0]
        elif isinstance(kinds, list) and "null" in kinds and len(kinds) == 2:
            nullable = True
            schema = {**schema, "type": next((kind for kind in kinds if kind != "null"), None)}
        else:
            return schema, nullable
    return {}, nullable


def _referred(ref: str, root: Mapping[str, Any]) -> Any:
    at: Any = root
    for step in ref.removeprefix("#/").split("/") if ref.startswith("#/") else ():
        at = at.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(at, Mapping) else None
    return at if at is not root else None


def _kind(schema: Mapping[str, Any], choices: tuple[Any, ...]) -> Kind:
    if choices:
        return "choice"
    match schema.get("type"):
        case "string":
            most = schema.get("maxLength")
            short = (isinstance(most, int) and most <= SHORT) or "format" in schema or "pattern" in schema
            return "line" if short else "text"
        case "integer" | "number" as kind:
            return kind
        case "boolean":
            return "flag"
    return "json"


def _fits(kind: Kind, value: Any, choices: tuple[Any, ...], nullable: bool) -> bool:
    """Whether the control of this kind can show the value; a tool may take more than its schema says."""
    if value is MISSING:
        return True
    if value is None:
        return nullable and kind != "flag"
    match kind:
        case "line" | "text":
            return isinstance(value, str)
        case "integer" | "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "flag":
            return isinstance(value, bool)
        case "choice":
            return _place_in(choices, value) >= 0
    return True


def _choices(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    if "const" in schema:
        return (schema["const"],)
    listed = schema.get("enum")
    return tuple(listed[:500]) if isinstance(listed, list) else ()


def _place_in(choices: Sequence[Any], value: Any) -> int:
    return next((place for place, choice in enumerate(choices) if _same(choice, value)), -1)


def _same(a: Any, b: Any) -> bool:
    """As JSON, where true is not 1."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def _parsed_json(label: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        said = _("{label}: this is not valid JSON (line {line}, column {column}).")
        raise Unreadable(said.format(label=label, line=error.lineno, column=error.colno)) from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(_("{label}: this is JSON that cannot be used.").format(label=label)) from error


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _is_line(text: str) -> bool:
    """No `<`: a line's value stands in an attribute, where none may be."""
    return len(text) <= SHORT and not set("<\n\r") & set(text)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json_text(value))


def _is(schema: Any, kind: str) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == kind


def _text(schema: Any, key: str) -> str:
    found = schema.get(key) if isinstance(schema, Mapping) else None
    return found if isinstance(found, str) else ""


def _strings(value: Any) -> Iterator[str]:
    return (item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else iter(())
