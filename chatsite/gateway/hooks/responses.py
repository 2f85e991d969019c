"""Answers as hooks written for LiteLLM read them: by item and by attribute, all the way down.

    answer of      response["content"]  response.content        response.choices[0].message.tool_calls[0].function.name
    /v1/messages   Anthropic's blocks   the same                -
    chat           the same blocks      the same                OpenAI's answer, by item too

LiteLLM hands a plain dict on the first and an object on the second, so a hook that reads the one by attribute, or the
other by item, silently never fires there. Here both work on both. The blocks of a chat answer can be read without
being part of it: they are in no `items()` and no `model_dump()`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agent.rerun import Json, copied

_ABSENT = frozenset(
    {
        "tool_calls",
        "function_call",
        "content",
        "refusal",
        "audio",
        "annotations",
        "reasoning_content",
        "usage",
    }
    | {"logprobs", "finish_reason", "stop_reason", "stop_sequence", "system_fingerprint", "index"}
)
"""Fields that an object of LiteLLM's has even when the answer does not: they are None."""


class View(dict[str, Any]):
    """An object of JSON. Setting an attribute sets the item."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name in _ABSENT:
            return None
        raise AttributeError(f"This answer has no {name!r}; it has {', '.join(self) or 'nothing'}.")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def model_dump(self, *, exclude_none: bool = False, **_: Any) -> Json:
        made: Json = copied(self)
        return {key: value for key, value in made.items() if value is not None} if exclude_none else made

    def json(self, **how: Any) -> Json:
        return self.model_dump(**how)

    def dict(self, **how: Any) -> Json:
        return self.model_dump(**how)

    def model_dump_json(self, **how: Any) -> str:
        return json.dumps(self.model_dump(**how))


class ChatView(View):
    """A whole chat answer, which has Anthropic's blocks beside it."""

    def __init__(self, answer: Json, blocks: Iterable[Json]) -> None:
        super().__init__(answer)
        object.__setattr__(self, "_blocks", [view(block) for block in blocks])

    def __getattr__(self, name: str) -> Any:
        return self._blocks if name == "content" else super().__getattr__(name)

    def __missing__(self, key: str) -> Any:
        if key == "content":
            return self._blocks
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key == "content" or super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._blocks if key == "content" else super().get(key, default)


def view(value: Any) -> Any:
    """The same JSON, every object in it a View."""
    if isinstance(value, dict):
        return View({key: view(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return [view(item) for item in value]
    return value


def chat_view(answer: Json, blocks: Iterable[Json]) -> ChatView:
    return ChatView(view(answer), blocks)
