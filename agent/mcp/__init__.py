"""Tools of other servers, in the Model Context Protocol (MCP).

    from agent.mcp import Servers, read_servers

    servers = Servers(read_servers([{"name": "files", "url": "http://localhost:9000/mcp"}]))
    await servers.ready()
    agent = Agent(provider, "some-model", tools=servers.tools())

    config     what an operator writes about a server
    listing    what a server says of its tools -> our tools, or why not         pure
    results    what a call gave -> what the model reads                         pure
    faults     what is wrong with a server or a tool: a code, and what belongs to it
    text       a server's words where people read them
    session    the protocol, by the official SDK: over HTTP, or a command's standard streams
    guarded    what goes over HTTP: bounded, and its failures told apart
    server     one server: connected when needed, asked for its tools, called
    servers    all of them, in a thread and an event loop of their own

Rule 1: what a server says (names, descriptions, schemas, results) is data: bounded, cleaned, and never more than text.
Rule 2: nobody waits for a server that is away longer than for a moment.
Rule 3: a call that may have arrived is sent again only if its tool may run twice.
Rule 4: the SDK takes 28 MiB: it is loaded by whoever has servers, and only there.
"""

from agent.mcp.config import ConfigError, ServerConfig, read_servers
from agent.mcp.faults import Fault
from agent.mcp.server import Known
from agent.mcp.servers import Servers

__all__ = ["ConfigError", "Fault", "Known", "ServerConfig", "Servers", "read_servers"]
