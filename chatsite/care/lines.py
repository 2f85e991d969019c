"""Where people's data is: each app says so in its module `personal`, a line for each of its tables.

    Rows("chat.Message", "thread__owner")    rows that are the person's, by the path to them
    Named("chat.Share", "created_by")        rows that are not, and name them: the name goes, the row stays
    Stays("care.Hold", "user", "why")        rows that nobody erases, with the reason

A module may have `LINES` (in the order in which they can go: what refers to others first), `before_erasing(user)` and
`EXPORTS` (see `exporting`). A table that leads to people and has no line fails a test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from django.apps import apps
from django.db import transaction
from django.db.models import Model, QuerySet

AT_ONCE = 500

_modules: list[str] = []


@dataclass(frozen=True, slots=True)
class Line(ABC):
    model: str
    """As in "chat.Message"."""
    path: str
    """What leads from a row to the person's key; also how a field that names them is called."""

    @property
    def table(self) -> type[Model]:
        return apps.get_model(self.model)

    @property
    def name(self) -> str:
        return self.model

    def of(self, pk: Any) -> QuerySet[Any]:
        return self.table._default_manager.filter(**{self.path: pk})

    def count(self, pk: Any) -> int:
        return self.of(pk).count()

    @abstractmethod
    def erase_some(self, pk: Any) -> int:
        """How many went, in a transaction of its own; 0 when there are none."""


class Rows(Line):
    __slots__ = ()

    def some(self, pk: Any) -> list[Any]:
        """The keys of the next that go: in no order, which would cost a look at all of them each time."""
        return list(self.of(pk).order_by().values_list("pk", flat=True)[:AT_ONCE])

    def erase_some(self, pk: Any) -> int:
        with transaction.atomic():
            if gone := self.some(pk):
                self.table._default_manager.filter(pk__in=gone).delete()
        return len(gone)


class Named(Line):
    __slots__ = ()

    @property
    def name(self) -> str:
        return f"{self.model}.{self.path}"

    def erase_some(self, pk: Any) -> int:
        return self.of(pk).update(**{self.path: None})


@dataclass(frozen=True, slots=True)
class Stays:
    model: str
    path: str
    why: str


def register(module: str) -> None:
    """The path of an app's module `personal`, which is imported once it is needed."""
    if module not in _modules:
        _modules.append(module)


def modules() -> list[ModuleType]:
    """The last one first: apps refer to those that come before them."""
    return [import_module(path) for path in reversed(_modules)]


def lines() -> list[Line]:
    """All of them, in the order in which rows can go."""
    return [line for line in _all() if isinstance(line, Line)]


def staying() -> list[Stays]:
    return [line for line in _all() if isinstance(line, Stays)]


def _all() -> Iterator[Line | Stays]:
    for module in modules():
        for line in getattr(module, "LINES", ()):
            if apps.is_installed(_app_of(line.model)):
                yield line


def _app_of(label: str) -> str:
    """The app's module, or what no app is called."""
    name = label.partition(".")[0]
    return next((config.name for config in apps.get_app_configs() if config.label == name), "-")
