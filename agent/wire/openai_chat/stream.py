"""A chat completions answer as events, streamed or in one piece.

What servers do that OpenAI's own documents do not say, and what becomes of it:

    a call without an id (Gemini, llama.cpp, older Ollama)        one is made
    every call with index 0 (Ollama, Gemini), or without index    a new call begins with a name, once the one
                                                                  before it is whole
    name or id again in every chunk (vLLM, LM Studio)             the same call goes on
    arguments whole in one chunk, or as an object                 the text of that object
    `reasoning_content` (DeepSeek, llama.cpp, vLLM), `reasoning`  thoughts
      (OpenRouter, Ollama), `reasoning_details`, thinking parts
      in `content` (Mistral)
    `finish_reason: "stop"` beside whole calls                    tool_calls
    usage only in a last chunk without choices, or in all         the last one counts
    no `[DONE]`                                                   the finish reason is mark enough
    `message` where `delta` should be                             read like one
    `{"error": ...}` in the stream, after a 200                   raised; `finish` then closes what is open
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.errors import ProviderError
from agent.events import TurnEnd
from agent.messages import FinishReason, Usage
from agent.wire.jsontext import dump
from agent.wire.problems import read_json, stream_error, token_count
from agent.wire.sse import ServerSentEvent
from agent.wire.turn import NewId, OpenCall, Out, TurnWriter

Json = dict[str, Any]

_REASONS: Mapping[str, FinishReason | None] = {
    "stop": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "safety": "content_filter",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    # Not ends but accidents: the answer broke off.
    "error": None,
    "abort": None,
    "cancelled": None,
    "insufficient_system_resource": None,
}


class StreamDecoder:
    """One turn. `feed` each event; `finish` when the bytes end.

    `feed` raises a ProviderError for an error in the stream or for nonsense; `finish` then still closes what
    is open, with `TurnEnd(None)`.
    """

    def __init__(self, message_id: str, new_id: NewId) -> None:
        self._turn = TurnWriter(message_id, new_id)
        self._by_index: dict[int, OpenCall] = {}
        self._by_wire_id: dict[str, OpenCall] = {}
        self._legacy: OpenCall | None = None
        self._usage = Usage()
        self._model: str | None = None
        self._reason: str | None = None
        self._done = False
        self._ended = False

    def feed(self, event: ServerSentEvent) -> Out:
        if self._ended or not event.data:
            return []
        if event.data == "[DONE]" or event.data.strip() == "[DONE]":
            self._done = True
            return self._end()
        try:
            chunk = read_json(event.data)
            if event.event == "error" or chunk.get("error") or chunk.get("object") == "error":
                raise stream_error(chunk.get("error") or chunk)
        except ProviderError:
            self._reason = None  # whatever reason was given, this is no good end
            raise
        self.read(chunk)
        return self._turn.take()

    @property
    def has_reason(self) -> bool:
        """The turn has said how it ends: nothing but its usage may be missing."""
        return self._reason is not None

    def finish(self) -> Out:
        return self._end()

    def read(self, chunk: Json) -> None:
        """One chunk, or one whole completion: they differ in the name of a field."""
        if self._model is None and isinstance(model := chunk.get("model"), str) and model:
            self._model = model
        if usage := chunk.get("usage"):
            self._usage = decode_usage(usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            return
        for choice in choices:
            if isinstance(choice, dict) and not choice.get("index"):
                self._read_choice(choice)

    def _read_choice(self, choice: Json) -> None:
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, dict):
            self._read_delta(delta)
        if reason := choice.get("finish_reason"):
            self._reason = str(reason)
            self._turn.close_all()

    def _read_delta(self, delta: Json) -> None:
        if thought := _thought_in(delta):
            self._turn.thought(thought)
        content = delta.get("content")
        if isinstance(content, list):
            self._read_parts(content)
        elif content:
            self._turn.text(str(content))
        if refusal := delta.get("refusal"):
            self._turn.text(str(refusal))
        if calls := delta.get("tool_calls"):
            self._read_calls(calls)
        if isinstance(function := delta.get("function_call"), dict):
            self._read_legacy_call(function)

    def _read_parts(self, parts: list[Any]) -> None:
        for part in parts:
            if not isinstance(part, dict):
                continue
            if part.get("type") == "thinking":
                thinking = part.get("thinking")
                texts = thinking if isinstance(thinking, list) else [{"text": thinking}]
                if thought := "".join(
                    str(text.get("text") or "") for text in texts if isinstance(text, dict)
                ):
                    self._turn.thought(thought)
            elif text := part.get("text"):
                self._turn.text(str(text))

    # -- calls -----------------------------------------------------------------------------------------------

    def _read_calls(self, entries: Any) -> None:
        touched: list[OpenCall] = []
        for entry in entries if isinstance(entries, list) else [entries]:
            if not isinstance(entry, dict):
                continue
            function = entry.get("function")
            function = function if isinstance(function, dict) else entry
            call = self._call_of(entry, function, touched)
            touched.append(call)
            self._grow(call, function)

    def _call_of(self, entry: Json, function: Json, touched: list[OpenCall]) -> OpenCall:
        index, wire_id = entry.get("index"), entry.get("id") or ""
        if wire_id and (known := self._by_wire_id.get(wire_id)):
            return known
        if isinstance(index, int):
            current = self._by_index.get(index)
        else:
            # Without index and id there is only order: the call that grows is the last one.
            current = self._turn.calls[-1] if self._turn.calls else None
        if current is None or self._begins_another(current, wire_id, function, current in touched):
            current = self._turn.call(wire_id or None)
        if isinstance(index, int):
            self._by_index[index] = current
        if wire_id:
            self._by_wire_id[wire_id] = current
        return current

    def _begins_another(self, current: OpenCall, wire_id: str, function: Json, touched: bool) -> bool:
        """Whether an entry with the place of a known call is a call of its own all the same."""
        name = function.get("name")
        if not name or not current.name:
            return False
        if touched or name != current.name:
            return True
        if not wire_id and not function.get("arguments"):
            return False  # the name said again
        # The last piece first: some servers send a name and a new id with every piece of a long call.
        return bool(current.pieces) and current.pieces[-1].rstrip().endswith("}") and current.is_whole

    def _read_legacy_call(self, function: Json) -> None:
        if self._legacy is None:
            self._legacy = self._turn.call(None)
        self._grow(self._legacy, function)

    def _grow(self, call: OpenCall, function: Json) -> None:
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            arguments = dump(arguments)
        if not call.name and (name := function.get("name")):
            call.name = str(name)
            self._turn.begin_call(call)
        if arguments:
            self._turn.arguments(call, arguments)

    # -- the end ---------------------------------------------------------------------------------------------

    def _end(self) -> Out:
        if not self._ended:
            self._ended = True
            self._turn.close_all()
            self._turn.end(
                TurnEnd(self._finish_reason(), self._usage, self._model, provider_reason=self._reason)
            )
        return self._turn.take()

    def _finish_reason(self) -> FinishReason | None:
        if self._reason is None and not self._done:
            return None
        reason = _REASONS.get((self._reason or "stop").lower(), "stop")
        if reason == "stop" and self._turn.holds_whole_calls:
            return "tool_calls"
        return reason


def decode_response(body: Json, message_id: str, new_id: NewId) -> Out:
    """A completion that came in one piece. Raises what an error object in it stands for."""
    if body.get("error") or body.get("object") == "error":
        raise stream_error(body.get("error") or body)
    decoder = StreamDecoder(message_id, new_id)
    decoder.read(body)
    return decoder.finish()


def decode_usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    prompt, completion = _dict(usage, "prompt_tokens_details"), _dict(usage, "completion_tokens_details")
    return Usage(
        input_tokens=token_count(usage, "prompt_tokens"),
        output_tokens=token_count(usage, "completion_tokens"),
        reasoning_tokens=token_count(completion, "reasoning_tokens"),
        # DeepSeek has its own name for what the cache held.
        cached_input_tokens=token_count(prompt, "cached_tokens")
        or token_count(usage, "prompt_cache_hit_tokens"),
        cache_write_input_tokens=token_count(prompt, "cache_write_tokens"),
    )


def _dict(value: Json, key: str) -> Json:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _thought_in(delta: Json) -> str:
    for key in ("reasoning_content", "reasoning"):
        thought = delta.get(key)
        if isinstance(thought, str) and thought:
            return thought  # some send both, with the same text
    details = delta.get("reasoning_details")
    if not isinstance(details, list):
        return ""
    texts = (detail.get("text") or detail.get("summary") for detail in details if isinstance(detail, dict))
    return "".join(text for text in texts if isinstance(text, str))
