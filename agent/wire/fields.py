"""Reading a body that somebody else wrote: every refusal names the field by its path."""

from __future__ import annotations

import math
from typing import Any, NoReturn, TypeVar, overload

from agent.errors import InvalidRequest

T = TypeVar("T")
Json = dict[str, Any]

_KINDS: dict[type, str] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def refuse(path: str, problem: str) -> NoReturn:
    raise InvalidRequest(f"{path}: {problem}")


def check(value: Any, kind: type[T], path: str) -> T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        refuse(path, f"must be {_KINDS[kind]}")
    return value


@overload
def want(body: Json, key: str, kind: type[T], path: str = "") -> T: ...
@overload
def want(body: Json, key: str, kind: type[T], path: str = "", *, default: T) -> T: ...
def want(body: Json, key: str, kind: type[T], path: str = "", *, default: T | None = None) -> T:
    """The field, which must be there unless there is a default; null counts as absent."""
    where = f"{path}.{key}" if path else key
    value = body.get(key)
    if value is None:
        return default if default is not None else refuse(where, "is required")
    return check(value, kind, where)


def numbers(body: Json, *keys: str) -> None:
    """Fields that are finite numbers where they are there. JSON knows no others, but its readers do."""
    for key in keys:
        value = body.get(key, 0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (isinstance(value, float) and not math.isfinite(value)):
            refuse(key, "must be a number")


def texts(value: Any, path: str) -> list[str]:
    """A list of strings."""
    found: list[str] = [check(each, str, f"{path}[{i}]") for i, each in enumerate(check(value, list, path))]
    return found


def objects(body: Json, key: str, path: str = "") -> list[tuple[str, Json]]:
    """A list of objects, each with its path."""
    return objects_in(body.get(key), f"{path}.{key}" if path else key)


def objects_in(value: Any, path: str) -> list[tuple[str, Json]]:
    items = [] if value is None else check(value, list, path)
    return [(f"{path}[{i}]", check(item, dict, f"{path}[{i}]")) for i, item in enumerate(items)]


def split_data_url(url: str) -> tuple[str, str] | None:
    """MIME type and base64 data of a data URL; None for any other."""
    if not url.startswith("data:"):
        return None
    head, _, data = url[5:].partition(",")
    return head.partition(";")[0], data
