"""A messages body as a turn's request. What cannot be kept is refused by the path of its field.

Parameters get OpenAI's names where there is one (`stop_sequences` is `stop`, `metadata.user_id` is `user`). A
user message that holds tool results becomes a tool message for each, then a user message for the rest. Left
out: `stream`, and the `cache_control` marks of single blocks.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

from agent.messages import (
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
)
from agent.providers.base import ToolSpec, TurnRequest
from agent.wire.fields import Json, numbers, objects, objects_in, refuse, texts, want
from agent.wire.jsontext import dump

_READ = frozenset(
    {
        "model",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "stream",
        "stop_sequences",
        "metadata",
        "max_tokens",
    }
)
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def decode_request(body: Json) -> TurnRequest:
    messages: list[Message] = []
    for path, entry in objects(body, "messages"):
        messages += decode_entry(entry, path)
    if not messages:
        refuse("messages", "must not be empty")
    tools, native = _tools(body)
    choice, parallel = _tool_choice(body)
    parameters = _parameters(body)
    if native:
        parameters["anthropic_tools"] = native
    if not parallel:
        parameters["parallel_tool_calls"] = False
    return TurnRequest(
        model=want(body, "model", str),
        transcript=Transcript([replace(message, id=f"m{i}") for i, message in enumerate(messages, 1)]),
        message_id="answer",
        tools=tools,
        tool_choice=choice,
        system=_system(body.get("system")),
        parameters=parameters,
    )


def _parameters(body: Json) -> Json:
    parameters = {key: value for key, value in body.items() if key not in _READ and value is not None}
    parameters["max_tokens"] = want(body, "max_tokens", int)
    numbers(parameters, "temperature", "top_p", "top_k")
    if stop := texts(body.get("stop_sequences") or [], "stop_sequences"):
        parameters["stop"] = stop
    metadata = want(body, "metadata", dict, default={})
    if user := want(metadata, "user_id", str, "metadata", default=""):
        parameters["user"] = user
    return parameters


def _system(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    blocks = objects_in(system, "system")
    return "\n\n".join(want(block, "text", str, path) for path, block in blocks)


def _tools(body: Json) -> tuple[tuple[ToolSpec, ...], list[Json]]:
    specs: list[ToolSpec] = []
    native: list[Json] = []
    for path, tool in objects(body, "tools"):
        if want(tool, "type", str, path, default="custom") != "custom":
            native.append(tool)
            continue
        specs.append(
            ToolSpec(
                name=want(tool, "name", str, path),
                description=want(tool, "description", str, path, default=""),
                parameters=want(tool, "input_schema", dict, path),
            )
        )
    return tuple(specs), native


def _tool_choice(body: Json) -> tuple[str, bool]:
    """The choice, and whether calls may come side by side."""
    choice = want(body, "tool_choice", dict, default={"type": "auto"})
    kind = want(choice, "type", str, "tool_choice")
    parallel = not want(choice, "disable_parallel_tool_use", bool, "tool_choice", default=False)
    if kind == "tool":
        return want(choice, "name", str, "tool_choice"), parallel
    if kind not in _CHOICES:
        refuse("tool_choice.type", "must be auto, any, tool or none")
    return _CHOICES[kind], parallel


# -- messages ------------------------------------------------------------------------------------------------


def decode_entry(entry: Json, path: str) -> list[Message]:
    role = want(entry, "role", str, path)
    content = entry.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    blocks = objects_in(content, f"{path}.content")
    if role == "assistant":
        return [_assistant(blocks)]
    if role != "user":
        refuse(f"{path}.role", "must be user or assistant")
    results = [
        Message("", "tool", (_result(block, where),))
        for where, block in blocks
        if block.get("type") == "tool_result"
    ]
    parts = [_part(block, where) for where, block in blocks if block.get("type") != "tool_result"]
    return [*results, Message("", "user", tuple(parts))] if parts or not results else results


def _assistant(blocks: list[tuple[str, Json]]) -> Message:
    parts: list[Part] = []
    results: Json = {}
    for path, block in blocks:
        kind = want(block, "type", str, path)
        match kind:
            case "text":
                parts.append(TextPart(want(block, "text", str, path)))
            case "thinking":
                signature = want(block, "signature", str, path, default="")
                parts.append(ThinkingPart(want(block, "thinking", str, path), signature or None))
            case "redacted_thinking":
                parts.append(ThinkingPart(redacted=want(block, "data", str, path)))
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                parts.append(_call(block, path, provider_executed=kind != "tool_use"))
            case _ if kind.endswith("_tool_result"):
                results[want(block, "tool_use_id", str, path)] = block
            case _:
                refuse(f"{path}.type", f"{kind!r} is not known here")
    return Message("", "assistant", tuple(parts), metadata={"providerResults": results} if results else {})


def _call(block: Json, path: str, *, provider_executed: bool) -> ToolCallPart:
    arguments = want(block, "input", dict, path, default={})
    return ToolCallPart(
        want(block, "id", str, path),
        want(block, "name", str, path),
        dump(arguments) if arguments else "",
        provider_executed,
    )


def _result(block: Json, path: str) -> ToolResultPart:
    content: str | tuple[ContentPart, ...]
    if isinstance(raw := block.get("content"), list):
        content = tuple(_part(item, where) for where, item in objects_in(raw, f"{path}.content"))
    else:
        content = want(block, "content", str, path, default="")
    failed = want(block, "is_error", bool, path, default=False)
    return ToolResultPart(
        want(block, "tool_use_id", str, path), content, error="tool_error" if failed else None
    )


def _part(block: Json, path: str) -> ContentPart:
    kind = want(block, "type", str, path)
    if kind == "text":
        return TextPart(want(block, "text", str, path))
    if kind not in ("image", "document"):
        refuse(f"{path}.type", f"{kind!r} is not known here")
    source = want(block, "source", dict, path)
    form = want(source, "type", str, f"{path}.source")
    where = f"{path}.source"
    mime, data, url = None, None, None
    if form == "base64":
        mime, data = want(source, "media_type", str, where), want(source, "data", str, where)
    elif form == "url":
        url = want(source, "url", str, where)
    elif form == "text" and kind == "document":
        mime, data = "text/plain", base64.b64encode(want(source, "data", str, where).encode()).decode()
    else:
        refuse(f"{where}.type", f"{form!r} is not known here")
    if kind == "image":
        return ImagePart(mime, data, url)
    return FilePart("document", mime, data, url, want(block, "title", str, path, default="") or None)
