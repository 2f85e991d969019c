"""The chat's server tools."""

from __future__ import annotations

from agent import ToolRegistry
from chatsite.chat.conf import setting
from chatsite.chat.tools.examples import EXAMPLES


def server_tools() -> ToolRegistry:
    """The tools that every thread's agent has. `EXAMPLE_TOOLS=false` takes the examples away."""
    return ToolRegistry(EXAMPLES if setting("EXAMPLE_TOOLS") else ())
