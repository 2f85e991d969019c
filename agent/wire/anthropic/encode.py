"""A turn's request as a messages body.

system            the request's, then every system and developer message of the transcript, at the top level
user, tool        one user message for all that stand together, the tool results first, as the protocol
demands
thinking          sent back only with the signature that proves it; redacted thoughts as they came
provider's tools  sent back with the result block that `Message.metadata["providerResults"]` kept for the
call;
                  without one they are left out, unless the provider paused in the middle of them
tools             messages with calls are refused where no tools are declared; those called are then declared, and
                  the choice is none
parameters        in OpenAI's names: max_tokens (required here: 8192 when nobody says), stop, user,
temperature,
                  top_p, parallel_tool_calls are translated; Anthropic's own pass; what has no counterpart
                  (seed, penalties, logprobs, ...) is left out, but `response_format` is refused
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from agent.errors import InvalidRequest, ProviderError
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
)
from agent.providers.base import ToolSpec, TurnRequest
from agent.wire.history import Results, describe, wire_id, wire_name, with_results
from agent.wire.jsonload import call_object

Json = dict[str, Any]

DEFAULT_MAX_TOKENS = 8192
LONGEST_ID = 64
OWN_PARAMETERS = (
    "top_p",
    "top_k",
    "thinking",
    "metadata",
    "service_tier",
    "container",
    "mcp_servers",
    "output_config",
    "context_management",
    "cache_control",
)


def encode_request(request: TurnRequest, *, stream: bool = True) -> Json:
    messages, system = _messages(request)
    body: Json = {"model": request.model, "max_tokens": _max_tokens(request.parameters)}
    if system:
        body["system"] = system
    body["messages"] = messages
    native = request.parameters.get("anthropic_tools") or ()
    if request.tools or native:
        body["tools"] = [*map(_tool, request.tools), *native]
        body.update(_tool_choice(request))
    elif called := _called(messages):
        body["tools"] = [_tool(ToolSpec(name, "", {})) for name in called]
        body["tool_choice"] = {"type": "none"}
    body.update(_parameters(request.parameters))
    if stream:
        body["stream"] = True
    return body


def amend_request(body: Json, error: ProviderError) -> Json | None:
    """The same request in the form that this refusal asks for: this protocol knows no such thing."""
    return None


def _max_tokens(parameters: Mapping[str, Any]) -> int:
    limit = parameters.get("max_tokens") or parameters.get("max_completion_tokens")
    if limit:
        return int(limit)
    thinking = parameters.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    return DEFAULT_MAX_TOKENS + (budget if isinstance(budget, int) else 0)  # the budget is part of the limit


def _parameters(parameters: Mapping[str, Any]) -> Json:
    wanted = parameters.get("response_format")
    if isinstance(wanted, Mapping) and wanted.get("type") not in (None, "text"):
        raise InvalidRequest("response_format: this model's endpoint has no counterpart for it")
    if parameters.get("openai_tools"):
        raise InvalidRequest("tools: this model's endpoint knows function tools only")
    body = {key: parameters[key] for key in OWN_PARAMETERS if parameters.get(key) is not None}
    if (temperature := parameters.get("temperature")) is not None:
        body["temperature"] = min(temperature, 1)  # its scale ends at 1, OpenAI's at 2
    if stop := parameters.get("stop"):
        body["stop_sequences"] = [stop] if isinstance(stop, str) else list(stop)
    if "metadata" not in body and (user := parameters.get("user")):
        body["metadata"] = {"user_id": user}
    return body


def _tool(tool: ToolSpec) -> Json:
    schema = {"type": "object", **tool.parameters}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _tool_choice(request: TurnRequest) -> Json:
    kinds: dict[str, Json] = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
    choice = kinds.get(request.tool_choice, {"type": "tool", "name": request.tool_choice})
    if request.parameters.get("parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return {} if choice == {"type": "auto"} else {"tool_choice": choice}


def _called(messages: list[Json]) -> list[str]:
    """The names of the tools that were called, each once."""
    blocks = (block for entry in messages if isinstance(entry["content"], list) for block in entry["content"])
    return list(dict.fromkeys(block["name"] for block in blocks if block["type"] == "tool_use"))


# -- messages ------------------------------------------------------------------------------------------------


def _messages(request: TurnRequest) -> tuple[list[Json], str]:
    system = [request.system]
    turns: list[tuple[str, list[Json]]] = []
    last = len(request.transcript) - 1
    at_end = request.transcript[last].id if last >= 0 else ""
    for message, results in with_results(request.transcript):
        if message.role == "user":
            _join(turns, "user", encode_blocks(message.parts))
        elif message.role == "assistant":
            resumes = message.paused and message.id == at_end
            _join(turns, "assistant", _assistant(message, results, resumes=resumes))
            _join(turns, "user", [_result(result) for result in results.values()])
        else:
            system.append(message.text)
    if turns and turns[0][0] == "assistant":
        turns.insert(0, ("user", [{"type": "text", "text": "(The conversation begins.)"}]))
    messages = [{"role": role, "content": _simplest(blocks)} for role, blocks in turns]
    return messages, "\n\n".join(text for text in system if text)


def _join(turns: list[tuple[str, list[Json]]], role: str, blocks: list[Json]) -> None:
    if not blocks:
        return
    if turns and turns[-1][0] == role:
        turns[-1][1].extend(blocks)
    else:
        turns.append((role, blocks))


def _simplest(blocks: list[Json]) -> str | list[Json]:
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        text: str = blocks[0]["text"]
        return text
    return blocks


def _assistant(message: Message, results: Results, *, resumes: bool) -> list[Json]:
    kept = message.metadata.get("providerResults")
    kept = kept if isinstance(kept, Mapping) else {}
    blocks: list[Json] = []
    sent: set[str] = set()
    for part in message.parts:
        if isinstance(part, ThinkingPart):
            blocks += _thought(part)
        elif isinstance(part, ToolCallPart) and part.id not in sent:
            sent.add(part.id)
            if not part.provider_executed:
                blocks.append(_call(part, "tool_use"))
            elif part.id in kept:
                blocks += (_call(part, "server_tool_use"), kept[part.id])
            elif resumes:
                blocks.append(_call(part, "server_tool_use"))
        elif isinstance(part, TextPart) and part.text.strip():
            blocks.append({"type": "text", "text": part.text})
    if all(block["type"] in ("thinking", "redacted_thinking") for block in blocks):
        return blocks if resumes else []  # a thought alone is no message
    return blocks


def _thought(part: ThinkingPart) -> list[Json]:
    if part.redacted is not None:
        return [{"type": "redacted_thinking", "data": part.redacted}]
    if part.signature:
        return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
    return []


def _call(call: ToolCallPart, kind: str) -> Json:
    return {
        "type": kind,
        "id": wire_id(call.id, longest=LONGEST_ID),
        "name": wire_name(call.name),
        "input": call_object(call.used_arguments),
    }


def _result(result: ToolResultPart) -> Json:
    content = result.content if isinstance(result.content, str) else encode_blocks(result.content)
    block: Json = {
        "type": "tool_result",
        "tool_use_id": wire_id(result.tool_call_id, longest=LONGEST_ID),
        "content": content,
    }
    if result.error is not None:
        block["is_error"] = True
    return block


def encode_blocks(parts: Iterable[Part]) -> list[Json]:
    return [
        _block(part)
        for part in parts
        if isinstance(part, ImagePart | FilePart) or (isinstance(part, TextPart) and part.text.strip())
    ]


def _block(part: ContentPart) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image", "source": _source(part.mime_type or "image/png", part.data, part.url)}
        case (
            FilePart(kind="document", mime_type="application/pdf")
            | FilePart(kind="document", mime_type=None, url=str())
        ):
            source = _source("application/pdf", part.data, part.url)
        case FilePart(kind="document", mime_type=str(mime), data=str(data)) if mime.startswith("text/"):
            source = {"type": "text", "media_type": "text/plain", "data": _decoded(data)}
        case _:
            return {"type": "text", "text": describe(part)}
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}


def _source(mime_type: str, data: str | None, url: str | None) -> Json:
    if data is None and url and url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        mime_type = head.partition(";")[0] or mime_type
    if data is not None:
        return {"type": "base64", "media_type": mime_type, "data": data}
    return {"type": "url", "url": url or ""}


def _decoded(data: str) -> str:
    try:
        return base64.b64decode(data).decode("utf-8", "replace")
    except binascii.Error:
        return data
