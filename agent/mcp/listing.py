"""What a server says of its tools, as tools of ours; and which are refused, and why.

    name                 `server__name`; what no provider takes in a name becomes `_`. One that is too long, or meets
                         another by that, is cut and ends in eight digits of its hash: the same name every time
    description, title   text, 2,000 characters at most
    schema               must be one of an object, 64 KB at most, 24 deep at most, of names that every provider takes.
                         What they do not take beside its properties (`oneOf` and the like) the server checks alone
    readOnlyHint         nobody is asked; may run twice
    idempotentHint       may run twice
    anything else        a person is asked, unless `needs_approval` is false; then only with destructiveHint

A hint is the server's own word. Who does not trust it says `ask` or `deny` in a group's policy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from agent.mcp.config import ServerConfig
from agent.mcp.faults import Fault, fault
from agent.mcp.text import shown
from agent.text import storable
from agent.tools import Tool, ToolContext
from agent.wire.jsontext import plain

if TYPE_CHECKING:
    from mcp.types import Tool as TheirTool
    from mcp.types import ToolAnnotations

MOST_TOOLS = 128
MOST_REFUSED = 100
"""Of those that are kept by name. A page of a server's list may hold 100,000."""
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 2000
LARGEST_SCHEMA = 64 * 1024
DEEPEST_SCHEMA = 24
MAX_OUTPUT = 100_000
"""Bytes of text of one result that a model gets; the whole is kept for people."""
DIGITS = 8
NO_PROVIDERS = re.compile(r"[^a-zA-Z0-9_-]")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
NOT_AT_THE_TOP = frozenset({"oneOf", "anyOf", "allOf", "not", "enum", "const", "if", "then", "else"})
"""With one of these at the root of a schema, endpoints refuse the whole request, and so every run."""

Call = Callable[[str, bool, Mapping[str, Any], ToolContext], Awaitable[Any]]
"""Calls a tool: its name at the server, whether it may run twice, the arguments."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A tool that is not taken, by the name it has at its server."""

    name: str
    why: Fault


@dataclass(frozen=True, slots=True)
class Listed:
    """`more`: how many are refused besides those that are named."""

    tools: tuple[Tool, ...] = ()
    refused: tuple[Refused, ...] = ()
    more: int = 0


def tools_of(config: ServerConfig, theirs: Iterable[TheirTool], call: Call) -> Listed:
    wanted = [tool for tool in theirs if config.tools is None or tool.name in config.tools]
    refused = [Refused(name, fault("absent")) for name in _missing(config, wanted)]
    refused += [_refused(tool, fault("too_many", most=MOST_TOOLS)) for tool in wanted[MOST_TOOLS:]]
    fit: dict[str, TheirTool] = {}
    for tool in wanted[:MOST_TOOLS]:
        why = fault("twice") if tool.name in fit else _fault(tool)
        if why is not None:
            refused.append(_refused(tool, why))
        else:
            fit[tool.name] = tool
    names = names_of(config.name, fit)
    return Listed(
        tuple(_tool(config, names[name], tool, call) for name, tool in fit.items()),
        tuple(refused[:MOST_REFUSED]),
        max(len(refused) - MOST_REFUSED, 0),
    )


def names_of(server: str, theirs: Iterable[str]) -> dict[str, str]:
    """Their name -> ours. Those that may stay as they are come first, so that no other can take their place."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(theirs, key=lambda name: (bool(NO_PROVIDERS.search(name)), name)):
        ours = f"{server}__{NO_PROVIDERS.sub('_', name)}"
        if len(ours) > LONGEST_NAME or ours in taken:
            # Not once: a server may name a tool as another one is cut, and with two of one name no run would begin.
            cut = (f"{ours[: LONGEST_NAME - DIGITS - 1]}_{_digits(name, again)}" for again in count())
            ours = next(each for each in cut if each not in taken)
        taken.add(ours)
        found[name] = ours
    return found


def _digits(name: str, again: int) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass") + bytes(again)).hexdigest()[:DIGITS]


def _missing(config: ServerConfig, wanted: Iterable[TheirTool]) -> list[str]:
    there = {tool.name for tool in wanted}
    return [name for name in config.tools or () if name not in there]


def _refused(tool: TheirTool, why: Fault) -> Refused:
    return Refused(shown(tool.name), why)


def _fault(tool: TheirTool) -> Fault | None:
    if not tool.name.strip():
        return fault("no_name")
    if tool.input_schema.get("type") != "object":
        return fault("no_object")
    if not isinstance(tool.input_schema.get("properties", {}), dict):
        return fault("no_properties")
    if not all(map(PROPERTY.fullmatch, tool.input_schema.get("properties", {}))):
        return fault("odd_argument")
    if _depth(tool.input_schema) > DEEPEST_SCHEMA:
        return fault("deep", most=DEEPEST_SCHEMA)
    if len(json.dumps(tool.input_schema)) > LARGEST_SCHEMA:
        return fault("large", most=LARGEST_SCHEMA // 1024)
    return None


def _depth(schema: Any) -> int:
    level, depth = [schema], 0
    while level and depth <= DEEPEST_SCHEMA:
        depth += 1
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
    return depth


def _tool(config: ServerConfig, name: str, tool: TheirTool, call: Call) -> Tool:
    hints = tool.annotations
    reads = hints is not None and hints.read_only_hint is True
    repeats = reads or (hints is not None and hints.idempotent_hint is True)
    theirs = tool.name

    async def execute(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        return await call(theirs, repeats, arguments, ctx)

    return Tool(
        name=name,
        description=_description(tool),
        parameters=plain({"properties": {}, **_without_what_is_refused(tool.input_schema)}, storable),
        execute=execute,
        needs_approval=not reads and (config.needs_approval or _destroys(hints)),
        timeout=config.timeout,
        idempotent=repeats,
        max_output=MAX_OUTPUT,
    )


def _without_what_is_refused(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in NOT_AT_THE_TOP}


def _destroys(hints: ToolAnnotations | None) -> bool:
    return hints is not None and hints.destructive_hint is True


def _description(tool: TheirTool) -> str:
    title = tool.title or (tool.annotations.title if tool.annotations else "") or ""
    words = storable((tool.description or title)[: LONGEST_DESCRIPTION + 1]).strip()
    return words if len(words) <= LONGEST_DESCRIPTION else f"{words[:LONGEST_DESCRIPTION]}…"
