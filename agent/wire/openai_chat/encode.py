"""A turn's request as a chat completions body.

Choices that need saying:

* Both `system` and `developer` messages go out as `system`: OpenAI takes it for every model, the imitators
know
  nothing else.
* The limit goes out as `max_tokens`, which every server knows, except to OpenAI's own newer models (o1, o3,
o4,
  gpt-5 and later), which take `max_completion_tokens` alone. A deployment under another name that refuses the
  one is sent the other: see `amend_request`.
* Thoughts are not sent back; no server of this protocol takes them.
* A tool result is text here. A picture in it is named, not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from agent.errors import InvalidRequest, ProviderError
from agent.messages import (
    ContentPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from agent.providers.base import ToolSpec, TurnRequest
from agent.wire.history import Results, describe, wire_id, wire_name, with_results
from agent.wire.jsonload import call_object, is_json
from agent.wire.jsontext import dump

Json = dict[str, Any]

LONGEST_ID = 40
_NEW_LIMIT = re.compile(r"(?:o[1-9]|gpt-(?:[5-9]|\d\d))(?:$|[-.:@])")
_NOT_PARAMETERS = frozenset(
    {
        "model",
        "messages",
        "stream",
        "stream_options",
        "tools",
        "tool_choice",
        "openai_tools",
        "anthropic_tools",
    }
)
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def encode_request(request: TurnRequest, *, stream: bool = True) -> Json:
    body: Json = {"model": request.model, "messages": _messages(request)}
    native = request.parameters.get("openai_tools") or ()
    if request.tools or native:
        body["tools"] = [*map(_tool, request.tools), *native]
        if request.tool_choice != "auto":
            body["tool_choice"] = _tool_choice(request.tool_choice)
    body.update(_parameters(request))
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return body


def amend_request(body: Json, error: ProviderError) -> Json | None:
    """The same request in the form that this refusal asks for; None when there is none."""
    said = (error.detail or "").lower()
    if "stream_options" in said and "stream_options" in body:
        return {key: value for key, value in body.items() if key != "stream_options"}
    if "response_format" in said and "response_format" in body:
        return {key: value for key, value in body.items() if key != "response_format"}
    if "max_completion_tokens" in said and "max_tokens" in body:
        return _renamed(body, "max_tokens", "max_completion_tokens")
    if "max_completion_tokens" in said and "max_completion_tokens" in body:
        return _renamed(body, "max_completion_tokens", "max_tokens")
    return None


def _renamed(body: Json, old: str, new: str) -> Json:
    return {new if key == old else key: value for key, value in body.items()}


def limit_field(model: str) -> str:
    """What the limit of output tokens is called: OpenAI's newer models do not take the old name."""
    return "max_completion_tokens" if _NEW_LIMIT.match(model) else "max_tokens"


def _parameters(request: TurnRequest) -> Json:
    if request.parameters.get("anthropic_tools"):
        raise InvalidRequest("tools: this model's endpoint has no counterpart for Anthropic's own tools")
    parameters = {key: value for key, value in request.parameters.items() if key not in _NOT_PARAMETERS}
    limit = parameters.pop("max_completion_tokens", None)
    limit = parameters.pop("max_tokens", None) or limit
    if limit is not None:
        parameters[limit_field(request.model)] = limit
    thinking = parameters.get("thinking")
    if isinstance(thinking, dict) and "budget_tokens" in thinking:
        del parameters["thinking"]  # Anthropic's form; other servers' own `thinking` goes through
    return parameters


def _tool(tool: ToolSpec) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _tool_choice(choice: str) -> str | Json:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _messages(request: TurnRequest) -> list[Json]:
    messages: list[Json] = []
    if request.system:
        messages.append({"role": "system", "content": request.system})
    for message, results in with_results(request.transcript):
        messages += _message(message, results)
    return messages


def _message(message: Message, results: Results) -> Iterable[Json]:
    if message.role == "assistant":
        return _assistant(message, results)
    if message.role == "user":
        content = encode_content(message.parts)
        return [{"role": "user", "content": content}] if content else []
    return [{"role": "system", "content": message.text}] if message.text else []


def _assistant(message: Message, results: Results) -> list[Json]:
    # A second call of the same id would be one call with two bodies; only the first is sent.
    calls = {call.id: call for call in reversed(message.tool_calls) if call.id in results}
    if not calls and not message.text:
        return []
    # `null` beside calls is what OpenAI itself answers, so every imitator takes it back.
    entry: Json = {"role": "assistant", "content": message.text or None}
    if calls:
        entry["tool_calls"] = [_call(calls[id]) for id in results]
    return [entry, *(_result(result) for result in results.values())]


def _call(call: ToolCallPart) -> Json:
    arguments = call.used_arguments
    if not is_json(arguments):
        arguments = dump(call_object(arguments))  # several servers parse it and refuse what is cut
    return {
        "id": wire_id(call.id, longest=LONGEST_ID),
        "type": "function",
        "function": {"name": wire_name(call.name), "arguments": arguments},
    }


def _result(result: ToolResultPart) -> Json:
    return {
        "role": "tool",
        "tool_call_id": wire_id(result.tool_call_id, longest=LONGEST_ID),
        "content": result_text(result.content),
    }


def result_text(content: str | tuple[ContentPart, ...]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, TextPart) else describe(part) for part in content)


def encode_content(parts: Iterable[Part]) -> str | list[Json]:
    """Plain text where it is only text: many servers take nothing else."""
    parts = [part for part in parts if not (isinstance(part, TextPart) and not part.text)]
    if all(isinstance(part, TextPart) for part in parts) and len(parts) <= 1:
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return [_content_part(part) for part in parts if isinstance(part, TextPart | ImagePart | FilePart)]


def _content_part(part: ContentPart) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            url = part.url or f"data:{part.mime_type or 'image/png'};base64,{part.data or ''}"
            return {"type": "image_url", "image_url": {"url": url}}
        case FilePart(kind="audio", mime_type=mime, data=str(data)) if mime in _AUDIO_FORMATS:
            return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS[mime]}}
        case FilePart(kind="document", data=str(data)):
            url = f"data:{part.mime_type or 'application/octet-stream'};base64,{data}"
            return {"type": "file", "file": {"filename": part.name or "file", "file_data": url}}
    return {"type": "text", "text": describe(part)}
