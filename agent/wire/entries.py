"""Messages and tools that somebody wrote in either dialect, in the one that a request speaks.

A hook appends Anthropic's blocks to a chat request, or OpenAI's tool messages to the other: each entry is looked
at by itself, and what speaks the right dialect already stays as it is, to the last field.

    entry of the other dialect            becomes
    blocks tool_use, thinking, ...        one assistant message with `tool_calls` (thoughts have no counterpart)
    blocks tool_result                    a tool message for each
    message of role tool                  one user message with a `tool_result` for each that stand together
    message with `tool_calls`             an assistant message with blocks
    message of role system or developer   the text that is given back beside the messages, for the top level
    picture, file, sound                  its counterpart, or a line of text that names it

Raises InvalidRequest with the path of a field that is neither.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from agent.messages import Message, ThinkingPart, ToolCallPart
from agent.wire.anthropic import decode as from_anthropic
from agent.wire.anthropic import encode as to_anthropic
from agent.wire.jsonload import call_object, is_json
from agent.wire.jsontext import dump
from agent.wire.openai_chat import decode as from_openai
from agent.wire.openai_chat import encode as to_openai

Json = dict[str, Any]
Dialect = Literal["openai", "anthropic"]

_OPENAI_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
_ANTHROPIC_PARTS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "image", "document"}
)


def entries_in(dialect: Dialect, entries: Iterable[Json]) -> tuple[list[Json], str]:
    """The messages in this dialect, and the text of those that it has at the top level."""
    found: list[Json] = []
    system: list[str] = []
    for number, entry in enumerate(entries):
        path = f"messages[{number}]"
        if dialect == "openai":
            found += _openai_entries(entry, path) if _speaks_anthropic(entry) else [entry]
        elif _speaks_openai(entry):
            _join(found, system, from_openai.decode_entry("", path, entry))
        else:
            found.append(entry)
    return found, "\n\n".join(text for text in system if text)


def tools_in(dialect: Dialect, tools: Iterable[Json]) -> list[Json]:
    return [_openai_tool(tool) if dialect == "openai" else _anthropic_tool(tool) for tool in tools]


def _kinds(entry: Json) -> set[Any]:
    content = entry.get("content")
    parts = content if isinstance(content, list) else []
    return {part.get("type") for part in parts if isinstance(part, dict)}


def _speaks_anthropic(entry: Json) -> bool:
    return not _ANTHROPIC_PARTS.isdisjoint(_kinds(entry)) and not entry.get("tool_calls")


def _speaks_openai(entry: Json) -> bool:
    own_role = entry.get("role") in ("tool", "system", "developer")
    return own_role or bool(entry.get("tool_calls")) or not _OPENAI_PARTS.isdisjoint(_kinds(entry))


# -- blocks, as chat messages --------------------------------------------------------------------------------


def _openai_entries(entry: Json, path: str) -> list[Json]:
    return [each for message in from_anthropic.decode_entry(entry, path) for each in _as_openai(message)]


def _as_openai(message: Message) -> list[Json]:
    if message.role == "tool":
        return [
            {
                "role": "tool",
                "tool_call_id": result.tool_call_id,
                "content": to_openai.result_text(result.content),
            }
            for result in message.tool_results
        ]
    if message.role == "assistant":
        return _openai_assistant(message)
    content = to_openai.encode_content(message.parts)
    return [{"role": message.role, "content": content}] if content else []


def _openai_assistant(message: Message) -> list[Json]:
    calls = [_openai_call(call) for call in message.tool_calls if not call.provider_executed]
    if not calls and not message.text:
        return []
    entry: Json = {"role": "assistant", "content": message.text or None}
    return [entry | {"tool_calls": calls} if calls else entry]


def _openai_call(call: ToolCallPart) -> Json:
    arguments = call.arguments if is_json(call.arguments) else dump(call_object(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _openai_tool(tool: Json) -> Json:
    if "input_schema" not in tool or "function" in tool:
        return tool
    function = {"name": tool.get("name"), "parameters": tool["input_schema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


# -- chat messages, as blocks --------------------------------------------------------------------------------


def _join(found: list[Json], system: list[str], message: Message) -> None:
    match message.role:
        case "system" | "developer":
            system.append(message.text)
        case "tool":
            _join_results(found, message)
        case _:
            found.append({"role": message.role, "content": _blocks(message)})


def _join_results(found: list[Json], message: Message) -> None:
    """All results of one turn belong into one message there."""
    blocks = [_result(part) for part in message.tool_results]
    last = found[-1]["content"] if found and found[-1].get("role") == "user" else None
    if isinstance(last, list) and any(isinstance(b, dict) and b.get("type") == "tool_result" for b in last):
        found[-1] = found[-1] | {"content": [*last, *blocks]}
    else:
        found.append({"role": "user", "content": blocks})


def _result(part: Any) -> Json:
    content = part.content if isinstance(part.content, str) else to_anthropic.encode_blocks(part.content)
    return {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": content}


def _blocks(message: Message) -> list[Json]:
    blocks: list[Json] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            arguments = call_object(part.arguments)
            blocks.append({"type": "tool_use", "id": part.id, "name": part.name, "input": arguments})
        elif not isinstance(part, ThinkingPart):
            blocks += to_anthropic.encode_blocks([part])
    return blocks


def _anthropic_tool(tool: Json) -> Json:
    function = tool.get("function")
    if not isinstance(function, dict):
        return tool
    schema = {"type": "object", **(function.get("parameters") or {})}
    made = {"name": function.get("name"), "input_schema": schema}
    return made | ({"description": function["description"]} if function.get("description") else {})
