"""What `manage.py upkeep` does at once and the server bit by bit: each app tells its steps when it is ready."""

from __future__ import annotations

from collections.abc import Callable

from django.utils.module_loading import import_string

Step = Callable[[], bool]
"""One short transaction. False when there is nothing to do."""

_steps: dict[str, str] = {}


def register(name: str, path: str) -> None:
    """The path of a step, which is imported once it is needed."""
    _steps[name] = path


def steps() -> dict[str, Step]:
    return {name: import_string(path) for name, path in _steps.items()}
