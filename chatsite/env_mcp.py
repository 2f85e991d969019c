"""MCP_SERVERS, out of the environment by the rules of `env`. Without it nothing of `agent` is loaded for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured

from chatsite import env

if TYPE_CHECKING:
    from agent.mcp.config import ServerConfig

MCP_FORM = '[{"name": "files", "url": "https://files.example.org/mcp"}]'


def mcp_servers(name: str) -> tuple[ServerConfig, ...]:
    """MCP servers, from a JSON list or object (`agent.mcp.config` has the fields). Its headers are never shown."""
    raw = env.text(name)
    if not raw:
        return ()
    from agent.mcp.config import ConfigError, read_servers

    try:
        return read_servers(json.loads(raw))
    except ConfigError as exc:
        raise ImproperlyConfigured(f"{name}: {exc}.") from None
    except (ValueError, RecursionError) as exc:
        where = f" (line {exc.lineno}, column {exc.colno})" if isinstance(exc, json.JSONDecodeError) else ""
        raise ImproperlyConfigured(f"{name} holds no JSON{where}; write a list such as {MCP_FORM}.") from None
