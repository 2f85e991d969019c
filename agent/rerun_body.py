"""The request of the next round, and an answer without the calls that were settled here. Pure.

What a plan patches is laid over the caller's whole request, so its limits, sampling, thinking and system hold in
every round. What a patch may not reach:

    stream, stream_options      how the answer is sent is the caller's affair
    _agentic_*, max_agentic_loops, the address and key of an endpoint     are no fields of a request
    a tool choice that forces   is released once it was obeyed, or the model could never answer; another one that the
                                patch sets itself holds for its round
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from agent.rerun import Dialect, Json, Patch, Turn
from agent.rerun_answers import answered
from agent.rerun_guard import STOPPED
from agent.wire.entries import entries_in, tools_in

_CONTROL = frozenset({"max_agentic_loops"})
_CONTROL_PREFIX = "_agentic_"
_NOT_IN_PATCH = frozenset(
    {"model", "messages", "stream", "stream_options"}
    | {"api_key", "api_base", "base_url", "api_version", "extra_headers", "headers", "timeout"}
)
_INTERNAL_PREFIXES = ("_", "litellm_")
_FIELDS = frozenset(
    {"max_tokens", "temperature", "top_p", "top_k", "tools", "tool_choice", "thinking", "service_tier"}
    | {"system", "stop_sequences", "container", "mcp_servers", "output_config", "context_management"}
    | {"max_completion_tokens", "stop", "seed", "user", "response_format", "reasoning_effort", "verbosity"}
    | {
        "parallel_tool_calls",
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
    }
    | {"modalities", "prediction", "store", "prompt_cache_key", "safety_identifier", "web_search_options"}
)
"""What of a patch's `kwargs` is a field of the request; the rest is for later hooks only."""


def is_control(field: str) -> bool:
    return field in _CONTROL or field.startswith(_CONTROL_PREFIX)


def without_control(body: Json) -> Json:
    """The same object when there is nothing to take out."""
    if not any(is_control(field) for field in body):
        return body
    return {field: value for field, value in body.items() if not is_control(field)}


def next_body(body: Json, patch: Patch, dialect: Dialect) -> Json:
    """`body` is the request of the round before. Raises InvalidRequest for messages that nobody can read."""
    made = without_control(dict(body))
    for field, value in _patched_fields(patch).items():
        _set(made, field, value)
    if patch.model is not None:
        made["model"] = patch.model
    if patch.tools is not None:
        _set(made, "tools", tools_in(dialect, patch.tools) or None)
    if patch.max_tokens is not None:
        _set_limit(made, patch.max_tokens, dialect)
    if patch.messages is not None:
        _set_messages(made, patch.messages, dialect)
    if made.get("tool_choice") == body.get("tool_choice"):
        _release_choice(made)
    if not made.get("tools"):
        _drop_tools(made)
    return made


def _patched_fields(patch: Patch) -> Json:
    fields = {
        field: value for field, value in patch.kwargs.items() if field in _FIELDS
    } | patch.optional_params
    return {
        field: value
        for field, value in fields.items()
        if field not in _NOT_IN_PATCH and not is_control(field) and not field.startswith(_INTERNAL_PREFIXES)
    }


def _set(body: Json, field: str, value: Any) -> None:
    if value is None:
        body.pop(field, None)
        return
    if field in ("max_tokens", "max_completion_tokens"):
        body.pop("max_tokens", None)
        body.pop("max_completion_tokens", None)
    body[field] = value


def _set_limit(body: Json, limit: int, dialect: Dialect) -> None:
    new_name = dialect == "openai" and "max_completion_tokens" in body
    _set(body, "max_completion_tokens" if new_name else "max_tokens", limit)


def _set_messages(body: Json, messages: Iterable[Json], dialect: Dialect) -> None:
    body["messages"], system = entries_in(dialect, messages)
    if system:
        _add_system(body, system)


def _add_system(body: Json, text: str) -> None:
    there = body.get("system")
    if isinstance(there, list):
        body["system"] = [*there, {"type": "text", "text": text}]
    else:
        body["system"] = f"{there}\n\n{text}" if there else text


# -- tool choice ---------------------------------------------------------------------------------------------


def _release_choice(body: Json) -> None:
    released = _released(body.get("tool_choice"))
    if released is None:
        body.pop("tool_choice", None)
    else:
        body["tool_choice"] = released


def _released(choice: Any) -> Any:
    """The choice when it forces nothing; what is left of one that does, None for nothing."""
    if choice == "required":
        return None
    if not isinstance(choice, dict):
        return choice
    match choice.get("type"):
        case "any" | "tool":
            rest = {key: value for key, value in choice.items() if key not in ("type", "name")}
            return {"type": "auto", **rest} if rest else None
        case "function" | "custom":
            return None
        case "allowed_tools":
            allowed = choice.get("allowed_tools")
            return (
                choice | {"allowed_tools": allowed | {"mode": "auto"}}
                if isinstance(allowed, dict)
                else choice
            )
    return choice


def _drop_tools(body: Json) -> None:
    for field in ("tools", "tool_choice", "parallel_tool_calls"):
        body.pop(field, None)


# -- the end of the loop -------------------------------------------------------------------------------------


def last_body(body: Json, turn: Turn, reason: str, dialect: Dialect) -> Json:
    """One last request in which no tool can be called, so that the caller gets words and not an empty answer.

    The model reads, as the result of each call, why it was not run. Anthropic refuses messages with calls where no
    tools are declared; there the tools stay and the choice is `none`.
    """
    text = f"This call was not run: {STOPPED.get(reason, reason)}. Answer with what you have."
    ids = {call.id: text for call in turn.calls}
    appended = answered(turn, ids, failed=frozenset(ids)) if ids else []
    patch = Patch(messages=[*(body.get("messages") or []), *appended])
    made = next_body(body, patch, dialect)
    if dialect == "anthropic" and made.get("tools"):
        made["tool_choice"] = {"type": "none"}
    else:
        _drop_tools(made)
    return made


def without_calls(response: Json, ids: Collection[str], dialect: Dialect) -> Json:
    """The answer without these calls; the rest of it, the caller's own calls among it, is as it was.

    When no call is left, it ends as an answer does and not as one that waits for results.
    """
    return _without_tool_use(response, ids) if dialect == "anthropic" else _without_tool_calls(response, ids)


def _without_tool_use(response: Json, ids: Collection[str]) -> Json:
    content = response.get("content")
    if not isinstance(content, list):
        return response
    kept = [block for block in content if not _is_call(block, ids)]
    made = response | {"content": kept}
    if made.get("stop_reason") == "tool_use" and not any(_is_call(block, None) for block in kept):
        made["stop_reason"] = "end_turn"
    return made


def _is_call(block: Any, ids: Collection[str] | None) -> bool:
    is_call = isinstance(block, dict) and block.get("type") == "tool_use"
    return is_call and (ids is None or block.get("id") in ids)


def _without_tool_calls(response: Json, ids: Collection[str]) -> Json:
    choices = response.get("choices")
    if not isinstance(choices, list):
        return response
    return response | {"choices": [_choice_without(choice, ids) for choice in choices]}


def _choice_without(choice: Any, ids: Collection[str]) -> Any:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict) or not isinstance(calls := message.get("tool_calls"), list):
        return choice
    kept = [call for call in calls if not (isinstance(call, dict) and call.get("id") in ids)]
    message = {key: value for key, value in message.items() if key != "tool_calls"}
    if kept:
        message["tool_calls"] = kept
    made = choice | {"message": message}
    if not kept and made.get("finish_reason") == "tool_calls":
        made["finish_reason"] = "stop"
    return made


def with_words(response: Json, text: str, dialect: Dialect) -> Json:
    """The answer, with these words in it when nothing else is."""
    if not text:
        return response
    if dialect == "anthropic":
        return (
            response if response.get("content") else {**response, "content": [{"type": "text", "text": text}]}
        )
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices:
        return response
    first = choices[0] if isinstance(choices[0], dict) else {}
    message = first.get("message") or {}
    if message.get("content") or message.get("tool_calls"):
        return response
    return {**response, "choices": [{**first, "message": {**message, "content": text}}, *choices[1:]]}


def without_orphans(messages: list[Json], ids: Collection[str]) -> list[Json]:
    """The messages without those of these calls that have no result in them: every server refuses such a request."""
    open_ids = frozenset(ids) - _answered_ids(messages)
    if not open_ids:
        return messages
    made = (_entry_without(entry, open_ids) for entry in messages)
    return [entry for entry in made if entry is not None]


def _answered_ids(messages: Iterable[Json]) -> frozenset[Any]:
    found = {entry.get("tool_call_id") for entry in messages}
    for entry in messages:
        content = entry.get("content")
        if isinstance(content, list):
            found |= {block.get("tool_use_id") for block in content if isinstance(block, dict)}
    return frozenset(found)


def _entry_without(entry: Json, ids: Collection[str]) -> Json | None:
    """None when nothing is left of it."""
    if isinstance(calls := entry.get("tool_calls"), list):
        kept = [call for call in calls if not (isinstance(call, dict) and call.get("id") in ids)]
        entry = {key: value for key, value in entry.items() if key != "tool_calls"}
        if kept:
            return entry | {"tool_calls": kept}
        return entry if entry.get("content") else None
    if isinstance(content := entry.get("content"), list):
        blocks = [block for block in content if not _is_call(block, ids)]
        return entry | {"content": blocks} if blocks or not content else None
    return entry
