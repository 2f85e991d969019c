"""The chat's server tools."""

from __future__ import annotations

from agent import ToolRegistry
from chatsite.chat.conf import setting
from chatsite.chat.tools.examples import EXAMPLES, FOR_SHOW


def server_tools() -> ToolRegistry:
    """The tools that every thread's agent has. `EXAMPLE_TOOLS=false` takes the examples away."""
    return ToolRegistry(EXAMPLES if setting("EXAMPLE_TOOLS") else ())


def demo_tools() -> ToolRegistry:
    """What the demo model has beside them."""
    return ToolRegistry(FOR_SHOW if setting("EXAMPLE_TOOLS") else ())
