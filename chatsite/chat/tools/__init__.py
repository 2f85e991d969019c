"""The chat's server tools.

examples   with fixed data, and those of the demo model        remote   of MCP servers
"""

from __future__ import annotations

from agent import ToolRegistry
from chatsite.chat.conf import setting
from chatsite.chat.tools import remote
from chatsite.chat.tools.examples import EXAMPLES, FOR_SHOW


def server_tools() -> ToolRegistry:
    """The tools that every thread's agent has. `EXAMPLE_TOOLS=false` takes the examples away."""
    return ToolRegistry(EXAMPLES if setting("EXAMPLE_TOOLS") else ())


def every_tool() -> ToolRegistry:
    """Those and, of MCP servers, what is known at this moment."""
    return with_remote(server_tools())


def with_remote(own: ToolRegistry) -> ToolRegistry:
    """Of one name, our own is the tool."""
    theirs = [tool for tool in remote.tools() if tool.name not in own]
    return ToolRegistry([*own, *theirs]) if theirs else own


def demo_tools() -> ToolRegistry:
    """What the demo model has beside them."""
    return ToolRegistry(FOR_SHOW if setting("EXAMPLE_TOOLS") else ())
