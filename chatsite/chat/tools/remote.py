"""The tools of MCP servers (`agent.mcp`), as this process's settings have them.

Without MCP_SERVERS nothing of it is loaded. What is asked here never waits, but for `ready`: a moment, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent import Tool
from chatsite.chat.conf import setting

if TYPE_CHECKING:
    from agent.mcp import Servers

_servers: Servers | None = None


def servers() -> Servers | None:
    """None: none are configured."""
    global _servers
    if _servers is None and setting("MCP_SERVERS"):
        from agent.mcp import Servers

        _servers = Servers(setting("MCP_SERVERS"))
    return _servers


def begin() -> None:
    """Connect to them, behind whatever else this process does."""
    if (found := servers()) is not None:
        found.begin()


def tools() -> tuple[Tool, ...]:
    found = servers()
    return () if found is None else found.tools()


async def ready() -> None:
    if (found := servers()) is not None:
        await found.ready()


def leave() -> None:
    """This process goes: no tool of theirs is called any more."""
    if _servers is not None:
        _servers.leave()


def use_servers(replacement: Servers | None) -> None:
    """Put others in their place (tests, an embedding project); None: those of the settings again."""
    global _servers
    if _servers is not None:
        _servers.close()
    _servers = replacement
