"""Long requests made shorter, by rule. Pure: no model is asked, nothing waits.

Rule 1: system and developer messages, the first user message, the last messages, the message of the last
        `cache_control` mark and all behind it stay as they came. What comes between them is old.
Rule 2: what is cut away leaves its head, or a note, and a key; `fetch` gives all of it back.
Rule 3: a call and its result stay together or go together, and roles alternate as they did before.
Rule 4: the same history is cut the same way as it grows, so that a provider's prompt cache goes on fitting:
        keys are made of the text, and what is old moves forward in steps, not with every message.

    the request is           then
    short enough             nothing
    too long                 each long text of the old messages is cut to its head
    still too long           so are those that the step of rule 4 had spared
    still too long           the oldest groups go; the next one bears the note of them

A group is an assistant's message and all that follows it up to the next one. Images, thinking and the arguments of
calls are never cut by themselves, only together with their group. Works on the JSON body of either protocol;
what it does not understand it leaves alone. Lengths are characters; tokens are counted as four of them.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal

from agent.wire.jsontext import dump

Json = dict[str, Any]
Dialect = Literal["openai", "anthropic"]

FETCH = "fetch_context"
PAGE = 20_000
"""Characters that one fetch gives."""
HEAD = 400
LONG = 1_000
"""A text of more characters is cut; what a cut leaves is well below it, so nothing is cut twice."""
PICTURE = 6_000
"""What an image or a file counts for, whatever its data's length."""
A_TOKEN = 4

DESCRIPTION = (
    "Parts of this conversation were cut to save space. Where that happened a note names a key: "
    "call this with the key to read the part in full."
)
PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "key": {
            "type": "string",
            "description": "The key as the note names it, such as ctx_0123456789abcdef",
        },
        "start": {"type": "integer", "description": "The character to begin at; 0 when left out"},
    },
    "required": ["key"],
}


@dataclass(frozen=True, slots=True)
class Limits:
    """`above`: tokens from which on a request is long. `keep`: how many of the last messages stay."""

    above: int
    keep: int = 8


@dataclass(frozen=True, slots=True)
class Compressed:
    """The shorter body, and what was cut away by its key. Lengths before and after are tokens, about."""

    body: Json
    cut: Mapping[str, str]
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a cut text; `next` is where the following one begins, None behind the last."""

    text: str
    next: int | None
    total: int


def compress(body: Json, dialect: Dialect, limits: Limits) -> Compressed | None:
    """None when nothing is to be cut: the request is short, all of it must stay, or it cannot call FETCH."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not _can_fetch(body):
        return None
    before, most = weight(body), limits.above * A_TOKEN
    if before <= most:
        return None
    tools = [*(body.get("tools") or ()), _tool(dialect)]
    rest = weight({**body, "messages": [], "tools": tools})
    history = _History(messages, limits.keep)
    cut: dict[str, str] = {}
    shorter = messages
    for edge in history.edges:
        cut = {}
        shorter = history.with_heads(edge, cut)
        if rest + weight(shorter) <= most:
            break
    else:
        shorter = history.without_oldest(shorter, rest + weight(shorter) - most, max(most // 4, 1), cut)
    after = rest + weight(shorter)
    if after >= before:
        return None
    new = {**body, "messages": shorter, "tools": tools}
    return Compressed(new, cut, before // A_TOKEN, after // A_TOKEN)


def fetch(cut: Mapping[str, str], key: str, start: int = 0) -> Page | None:
    """None for a key that names nothing."""
    text = cut.get(key)
    if text is None:
        return None
    start = min(max(start, 0), len(text))
    end = start + PAGE
    return Page(text[start:end], end if end < len(text) else None, len(text))


def weight(value: Any) -> int:
    """Characters of text in a JSON value, keys included; pictures count for PICTURE."""
    total, left = 0, [value]
    while left:
        match left.pop():
            case str() as text:
                total += min(len(text), PICTURE) if text.startswith("data:") else len(text)
            case {"type": "base64", "data": str(data)}:
                total += min(len(data), PICTURE)
            case dict() as fields:
                left += fields.keys()
                left += fields.values()
            case list() | tuple() as items:
                left += items
            case _:
                total += A_TOKEN
    return total


def _can_fetch(body: Json) -> bool:
    """A model that must not call, or calls in the old way, could never read what was cut. A tool of the name FETCH
    is the caller's own, or this request was shortened before."""
    choice, tools = body.get("tool_choice"), body.get("tools") or []
    kind = choice.get("type") if isinstance(choice, dict) else choice
    plain = isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)
    return plain and kind != "none" and "functions" not in body and FETCH not in map(_name_of, tools)


def _name_of(tool: Json) -> Any:
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name")


def _tool(dialect: Dialect) -> Json:
    if dialect == "anthropic":
        return {"name": FETCH, "description": DESCRIPTION, "input_schema": PARAMETERS}
    return {
        "type": "function",
        "function": {"name": FETCH, "description": DESCRIPTION, "parameters": PARAMETERS},
    }


# -- what is old ---------------------------------------------------------------------------------------------


class _History:
    """The messages of a request, and which of them may be cut."""

    def __init__(self, messages: list[Any], keep: int) -> None:
        self._messages = messages
        self._first_user = next((at for at, message in enumerate(messages) if _role(message) == "user"), -1)
        marked = [at for at, message in enumerate(messages) if _is_marked(message)]
        self._edge = max(0, min(len(messages) - keep, *marked[-1:], len(messages)))
        self._step = max(1, keep)

    @property
    def edges(self) -> tuple[int, ...]:
        """Where the old messages end: first as far as the step has it, then as far as may be."""
        stepped = self._edge - self._edge % self._step
        return (stepped, self._edge) if stepped != self._edge else (self._edge,)

    def with_heads(self, edge: int, cut: dict[str, str]) -> list[Any]:
        """The long texts before `edge` cut to their heads; what was cut goes into `cut`."""
        return [
            _with_texts(message, lambda text: _head(text, cut)) if self._is_old(at, edge) else message
            for at, message in enumerate(self._messages)
        ]

    def _is_old(self, at: int, edge: int) -> bool:
        return at < edge and at != self._first_user and _role(self._messages[at]) in SPOKEN

    def without_oldest(self, shorter: list[Any], excess: int, step: int, cut: dict[str, str]) -> list[Any]:
        """`shorter` without as many of the oldest groups as weigh `excess`, rounded up to `step`."""
        groups = self._groups()
        sizes = accumulate(weight(shorter[start:end]) for start, end in groups)
        enough = bisect_left(list(sizes), -(-excess // step) * step) + 1
        for count in (*range(enough, len(groups)), *reversed(range(1, min(enough, len(groups))))):
            gone = [at for start, end in groups[:count] for at in range(start, end)]
            key = _keep("\n".join(dump(_without_data(self._messages[at])) for at in gone), draft := dict(cut))
            note = f"[{len(gone)} earlier messages were cut here; {FETCH} reads them: key {key}]\n"
            start, end = groups[count]
            if (bearer := _with_note(shorter[start:end], note)) is not None:
                cut.update(draft)
                put = [*shorter[:start], *bearer, *shorter[end:]]
                return [message for at, message in enumerate(put) if at not in set(gone)]
        return shorter

    def _groups(self) -> list[tuple[int, int]]:
        """(start, end) of each group that may go: behind the first user message, wholly old, and complete."""
        starts = [at for at, message in enumerate(self._messages) if _role(message) == "assistant"]
        return [
            (start, end)
            for start, end in pairwise([*starts, len(self._messages)])
            if start > self._first_user and end <= self._edge and _is_complete(self._messages[start:end])
        ]


SPOKEN = frozenset({"user", "assistant", "tool"})


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _is_marked(value: Any) -> bool:
    """Whether a `cache_control` mark is anywhere inside: on the message, a block, or a block of a result."""
    if isinstance(value, dict):
        return value.get("cache_control") is not None or _is_marked(value.get("content"))
    return isinstance(value, list) and any(map(_is_marked, value))


def _is_complete(messages: Sequence[Any]) -> bool:
    """Nothing but people, models and tools speak in it, and each call has its result there."""
    calls, results = Counter[str](), Counter[str]()
    for message in messages:
        if _role(message) not in SPOKEN or "function_call" in message:
            return False
        calls.update(call_ids(message))
        results.update(result_ids(message))
    return calls == results


def call_ids(message: Json) -> Iterator[str]:
    """The ids of the calls in a message of either protocol."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield str(call.get("id") if isinstance(call, dict) else None)
    for block in _blocks(message):
        if block.get("type") == "tool_use":
            yield str(block.get("id"))


def result_ids(message: Json) -> Iterator[str]:
    """The ids of the calls that a message of either protocol answers."""
    if message.get("role") == "tool":
        yield str(message.get("tool_call_id"))
    for block in _blocks(message):
        if block.get("type") == "tool_result":
            yield str(block.get("tool_use_id"))


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


# -- cutting -------------------------------------------------------------------------------------------------


def _head(text: str, cut: dict[str, str]) -> str:
    if len(text) <= LONG:
        return text
    left = f"{len(text) - HEAD:,} more characters of this text were cut"
    return f"{text[:HEAD]}\n[{left}; {FETCH} reads it whole: key {_keep(text, cut)}]"


def _keep(text: str, cut: dict[str, str]) -> str:
    key = f"ctx_{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"
    cut[key] = text
    return key


def _with_texts(message: Json, change: Callable[[str], str]) -> Json:
    """The message with each of its texts changed: its own, and those of the results in it."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": change(content)}
    if not isinstance(content, list):
        return message
    return {**message, "content": [_block_with_texts(block, change) for block in content]}


def _block_with_texts(block: Any, change: Callable[[str], str]) -> Any:
    match block:
        # What cites a source names places in its text.
        case {"type": "text", "text": str(text)} if not block.get("citations"):
            return {**block, "text": change(text)}
        case {"type": "tool_result"}:
            return _with_texts(block, change)
    return block


def _with_note(group: list[Json], note: str) -> list[Json] | None:
    """The group with a note before the first of its results, or else of its assistant's texts; None: it has
    no text to bear one."""
    answered = [at for at, message in enumerate(group) if any(True for _ in result_ids(message))]
    at = answered[0] if answered else 0
    notes = iter([note])
    noted = _with_texts(group[at], lambda text: next(notes, "") + text)
    return [*group[:at], noted, *group[at + 1 :]] if next(notes, None) is None else None


def _without_data(value: Any) -> Any:
    """The same message with words in the place of pictures, which no text can give back."""
    match value:
        case {"type": "base64", "data": str(data)}:
            return {**value, "data": f"({len(data):,} characters of data)"}
        case dict():
            return {key: _without_data(inner) for key, inner in value.items()}
        case list():
            return [_without_data(inner) for inner in value]
        case str() if value.startswith("data:") and len(value) > LONG:
            return f"({len(value):,} characters of data)"
    return value
