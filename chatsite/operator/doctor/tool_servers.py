"""Each MCP server, connected to and asked for its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chatsite.chat.tools import every_tool, remote
from chatsite.operator.doctor.findings import Finding, look, ok, wrong

if TYPE_CHECKING:
    from agent.mcp import Known, ServerConfig

SHOWN = 5
MOST_TAKEN = 128


def tool_servers() -> Iterator[Finding]:
    servers = remote.servers()
    if servers is None:
        return
    for config, known in asyncio.run(servers.look()):
        yield from _of(config, known)
    if (total := len(every_tool())) > MOST_TAKEN:
        yield look(
            "tools",
            f"a model is told of {total} tools, and many endpoints take {MOST_TAKEN} at most",
            "List the tools to take as `tools` in MCP_SERVERS, or deny some in the policies of groups.",
        )


def _of(config: ServerConfig, known: Known) -> Iterator[Finding]:
    about = f"MCP {config.name}"
    if known.problem:
        yield wrong(
            about,
            f"{config.place}: {known.problem}",
            "Runs go on without its tools, and it is tried again. Is it running? Are its address and headers in "
            "MCP_SERVERS right?",
        )
        return
    asks = sum(bool(tool.needs_approval) for tool in known.tools)
    words = (
        f"{config.place} has {len(known.tools)} tools, {asks} of them ask first (protocol {known.protocol})"
    )
    if known.refused:
        named = "; ".join(f"{each.name}: {each.why}" for each in known.refused[:SHOWN])
        count = len(known.refused) + known.more
        more = count - SHOWN
        yield look(
            about,
            f"{words}; {count} are not taken: {named}{f'; and {more} more' if more > 0 else ''}",
            "Have them mended at the server, or list the tools to take as `tools` in MCP_SERVERS.",
        )
    elif not known.tools:
        yield look(about, words, "It offers nothing; is it the right address?")
    else:
        yield ok(about, words)
