"""A messages answer as events, streamed or in one piece.

    content block                     events
    text                              text of the turn's message; another block opens it again
    thinking, its signature           a thought, ReasoningEncryptedValue
    redacted_thinking                 a thought without text, ReasoningEncryptedValue with `redacted`
    tool_use                          a call; its input in pieces, or whole in the block's start
    server_tool_use, mcp_tool_use     a call marked `provider_executed`
    *_tool_result                     Custom `provider_result` {messageId, toolCallId, block}: whoever folds
    it keeps
                                      it in Message.metadata["providerResults"][toolCallId], from where it is
                                      sent back
    anything else, `ping`             nothing

    stop_reason                       finish reason
    end_turn, stop_sequence           stop
    pause_turn                        stop, with `paused`
    max_tokens, model_context_window_exceeded   length
    tool_use                          tool_calls
    refusal                           content_filter

`message_stop` without a reason counts as `stop` (or `tool_calls`, with whole calls); bytes that end with
neither are a turn that broke off. An `error` event is raised; `finish` then closes what is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.errors import ProviderError
from agent.events import Custom, TurnEnd
from agent.messages import FinishReason, Usage
from agent.wire.jsontext import dump
from agent.wire.problems import read_json, stream_error, token_count
from agent.wire.sse import ServerSentEvent
from agent.wire.turn import NewId, OpenCall, Out, TurnWriter

Json = dict[str, Any]

_REASONS: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_PROVIDER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})


@dataclass(slots=True)
class _Block:
    kind: str
    call: OpenCall | None = None
    whole_input: str = ""


class StreamDecoder:
    """One turn. `feed` each event; `finish` when the bytes end.

    `feed` raises a ProviderError for an error in the stream or for nonsense; `finish` then still closes what
    is open, with `TurnEnd(None)`.
    """

    def __init__(self, message_id: str, new_id: NewId) -> None:
        self._message_id = message_id
        self._turn = TurnWriter(message_id, new_id)
        self._blocks: dict[Any, _Block] = {}
        self._usage: Json = {}
        self._model: str | None = None
        self._reason: str | None = None
        self._done = False
        self._ended = False

    def feed(self, event: ServerSentEvent) -> Out:
        if self._ended or not event.data:
            return []
        try:
            chunk = read_json(event.data)
            kind = chunk.get("type") or event.event
            if kind == "error" or "error" in chunk:
                raise stream_error(chunk.get("error") or chunk)
        except ProviderError:
            self._reason, self._done = None, False
            raise
        self._read(kind, chunk)
        return self._turn.take()

    @property
    def has_reason(self) -> bool:
        """The turn has said how it ends: nothing but its usage may be missing."""
        return self._reason is not None

    def finish(self) -> Out:
        if not self._ended:
            self._end()
        return self._turn.take()

    def _read(self, kind: str, chunk: Json) -> None:
        if kind == "content_block_delta":
            self._read_delta(self._blocks.get(chunk.get("index")), _dict(chunk, "delta"))
        elif kind == "content_block_start":
            self._start_block(chunk.get("index"), _dict(chunk, "content_block"))
        elif kind == "content_block_stop":
            self._stop_block(chunk.get("index"))
        elif kind == "message_start":
            self.read_head(_dict(chunk, "message"))
        elif kind == "message_delta":
            self.read_head({**_dict(chunk, "delta"), "usage": chunk.get("usage")})
        elif kind == "message_stop":
            self._done = True
            self._end()

    def read_head(self, message: Json) -> None:
        """What surrounds the content: model, stop reason, usage (its counts are sums: the last stand)."""
        if isinstance(model := message.get("model"), str) and model:
            self._model = model
        if reason := message.get("stop_reason"):
            self._reason = str(reason)
        usage = _dict(message, "usage")
        self._usage.update({key: value for key, value in usage.items() if value is not None})

    def read_content(self, content: Any) -> None:
        """All blocks of an answer that came in one piece."""
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self._start_block(index, block)
                self._stop_block(index)

    def _start_block(self, index: Any, content: Json) -> None:
        kind = str(content.get("type") or "")
        block = self._blocks[index] = _Block(kind)
        if kind == "text":
            self._text(content)
        elif kind == "thinking":
            self._thinking(content)
        elif kind == "redacted_thinking":
            self._turn.end_thought()
            self._turn.sign_thought(str(content.get("data") or ""), redacted=True)
        elif kind == "tool_use" or kind in _PROVIDER_CALLS:
            call = self._turn.call(content.get("id"), provider_executed=kind in _PROVIDER_CALLS)
            call.name = str(content.get("name") or "")
            self._turn.begin_call(call)
            block.call = call
            if whole := content.get("input"):
                block.whole_input = dump(whole)
        elif kind.endswith("_tool_result") and (id := content.get("tool_use_id")):
            value = {"messageId": self._message_id, "toolCallId": str(id), "block": content}
            self._turn.event(Custom("provider_result", value))

    def _read_delta(self, block: _Block | None, delta: Json) -> None:
        if block is None:
            return
        if block.kind == "text":
            self._text(delta)
        elif block.kind == "thinking":
            self._thinking(delta)
        elif block.call is not None and (piece := delta.get("partial_json")):
            block.whole_input = ""  # some servers send the input in both forms
            self._turn.arguments(block.call, str(piece))

    def _text(self, content: Json) -> None:
        if text := content.get("text"):
            self._turn.text(str(text))

    def _thinking(self, content: Json) -> None:
        if thinking := content.get("thinking"):
            self._turn.thought(str(thinking))
        if signature := content.get("signature"):
            self._turn.sign_thought(str(signature))

    def _stop_block(self, index: Any) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        if block.kind == "text":
            self._turn.end_text()
        elif block.kind in ("thinking", "redacted_thinking"):
            self._turn.end_thought()
        elif block.call is not None:
            self._end_call(block)

    def _end_call(self, block: _Block) -> None:
        if block.call is not None:
            if block.whole_input:
                self._turn.arguments(block.call, block.whole_input)
            self._turn.end_call(block.call)

    def _end(self) -> None:
        self._ended = True
        for index in list(self._blocks):
            self._stop_block(index)
        self._turn.end(
            TurnEnd(
                self._finish_reason(),
                decode_usage(self._usage),
                self._model,
                provider_reason=self._reason,
                paused=self._reason == "pause_turn",
            )
        )

    def _finish_reason(self) -> FinishReason | None:
        if self._reason is not None:
            return _REASONS.get(self._reason, "stop")
        if not self._done:
            return None
        return "tool_calls" if self._turn.holds_whole_calls else "stop"


def decode_response(body: Json, message_id: str, new_id: NewId) -> Out:
    """A message that came in one piece. Raises what an error object in it stands for."""
    if body.get("type") == "error" or body.get("error"):
        raise stream_error(body.get("error") or body)
    decoder = StreamDecoder(message_id, new_id)
    decoder.read_head(body)
    decoder.read_content(body.get("content"))
    return decoder.finish()


def decode_usage(usage: Json) -> Usage:
    """Anthropic counts what the cache held and took beside the input; our total includes both."""
    held = token_count(usage, "cache_read_input_tokens")
    taken = token_count(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=token_count(usage, "input_tokens") + held + taken,
        output_tokens=token_count(usage, "output_tokens"),
        cached_input_tokens=held,
        cache_write_input_tokens=taken,
    )


def _dict(value: Json, key: str) -> Json:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
