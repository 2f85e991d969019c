"""What an operator writes about servers: a JSON list, or an object of name -> server.

    [{"name": "files", "url": "https://files.example.org/mcp", "headers": {"Authorization": "Bearer ..."}},
     {"name": "git", "command": "git-mcp", "args": ["--read-only"], "env": {"TOKEN": "..."}}]

    name                 stands before the names of its tools: letters, digits, `-` and single `_`, 20 at most
    url, headers         a server reached over streamable HTTP, and what is sent along
    command, args, env   a server that is started here and spoken to over its standard streams
    tools                the names, as the server has them, of the tools to take; left out: all
    needs_approval       true: a person is asked before tools that do not say they only read; false: only before those
                         that say they destroy
    timeout              seconds for one call

Raises ConfigError, in one sentence that names the server and the field, and never repeats a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

NAME = re.compile(r"(?!.*__)[a-zA-Z0-9-][a-zA-Z0-9_-]{0,18}[a-zA-Z0-9-]|[a-zA-Z0-9-]")
"""No two `_` in a row and none at an end: what stands before the first `__` of a tool's name is its server."""
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
    | {"mcp-protocol-version", "mcp-session-id"}
)
FIELDS = frozenset(
    {"name", "url", "headers", "command", "args", "env", "tools", "needs_approval", "timeout", "type"}
)
TYPES = {"http": "url", "streamable-http": "url", "streamable_http": "url", "stdio": "command"}
OLD_TRANSPORT = "the older HTTP+SSE transport is not spoken here; give the server's streamable HTTP address"
TIMEOUT = 60.0
LONGEST_TIMEOUT = 3600.0


class ConfigError(ValueError):
    """What was written is no list of servers. Its words are fit for a log: they hold no value that was given."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server. What may be secret is never shown."""

    name: str
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    tools: tuple[str, ...] | None = None
    needs_approval: bool = True
    timeout: float = TIMEOUT

    @property
    def place(self) -> str:
        """Where it is, as it may be shown: no path and no query, where keys tend to be."""
        if self.command:
            return "a command on this machine"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def read_servers(given: Any) -> tuple[ServerConfig, ...]:
    servers = tuple(_read(name, entry) for name, entry in _entries(given))
    names = [server.name.lower() for server in servers]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two servers are called {name!r}; give one of them another name")
    return servers


def _entries(given: Any) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    if isinstance(given, Mapping):
        given = [
            {"name": name, **entry} if isinstance(entry, Mapping) else entry for name, entry in given.items()
        ]
    if not isinstance(given, list | tuple):
        raise ConfigError("it is no JSON list or object of servers")
    for number, entry in enumerate(given, 1):
        if not isinstance(entry, Mapping):
            raise ConfigError(f"server {number} is no JSON object")
        name = entry.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError(
                f"server {number} has no valid name; write 1 to 20 letters, digits, '-' and single '_' within"
            )
        yield name, entry


def _read(name: str, entry: Mapping[str, Any]) -> ServerConfig:
    def wrong(what: str) -> ConfigError:
        return ConfigError(f"server {name!r}: {what}")

    unknown = sorted(str(key)[:40] for key in entry.keys() - FIELDS)
    if unknown:
        raise wrong(f"there is no field {unknown[0]!r}; there are {', '.join(sorted(FIELDS - {'type'}))}")
    if entry.get("type") == "sse":
        raise wrong(OLD_TRANSPORT)
    if "type" in entry and (TYPES.get(str(entry["type"])) not in entry):
        raise wrong("type must be http (with url) or stdio (with command); it may be left out")
    if ("url" in entry) == ("command" in entry):
        raise wrong("write url, or command, and not both")
    problem = next(iter(_problems(entry)), None)
    if problem is not None:
        raise wrong(problem)
    tools = entry.get("tools")
    return ServerConfig(
        name=name,
        url=entry.get("url", ""),
        headers=dict(entry.get("headers", {})),
        command=entry.get("command", ""),
        args=tuple(entry.get("args", ())),
        env=dict(entry.get("env", {})),
        tools=None if tools is None else tuple(tools),
        needs_approval=entry.get("needs_approval", True),
        timeout=float(entry.get("timeout", TIMEOUT)),
    )


def _problems(entry: Mapping[str, Any]) -> Iterator[str]:
    if "url" in entry and not _is_address(entry["url"]):
        yield "url must be http://... or https://..., without a user; what is secret goes into headers"
    if "command" in entry and not _is_text(entry["command"]):
        yield "command must be the path or the name of a program"
    for names, beside in ((("headers",), "url"), (("args", "env"), "command")):
        for each in names:
            if each in entry and beside not in entry:
                yield f"{each} belongs to a server with {beside}"
    if not _is_texts(entry.get("headers", {})) or not all(map(_is_header, entry.get("headers", {}).items())):
        yield "headers must be an object of names and texts, and none that the protocol sets itself"
    if not _is_texts(entry.get("env", {})):
        yield "env must be an object of names and texts"
    if not _is_list(entry.get("args", [])):
        yield "args must be a list of texts"
    if "tools" in entry and not _is_list(entry["tools"]):
        yield "tools must be a list of names; leave it out to take all"
    if not isinstance(entry.get("needs_approval", True), bool):
        yield "needs_approval must be true or false"
    timeout = entry.get("timeout", TIMEOUT)
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, int | float)
        or not 0 < timeout <= LONGEST_TIMEOUT
    ):
        yield f"timeout must be a number of seconds, {LONGEST_TIMEOUT:g} at most"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\x00" not in value


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and "\x00" not in each for each in value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        _is_text(name) and isinstance(text, str) and "\x00" not in text for name, text in value.items()
    )


def _is_header(item: tuple[str, str]) -> bool:
    name, value = item
    return bool(
        TOKEN.fullmatch(name) and name.lower() not in OURS and value.isascii() and (value.isprintable())
    )


def _is_address(value: Any) -> bool:
    try:
        parts = urlsplit(value) if _is_text(value) else None
        port_is_fine = parts is None or parts.port is None or parts.port > 0
    except (ValueError, AttributeError):
        return False
    return bool(
        parts
        and port_is_fine
        and parts.scheme in {"http", "https"}
        and parts.hostname
        and "@" not in parts.netloc
        and value.isprintable()
        and " " not in value
    )
