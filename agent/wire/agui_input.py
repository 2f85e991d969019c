"""What a client asks for: RunAgentInput, read into a value.

The thread on the server is the record. A client sends its whole history, TanStack AI in another shape than
it was given, so this takes from the body only what the client alone can know:

    last_user_message    what is asked now; its id tells a new question from "again from here"
    user_message_ids     every user message the client knows of, in order
    tool_results         answers to calls (the server takes those of its own pending client calls)
    resume               answers to interrupts
    client_tools         tools that the client runs
    forwarded_props      settings of this run, passed through

Assistant, reasoning, system and activity messages are checked for shape and then forgotten. So are tool
messages with `"pendingExecution": true`, which are TanStack's note of an approval and no result.

Every refusal is an InvalidRequest that begins with the path of what is wrong, as in
`messages.0.content: Input should be a valid string`. What is too large has the code `too_large`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from agent.errors import InvalidRequest
from agent.messages import ContentPart, Message, TextPart, ToolResultPart
from agent.providers.base import ToolSpec
from agent.text import storable, whole
from agent.wire.agui_messages import decode_content, decode_result_content
from agent.wire.agui_shape import run_agent_input
from agent.wire.parts import Json

MAX_ID = 200
MAX_TEXT = 1_000_000
MAX_MESSAGES = 20_000
MAX_TOOLS = 200
MAX_TOOL_NAME = 128


@dataclass(frozen=True, slots=True)
class ResumeAnswer:
    """A person's answer to one interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


@dataclass(frozen=True, slots=True)
class RunInput:
    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    last_user_message: Message | None = None
    user_message_ids: tuple[str, ...] = ()
    tool_results: tuple[ToolResultPart, ...] = ()
    resume: tuple[ResumeAnswer, ...] = ()
    client_tools: tuple[ToolSpec, ...] = ()
    forwarded_props: Mapping[str, Any] = field(default_factory=dict)


def decode_run_input(body: object, *, max_text: int = MAX_TEXT) -> RunInput:
    """`max_text` is the most characters that the last user message may have."""
    checked = _checked(body)
    run_input = RunInput(
        thread_id=_id(checked["threadId"], "threadId"),
        run_id=_id(checked["runId"], "runId"),
        parent_run_id=_optional_id(checked.get("parentRunId"), "parentRunId"),
        last_user_message=_last_user_message(checked["messages"], max_text),
        user_message_ids=_user_message_ids(checked["messages"]),
        tool_results=_tool_results(checked["messages"], max_text),
        resume=_resume(checked.get("resume") or ()),
        client_tools=_client_tools(checked.get("tools") or ()),
        forwarded_props=_forwarded_props(checked.get("forwardedProps")),
    )
    if not (run_input.last_user_message or run_input.resume or run_input.tool_results):
        raise InvalidRequest("messages: there is no user message, tool result or resume to go on from.")
    return run_input


# -- the shape -----------------------------------------------------------------------------------------------


def _checked(body: object) -> Json:
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be a JSON object.")
    _limit(body.get("messages"), MAX_MESSAGES, "messages")
    _limit(body.get("tools"), MAX_TOOLS, "tools")
    body = _with_tool_descriptions(body)
    try:
        run_agent_input().validate_python(body)
    except ValidationError as exc:
        raise InvalidRequest(_first_error(exc, body)) from exc
    return body


def _limit(items: object, most: int, path: str) -> None:
    if isinstance(items, list) and len(items) > most:
        raise InvalidRequest(f"{path}: there are more than {most:,}.", code="too_large")


def _with_tool_descriptions(body: Json) -> Json:
    """AG-UI requires a tool's description; clients that have none send nothing."""
    if not isinstance(body.get("tools"), list):
        return body
    tools = [
        tool | {"description": ""} if isinstance(tool, dict) and tool.get("description") is None else tool
        for tool in body["tools"]
    ]
    return body | {"tools": tools}


def _first_error(exc: ValidationError, body: Json) -> str:
    """The most exact of the errors: a union gives one for each of its members."""
    errors = [(_path(error["loc"], body), error["msg"]) for error in exc.errors(include_input=False)]
    deepest = max(len(path) for path, _ in errors)
    path, message = next(error for error in errors if len(error[0]) == deepest)
    return f"{'.'.join(path)}: {message[:300]}"


def _path(location: Sequence[int | str], body: Any) -> list[str]:
    """The path in the body: without the names of union members that pydantic puts between."""
    path: list[str] = []
    value = body
    for index, step in enumerate(location):
        is_last = index == len(location) - 1
        if isinstance(value, dict) and isinstance(step, str) and (step in value or is_last):
            path.append(step)
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            path.append(str(step))
            value = value[step]
    return path


# -- what is taken from it -----------------------------------------------------------------------------------


def _last_user_message(messages: Sequence[Json], max_text: int) -> Message | None:
    for number, message in reversed(list(enumerate(messages))):
        if message["role"] == "user":
            path = f"messages.{number}"
            parts = _user_parts(message["content"], f"{path}.content", max_text)
            return Message(id=_id(message["id"], f"{path}.id"), role="user", parts=parts)
    return None


def _user_parts(content: Any, path: str, max_text: int) -> tuple[ContentPart, ...]:
    if not isinstance(content, str):
        _check_media(content, path)
    parts = tuple(_well_formed(part) for part in decode_content(content))
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    if len(text) > max_text:
        raise InvalidRequest(f"{path}: the text is longer than {max_text:,} characters.", code="too_large")
    if not text.strip() and all(isinstance(part, TextPart) for part in parts):
        raise InvalidRequest(f"{path}: the message is empty.")
    return parts


def _well_formed(part: ContentPart) -> ContentPart:
    return TextPart(whole(part.text)) if isinstance(part, TextPart) else part


def _check_media(content: Iterable[Json], path: str) -> None:
    for number, part in enumerate(content):
        source = part.get("source")
        if source is not None:
            _check_source(source, f"{path}.{number}.source")


def _check_source(source: Json, path: str) -> None:
    kind, value = source.get("type"), source["value"]
    if kind == "file":
        raise InvalidRequest(f"{path}: a provider's file handle is not taken here; send the data or a url.")
    if kind == "url" and not value.startswith(("https://", "http://", "data:")):
        raise InvalidRequest(f"{path}.value: only http, https and data addresses are taken.")
    if kind == "data" and not _is_base64(value):
        raise InvalidRequest(f"{path}.value: this is not base64.")


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def _user_message_ids(messages: Sequence[Json]) -> tuple[str, ...]:
    return tuple(
        _id(message["id"], f"messages.{number}.id")
        for number, message in enumerate(messages)
        if message["role"] == "user"
    )


def _tool_results(messages: Sequence[Json], max_text: int) -> tuple[ToolResultPart, ...]:
    return tuple(
        _tool_result(message, f"messages.{number}", max_text)
        for number, message in enumerate(messages)
        if message["role"] == "tool" and not _is_pending(message["content"])
    )


def _is_pending(content: Any) -> bool:
    if not isinstance(content, str) or "pendingExecution" not in content:
        return False
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("pendingExecution") is True


def _tool_result(message: Json, path: str, max_text: int) -> ToolResultPart:
    call_id = _id(message["toolCallId"], f"{path}.toolCallId")
    content = decode_result_content(message["content"])
    if isinstance(content, str):
        content = storable(content)
        if len(content) > max_text:
            raise InvalidRequest(
                f"{path}.content: the result is longer than {max_text:,} characters.", code="too_large"
            )
    else:
        _check_media(message["content"], f"{path}.content")
    error = message.get("error")
    if error is None:
        return ToolResultPart(call_id, content)
    # TanStack sends "null" for content then: the words are in `error`, and the model reads content.
    if content in ("", "null"):
        content = json.dumps({"error": storable(error)}, ensure_ascii=False)
    return ToolResultPart(call_id, content, error="tool_error")


def _resume(entries: Iterable[Json]) -> tuple[ResumeAnswer, ...]:
    return tuple(
        ResumeAnswer(
            interrupt_id=_id(entry["interruptId"], f"resume.{number}.interruptId"),
            status=entry["status"],
            payload=entry.get("payload"),
        )
        for number, entry in enumerate(entries)
    )


def _client_tools(tools: Iterable[Json]) -> tuple[ToolSpec, ...]:
    specs: dict[str, ToolSpec] = {}
    for number, tool in enumerate(tools):
        name = _id(tool["name"], f"tools.{number}.name", MAX_TOOL_NAME)
        if name in specs:
            raise InvalidRequest(f"tools.{number}.name: there are two tools of this name.")
        specs[name] = ToolSpec(name, tool["description"], _parameters(tool, f"tools.{number}.parameters"))
    return tuple(specs.values())


def _parameters(tool: Json, path: str) -> Json:
    parameters = tool.get("parameters")
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise InvalidRequest(f"{path}: a tool's parameters are a JSON Schema of type object.")
    return {"type": "object", "properties": {}} | parameters


def _forwarded_props(value: object) -> Json:
    """AG-UI takes any value there; only an object can hold a setting that somebody here knows."""
    return value if isinstance(value, dict) else {}


def _id(value: str, path: str, longest: int = MAX_ID) -> str:
    if not value:
        raise InvalidRequest(f"{path}: it is empty.")
    if len(value) > longest:
        raise InvalidRequest(f"{path}: it is longer than {longest} characters.")
    if not value.isprintable():
        raise InvalidRequest(f"{path}: it holds a character that cannot be printed.")
    return value


def _optional_id(value: str | None, path: str) -> str | None:
    return None if value is None else _id(value, path)
