"""A turn as a chat completions answer, streamed or in one piece.

A turn that broke off gets no finish reason and no `[DONE]`, so that no caller takes it for whole. Thoughts go
out as `reasoning_content`. Signatures and a provider's own tool calls have no counterpart and are left out.
"""

from __future__ import annotations

from typing import Any

from agent.errors import AgentError
from agent.events import (
    ReasoningMessageContent,
    TextMessageContent,
    ToolCallArgs,
    ToolCallStart,
    TurnEnd,
    TurnEvent,
)
from agent.messages import Message, ThinkingPart, Usage
from agent.wire.jsontext import dump, quote

Json = dict[str, Any]


class StreamEncoder:
    """`feed` each event, then `finish` once with how the turn ended (or `error`)."""

    def __init__(self, *, id: str, model: str, created: int, include_usage: bool = False) -> None:
        self._head = (
            f'{{"id":{quote(id)},"object":"chat.completion.chunk","created":{created},"model":{quote(model)},'
        )
        self._include_usage = include_usage
        self._begun = False
        self._indexes: dict[str, int] = {}

    def feed(self, event: TurnEvent) -> bytes:
        match event:
            case TextMessageContent(delta=delta):
                return self._chunk(f'{{"content":{quote(delta)}}}')
            case ReasoningMessageContent(delta=delta):
                return self._chunk(f'{{"reasoning_content":{quote(delta)}}}')
            case ToolCallStart(tool_call_id=id, tool_call_name=name, provider_executed=False):
                index = self._indexes[id] = len(self._indexes)
                function = f'{{"name":{quote(name)},"arguments":""}}'
                call = f'{{"index":{index},"id":{quote(id)},"type":"function","function":{function}}}'
                return self._chunk(f'{{"tool_calls":[{call}]}}')
            case ToolCallArgs(tool_call_id=id, delta=delta) if id in self._indexes:
                call = f'{{"index":{self._indexes[id]},"function":{{"arguments":{quote(delta)}}}}}'
                return self._chunk(f'{{"tool_calls":[{call}]}}')
        return b""

    def finish(self, end: TurnEnd) -> bytes:
        if end.finish_reason is None:
            return b""
        last = self._chunk("{}", quote(end.finish_reason))
        if self._include_usage:
            usage = dump(encode_usage(end.usage))
            last += f'data: {self._head}"choices":[],"usage":{usage}}}\n\n'.encode()
        return last + b"data: [DONE]\n\n"

    def error(self, error: AgentError) -> bytes:
        """An error where a stream has begun already; nothing follows it."""
        body = {"error": {"message": str(error), "type": "server_error", "param": None, "code": error.code}}
        return f"data: {dump(body)}\n\n".encode()

    def _chunk(self, delta: str, reason: str = "null") -> bytes:
        begin = b""
        if not self._begun:
            self._begun = True
            begin = self._chunk('{"role":"assistant","content":""}')
        choice = f'{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}'
        return begin + f'data: {self._head}"choices":[{choice}]}}\n\n'.encode()


def encode_response(message: Message, end: TurnEnd, *, id: str, model: str, created: int) -> Json:
    answer: Json = {"role": "assistant", "content": message.text or None, "refusal": None}
    if thoughts := "".join(part.text for part in message.parts if isinstance(part, ThinkingPart)):
        answer["reasoning_content"] = thoughts
    calls = [call for call in message.tool_calls if not call.provider_executed]
    if calls:
        answer["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    choice = {"index": 0, "message": answer, "logprobs": None, "finish_reason": end.finish_reason}
    return {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": encode_usage(end.usage),
    }


def encode_usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_write_input_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
