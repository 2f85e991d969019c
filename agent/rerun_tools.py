"""The tools that a request declares, in either dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def tool_names(body: Mapping[str, Any]) -> frozenset[str]:
    """The names of the tools that a request declares, in either dialect."""
    tools = body.get("tools")
    found = (tool_name(tool) for tool in tools) if isinstance(tools, list) else ()
    return frozenset(name for name in found if name)


def client_tools(body: Mapping[str, Any]) -> frozenset[str]:
    """Of these the caller's own, whose calls it can answer: not a provider's tools, which it only switches on."""
    tools = body.get("tools")
    own = (tool for tool in tools if _is_callers(tool)) if isinstance(tools, list) else ()
    return tool_names({"tools": list(own)})


def _is_callers(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type", "custom") in ("custom", "function", None)


def tool_name(tool: Any) -> str:
    """OpenAI's `function.name`, Anthropic's `name`; the type of a provider's own tool without a name."""
    if not isinstance(tool, dict):
        return ""
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name") or tool.get("type")
    return name if isinstance(name, str) else ""
