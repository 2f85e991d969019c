"""The table of shapes: how each event is written, read off its dataclass, `agui_extras`, and what may be anything."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import NamedTuple, get_args

from agent import events
from agent.events import Event
from agent.wire.agui_extras import EXTRAS, Decode, Encode

# Fields whose value is whatever an application or a tool put there; it becomes plain JSON.
_OPEN: dict[type, frozenset[str]] = {
    events.RunFinished: frozenset({"result"}),
    events.SubagentFinished: frozenset({"result"}),
    events.StateSnapshot: frozenset({"snapshot"}),
    events.StateDelta: frozenset({"delta"}),
    events.ActivitySnapshot: frozenset({"content"}),
    events.ActivityDelta: frozenset({"patch"}),
    events.Raw: frozenset({"event"}),
    events.Custom: frozenset({"value"}),
}


class _Field(NamedTuple):
    name: str
    wire_name: str
    required: bool


class _Shape(NamedTuple):
    event: type
    type: str
    fields: tuple[_Field, ...]
    open: frozenset[str]
    encode: Encode | None
    decode: Decode | None


_EVERYWHERE = frozenset({"timestamp", "metadata", "subagent_run_id"})


def _shape(event: type) -> _Shape:
    encode, decode, theirs = EXTRAS.get(event, (None, None, frozenset()))
    own = [field for field in fields(event) if field.name not in {*_EVERYWHERE, *theirs}]
    return _Shape(
        event,
        _upper_snake(event.__name__),
        tuple(_Field(field.name, _camel(field.name), field.default is MISSING) for field in own),
        _OPEN.get(event, frozenset()),
        encode,
        decode,
    )


def _upper_snake(name: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name).lstrip("_").upper()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


SHAPES: dict[type, _Shape] = {event: _shape(event) for event in get_args(Event)}
BY_TYPE: dict[str, _Shape] = {shape.type: shape for shape in SHAPES.values()}
