"""Which field an argument gets, by what its tool's schema says of it.

    schema                        field       is
    type string, short or formed  line        a line of text
    type string                   text        a box that grows
    type number, integer          number      a line, read as a number
    type boolean                  flag        a box to tick
    enum, const                   choice      a list, by the places of its values
    anything else                 json        a box, read as JSON
    a value of great length       long        shown, not to be edited

A schema may be anything; what makes no sense in it counts as absent. `$ref` and "or null" are seen through. One without
properties gives one json field for all arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from chatsite.chat.render import words
from chatsite.chat.render.one_field import MISSING, Field, Kind, json_text, place_in

MOST_EDITABLE = 20_000
"""Characters of a value that can be edited; a longer one would make a page that is slow to type in."""

SHORT = 120
"""Characters up to which a text with a limit is a line."""


def field_of_all(given: Any) -> Field:
    long = len(json_text(given)) > MOST_EDITABLE
    return Field(None, _("Arguments"), "long" if long else "json", given, required=True)


def field_for(name: str, told: Any, value: Any, root: Mapping[str, Any], required: bool) -> Field:
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
            return place_in(choices, value) >= 0
    return True


def _choices(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    if "const" in schema:
        return (schema["const"],)
    listed = schema.get("enum")
    return tuple(listed[:500]) if isinstance(listed, list) else ()


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
