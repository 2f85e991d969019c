"""One field of a form for arguments: what stands in its control, and what comes back.

What comes back as it was shown is the value that it was. Only what was changed is read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from django.utils.translation import gettext as _

from agent.text import storable
from agent.wire.jsontext import plain as storable_json
from chatsite.chat.render import words
from chatsite.chat.render.blocks import tidy

Kind = Literal["line", "text", "integer", "number", "flag", "choice", "json", "long"]

MISSING: Final = object()
"""The value of an argument that is not there."""

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
            return str(place_in(self.choices, value))
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
        return self.value if self.value is not MISSING and same(value, self.value) else value

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


def json_text(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return json_text(storable_json(value))


def place_in(choices: Sequence[Any], value: Any) -> int:
    return next((place for place, choice in enumerate(choices) if same(choice, value)), -1)


def same(a: Any, b: Any) -> bool:
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
