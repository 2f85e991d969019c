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

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal

from agent.cutting import (
    A_TOKEN,
    FETCH,
    call_ids,
    head_of,
    keep,
    result_ids,
    weight,
    with_note,
    with_texts,
    without_data,
)
from agent.wire.jsontext import dump

Json = dict[str, Any]
Dialect = Literal["openai", "anthropic"]

PAGE = 20_000
"""Characters that one fetch gives."""

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
            with_texts(message, lambda text: head_of(text, cut)) if self._is_old(at, edge) else message
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
            key = keep("\n".join(dump(without_data(self._messages[at])) for at in gone), draft := dict(cut))
            note = f"[{len(gone)} earlier messages were cut here; {FETCH} reads them: key {key}]\n"
            start, end = groups[count]
            if (bearer := with_note(shorter[start:end], note)) is not None:
                cut.update(draft)
                put, out = [*shorter[:start], *bearer, *shorter[end:]], set(gone)
                return [message for at, message in enumerate(put) if at not in out]
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


def _role(message: Any) -> str | None:
    """Callers write what they like there; what is no text is nobody's."""
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else None


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
