"""Two forms sent at once, for what there may be only once.

Both are good when they are looked at, and the database takes the first alone. So the one that it refused is looked at
again: what the other one made is there by now, and the form says in its own words what was in the way, with all that
was typed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.db import IntegrityError

P = ParamSpec("P")
R = TypeVar("R")


def looked_at_again(view: Callable[P, R]) -> Callable[P, R]:
    """The view, asked a second time when the database refuses what it writes. It writes all in one transaction."""

    @wraps(view)
    def ask(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return view(*args, **kwargs)
        except IntegrityError:
            return view(*args, **kwargs)

    return ask


class OnceOnly:
    """Before ModelAdmin: for the pages of rows that there may be only once."""

    def changeform_view(self, *args: Any, **kwargs: Any) -> Any:
        return looked_at_again(super().changeform_view)(*args, **kwargs)
