"""A call's arguments as the fields of a form, and back.

Rule 1: every argument that the model wrote is a field, also one that the schema does not know.
Rule 2: what comes back as it was shown is the value that it was. Only what was changed is read.

    fields_of         a question -> its fields (`field_schemas` says which, `one_field` what they are)
    read_arguments    what was posted -> the arguments, or None when nothing was changed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from django.utils.translation import gettext as _

from agent.text import storable, whole
from agent.wire.jsontext import plain as storable_json
from chatsite.chat.render.field_schemas import field_for, field_of_all
from chatsite.chat.render.one_field import MISSING, Field, Unreadable
from chatsite.chat.state import InterruptView


def fields_of(question: InterruptView) -> tuple[Field, ...]:
    """The fields of a question, the required ones first."""
    schema, given = question.schema, question.input
    properties = schema.get("properties")
    if not isinstance(given, Mapping) or not isinstance(properties, Mapping):
        return (field_of_all(given),)
    if not properties and not given:
        return () if schema.get("additionalProperties") is False else (field_of_all(given),)
    required = [name for name in _strings(schema.get("required")) if name in properties]
    # A database may keep an object's keys in an order of its own, a list's never: so the order is the same for
    # who saw the question come and for who loads it.
    names = dict.fromkeys([*required, *sorted({*map(str, properties), *map(str, given)})])
    return tuple(
        field_for(name, properties.get(name), given.get(name, MISSING), schema, name in required)
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


def _strings(value: Any) -> Iterator[str]:
    return (item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else iter(())
