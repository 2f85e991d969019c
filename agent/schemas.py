"""Does a value fit a JSON Schema? For tools that are given with a schema and no function to read it from.

It checks what it knows (type, enum, const, required, properties, additionalProperties false, items) and lets
everything else pass: a schema that says more is checked by whoever runs the tool. A keyword of a shape that JSON
Schema does not have counts as absent, for a client may send anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: _is_whole(value),
}


def problems(value: Any, schema: Any, path: str = "") -> Iterator[str]:
    """Each thing that is wrong, as `path: what`."""
    if not isinstance(schema, Mapping):
        return
    here = path or "arguments"
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else _strings(kinds)
    if kinds and not any(kind not in _KINDS or _KINDS[kind](value) for kind in kinds):
        yield f"{here}: Should be {' or '.join(kinds)}"
        return
    if isinstance(schema.get("enum"), list | tuple) and value not in schema["enum"]:
        yield f"{here}: Should be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and value != schema["const"]:
        yield f"{here}: Should be {schema['const']!r}"
    if isinstance(value, dict):
        yield from _in_object(value, schema, path)
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from problems(item, schema.get("items"), f"{path}.{place}" if path else str(place))


def _in_object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    below = f"{path}." if path else ""
    for name in _strings(schema.get("required")):
        if name not in value:
            yield f"{below}{name}: Field required"
    for name, inner in value.items():
        if name in properties:
            yield from problems(inner, properties[name], f"{below}{name}")
        elif schema.get("additionalProperties") is False and "patternProperties" not in schema:
            yield f"{below}{name}: No such field"


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else ()


def _is_whole(value: Any) -> bool:
    """2.0 is an integer to JSON Schema; True is none."""
    return (
        value.is_integer()
        if isinstance(value, float)
        else isinstance(value, int) and not isinstance(value, bool)
    )
