"""A chat completions body as a turn's request. What cannot be kept is refused by the path of its field.

Left out: `stream` and `stream_options` (whoever answers reads them), `reasoning_content` of old messages,
message names. Fields that are not known here are kept as parameters. `max_completion_tokens` becomes
`max_tokens`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.messages import (
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
)
from agent.providers.base import ToolSpec, TurnRequest
from agent.wire.fields import Json, check, numbers, objects, objects_in, refuse, split_data_url, want

_READ = frozenset({"model", "messages", "tools", "tool_choice", "stream", "stream_options", "n"})
_LEGACY = {"functions": "tools", "function_call": "tool_choice"}
_MIME_OF_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def decode_request(body: Json) -> TurnRequest:
    for old, new in _LEGACY.items():
        if body.get(old) is not None:
            refuse(old, f"is no longer taken; use {new}")
    if body.get("n") not in (None, 1):
        refuse("n", "must be 1")
    messages = [
        decode_entry(f"m{i}", path, entry) for i, (path, entry) in enumerate(objects(body, "messages"), 1)
    ]
    if not messages:
        refuse("messages", "must not be empty")
    system = ""
    if messages[0].role == "system":
        system = messages[0].text
        messages = [replace(message, id=f"m{i}") for i, message in enumerate(messages[1:], 1)]
    tools, native = _tools(body)
    parameters = _parameters(body)
    if native:
        parameters["openai_tools"] = native
    return TurnRequest(
        model=want(body, "model", str),
        transcript=Transcript(messages),
        message_id="answer",
        tools=tools,
        tool_choice=_tool_choice(body.get("tool_choice")),
        system=system,
        parameters=parameters,
    )


def _parameters(body: Json) -> Json:
    parameters = {key: value for key, value in body.items() if key not in _READ and value is not None}
    limit = parameters.pop("max_completion_tokens", None) or parameters.get("max_tokens")
    if limit is not None:
        parameters["max_tokens"] = check(limit, int, "max_tokens")
    numbers(parameters, "temperature", "top_p")
    stop = parameters.get("stop", "")
    stops = stop if isinstance(stop, list) else [stop]
    if not all(isinstance(each, str) for each in stops):
        refuse("stop", "must be a string or a list of strings")
    return parameters


def _tools(body: Json) -> tuple[tuple[ToolSpec, ...], list[Json]]:
    specs: list[ToolSpec] = []
    native: list[Json] = []
    for path, tool in objects(body, "tools"):
        if want(tool, "type", str, path, default="function") != "function":
            native.append(tool)
            continue
        function = want(tool, "function", dict, path)
        path = f"{path}.function"
        specs.append(
            ToolSpec(
                name=want(function, "name", str, path),
                description=want(function, "description", str, path, default=""),
                parameters=want(function, "parameters", dict, path, default={}),
            )
        )
    return tuple(specs), native


def _tool_choice(choice: Any) -> str:
    if choice is None:
        return "auto"
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            refuse("tool_choice", "must be auto, none, required or a function")
        return choice
    function = want(check(choice, dict, "tool_choice"), "function", dict, "tool_choice")
    return want(function, "name", str, "tool_choice.function")


def decode_entry(id: str, path: str, entry: Json) -> Message:
    role = want(entry, "role", str, path)
    parts: tuple[Part, ...]
    match role:
        case "system" | "developer":
            return Message(id, role, (TextPart(_text(entry.get("content"), f"{path}.content")),))
        case "user":
            parts = _content(entry.get("content"), f"{path}.content")
            return Message(id, "user", parts)
        case "assistant":
            return Message(id, "assistant", _assistant_parts(entry, path))
        case "tool":
            call_id = want(entry, "tool_call_id", str, path)
            result = ToolResultPart(call_id, _text(entry.get("content"), f"{path}.content"))
            return Message(id, "tool", (result,))
    return refuse(f"{path}.role", "must be system, developer, user, assistant or tool")


def _assistant_parts(entry: Json, path: str) -> tuple[Part, ...]:
    text = _text(entry.get("content"), f"{path}.content") if entry.get("content") else ""
    text = text or want(entry, "refusal", str, path, default="")
    parts: list[Part] = [TextPart(text)] if text else []
    for where, call in objects(entry, "tool_calls", path):
        function = want(call, "function", dict, where)
        parts.append(
            ToolCallPart(
                want(call, "id", str, where),
                want(function, "name", str, f"{where}.function"),
                want(function, "arguments", str, f"{where}.function", default=""),
            )
        )
    return tuple(parts)


def _text(content: Any, path: str) -> str:
    """Content where only text is possible: a string, or a list of text parts."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for where, part in objects_in(content, path):
        kind = want(part, "type", str, where)
        if kind not in ("text", "refusal"):
            refuse(f"{where}.type", "only text is possible here")
        texts.append(want(part, kind, str, where))
    return "".join(texts)


def _content(content: Any, path: str) -> tuple[ContentPart, ...]:
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    if not isinstance(content, list):
        refuse(path, "must be a string or a list of parts")
    return tuple(_part(part, where) for where, part in objects_in(content, path))


def _part(part: Json, path: str) -> ContentPart:
    kind = want(part, "type", str, path)
    if kind == "text":
        return TextPart(want(part, "text", str, path))
    inner = want(part, kind, dict, path)
    where = f"{path}.{kind}"
    match kind:
        case "image_url":
            url = want(inner, "url", str, where)
            mime_and_data = split_data_url(url)
            return ImagePart(*mime_and_data) if mime_and_data else ImagePart(url=url)
        case "input_audio":
            form = want(inner, "format", str, where)
            if form not in _MIME_OF_AUDIO:
                refuse(f"{where}.format", "must be wav or mp3")
            return FilePart("audio", _MIME_OF_AUDIO[form], want(inner, "data", str, where))
        case "file":
            mime_and_data = split_data_url(want(inner, "file_data", str, where))
            if mime_and_data is None:
                refuse(f"{where}.file_data", "must be a data URL")
            mime, data = mime_and_data
            return FilePart("document", mime, data, name=want(inner, "filename", str, where, default="file"))
    return refuse(f"{path}.type", "must be text, image_url, input_audio or file")
