"""How a caller asks for tools of the server, and what takes the place of its asking. Pure.

    {"tools": [{"type": "threadloom", "name": "get_weather"}, ...]}          beside tools of its own
    x-threadloom-tools: get_weather, get_clothing_advice                     where a client knows no such type

Each becomes a function tool with the server's own description and schema, in the caller's dialect. `tool_choice` may
name one in the same form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent import Tool
from agent.errors import InvalidRequest
from agent.rerun import Dialect, Json
from agent.rerun_tools import tool_name

TYPE = "threadloom"


def asks(body: Json, in_header: Sequence[str]) -> bool:
    return bool(in_header) or any(map(_is_asking, _tools(body)))


def asked_in(body: Json, in_header: Sequence[str]) -> dict[str, str]:
    """The names that are asked for, each with where it is. Raises InvalidRequest."""
    found: dict[str, str] = {}
    for at, tool in enumerate(_tools(body)):
        if _is_asking(tool):
            name = tool.get("name")
            if not isinstance(name, str) or not name:
                raise InvalidRequest(f"tools[{at}].name: must be the name of one of the server's tools")
            found.setdefault(name, f"tools[{at}].name")
    for name in in_header:
        found.setdefault(name, "x-threadloom-tools")
    for at, tool in enumerate(_tools(body)):
        if not _is_asking(tool) and tool_name(tool) in found:
            raise InvalidRequest(
                f"tools[{at}]: {tool_name(tool)} is asked of the server and declared as well; keep one of them"
            )
    return found


def with_tools(body: Json, dialect: Dialect, tools: Mapping[str, Tool]) -> Json:
    """The body with a function tool for each of these, where it was asked for; those of the header come last."""
    left, entries = dict(tools), list[Any]()
    for entry in _tools(body):
        if not _is_asking(entry):
            entries.append(entry)
        elif (tool := left.pop(entry["name"], None)) is not None:
            # A mark for the provider's prompt cache stays where the caller put it.
            mark = {key: entry[key] for key in ("cache_control",) if key in entry}
            entries.append(_declared(tool, dialect) | mark)
    new = {**body, "tools": [*entries, *(_declared(tool, dialect) for tool in left.values())]}
    choice = body.get("tool_choice")
    return new | {"tool_choice": _choice(choice, dialect)} if _is_asking(choice) else new


def _tools(body: Json) -> Iterator[Any]:
    tools = body.get("tools")
    return iter(tools if isinstance(tools, list) else ())


def _is_asking(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("type") == TYPE


def _declared(tool: Tool, dialect: Dialect) -> Json:
    schema = dict(tool.parameters)
    if dialect == "anthropic":
        return {"name": tool.name, "description": tool.description, "input_schema": schema}
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}


def _choice(choice: Json, dialect: Dialect) -> Json:
    if dialect == "anthropic":
        return {**choice, "type": "tool"}
    return {"type": "function", "function": {"name": choice.get("name")}}
