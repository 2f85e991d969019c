"""The shapes in which a request asks for a web search, and the one tool that takes their place. Pure.

| in `tools` | is |
|---|---|
| a type `web_search`, `web_search_...` (Anthropic's `web_search_20250305`, OpenAI's `web_search_preview`) | native |
| a function tool called `web_search` without a schema, with an empty one, or with SCHEMA | bare |
| a function tool called `web_search` with any other schema | the caller's own |

`web_search_options` beside the tools (OpenAI's) is a native one too. Where the caller has a tool of its own of that
name, nothing here is meant. Of a native tool, `max_uses` and the domains count; `user_location` and the rest do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from agent.errors import InvalidRequest
from agent.rerun import Dialect, Json
from agent.rerun_tools import tool_name
from chatsite.gateway.hooks.search_backends import Query, site_of

NAME = "web_search"
DESCRIPTION = (
    "Search the web. Gives titles, addresses and excerpts of the best results. "
    "For several questions call it several times at once."
)
SCHEMA: Json = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for, in a few words"}},
    "required": ["query"],
}

Shape = Literal["native", "bare", "own"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller asks of the searches. `most`: how many there may be, None for no limit of the caller's."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    most: int | None = None

    def query(self, text: str) -> Query:
        return Query(text, self.allowed, self.blocked)


def asks_for_search(body: Json, *, native: bool = True) -> bool:
    """`native`: whether the native shapes are meant for us as well."""
    tools = body.get("tools")
    shapes = {shape_of(tool) for tool in tools} if isinstance(tools, list) else set()
    if isinstance(body.get("web_search_options"), dict):
        shapes.add("native")
    return "own" not in shapes and ("bare" in shapes or (native and "native" in shapes))


def shape_of(tool: Any) -> Shape | None:
    if not isinstance(tool, dict):
        return None
    kind = tool.get("type")
    if isinstance(kind, str) and (kind == NAME or kind.startswith(f"{NAME}_")):
        return "native"
    if kind not in (None, "function", "custom") or tool_name(tool) != NAME:
        return None
    function = tool.get("function")
    holder = function if isinstance(function, dict) else tool
    schema = holder.get("input_schema", holder.get("parameters"))
    empty = not schema or (isinstance(schema, dict) and not schema.get("properties") and "$ref" not in schema)
    return "bare" if empty or schema == SCHEMA else "own"


def with_our_tool(body: Json, dialect: Dialect) -> tuple[Json, Wish]:
    """The body with one function tool in the place of all that ask for a search. Raises InvalidRequest."""
    wish, tools, ours = Wish(), list[Any](), _our_tool(dialect)
    given = body.get("tools") or []
    if not isinstance(given, list):
        raise InvalidRequest("tools: must be a list")
    for at, tool in enumerate(given):
        shape = shape_of(tool)
        if shape is None:
            tools.append(tool)
            continue
        wish = _wish_of(tool, f"tools[{at}]") if shape == "native" else wish
        if ours is not None:
            # A mark for the provider's prompt cache stays where the caller put it.
            tools.append(ours | {key: tool[key] for key in ("cache_control",) if key in tool})
            ours = None
    new = {key: value for key, value in body.items() if key != "web_search_options"}
    new["tools"] = tools if ours is None else [*tools, ours]
    if _chooses_search(body.get("tool_choice")):
        new["tool_choice"] = _choice(body["tool_choice"], dialect)
    return new, wish


def queries_of(arguments: Json) -> list[str]:
    """The queries of one call, however a model that was told no schema names them."""
    given = arguments.get("query", arguments.get("queries", arguments.get("q")))
    texts = given if isinstance(given, list) else [given]
    return [text.strip() for text in texts if isinstance(text, str) and text.strip()]


def _our_tool(dialect: Dialect) -> Json | None:
    if dialect == "anthropic":
        return {"name": NAME, "description": DESCRIPTION, "input_schema": SCHEMA}
    return {"type": "function", "function": {"name": NAME, "description": DESCRIPTION, "parameters": SCHEMA}}


def _wish_of(tool: Json, path: str) -> Wish:
    filters = tool.get("filters") if isinstance(tool.get("filters"), dict) else {}
    most = tool.get("max_uses")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise InvalidRequest(f"{path}.max_uses: must be a whole number above 0")
    fields = {
        name: tool.get(name, filters.get(name) if isinstance(filters, dict) else None)
        for name in ("allowed_domains", "blocked_domains")
    }
    sites = {name: _sites(value, f"{path}.{name}") for name, value in fields.items()}
    return Wish(sites["allowed_domains"], sites["blocked_domains"], most)


def _sites(value: Any, path: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidRequest(f"{path}: must be a list of domains such as example.org")
    sites = [site_of(item) for item in value]
    if None in sites:
        raise InvalidRequest(f"{path}[{sites.index(None)}]: must be a domain such as example.org")
    return tuple(site for site in sites if site is not None)


def _chooses_search(choice: Any) -> bool:
    """A native choice names the tool by its type alone."""
    kind = choice.get("type") if isinstance(choice, dict) else None
    return isinstance(kind, str) and (kind == NAME or kind.startswith(f"{NAME}_"))


def _choice(choice: Json, dialect: Dialect) -> Json:
    if dialect == "anthropic":
        return {**choice, "type": "tool", "name": NAME}
    return {"type": "function", "function": {"name": NAME}}
