"""Every value that can go over the AG-UI codec, as hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st

from agent import events
from agent.messages import (
    FINISH_REASONS,
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)

# Half a surrogate pair has no UTF-8; what happens to it has tests of its own.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ids = st.text(min_size=1, max_size=8, alphabet=st.characters(categories=["L", "N"]))
some_text = st.none() | texts
some_id = st.none() | ids
numbers = st.integers(0, 2**52 - 1)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)

# Metadata that an event brings may hold anything but the codec's keys, also beside ours in `tanstack`.
free_keys = texts.map(lambda key: f"x{key}")
metadata = st.none() | st.dictionaries(free_keys, json_values, min_size=1, max_size=3).flatmap(
    lambda mine: (
        st.just(mine)
        | st.dictionaries(free_keys, json_values, min_size=1, max_size=2).map(
            lambda more: mine | {"tanstack": more}
        )
    )
)


@st.composite
def _media(draw: st.DrawFn) -> dict[str, str | None]:
    """Data with its type, or an address: the two that the wire has a shape for."""
    if draw(st.booleans()):
        return {"data": draw(texts), "mime_type": draw(texts.filter(bool)), "url": None}
    return {"data": None, "mime_type": draw(some_text), "url": draw(texts)}


images = _media().map(lambda media: ImagePart(**media))
files = st.builds(
    lambda media, kind, name: FilePart(kind=kind, name=name, **media),
    _media(),
    st.sampled_from(["audio", "video", "document"]),
    some_text,
)
contents = st.builds(TextPart, texts) | images | files
result_contents = texts | st.lists(contents, max_size=3).map(tuple)
results = st.builds(ToolResultPart, ids, result_contents, some_id, st.none() | numbers)
thoughts = st.builds(ThinkingPart, texts, some_text, some_text, st.none() | st.integers(0, 10**7))
calls = st.builds(ToolCallPart, ids, ids, texts, st.booleans(), some_text)
any_media = st.builds(ImagePart, some_text, some_text, some_text) | st.builds(
    FilePart, st.sampled_from(["audio", "video", "document"]), some_text, some_text, some_text, some_text
)
parts = contents | results | thoughts | calls | any_media
part_lists = st.lists(parts, max_size=5).map(tuple)

messages = st.builds(
    Message,
    id=ids,
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    parts=part_lists | st.lists(st.builds(TextPart, texts), max_size=1).map(tuple),
    finish_reason=st.none() | st.sampled_from(sorted(FINISH_REASONS)),
    metadata=json_objects,
)
message_lists = st.lists(messages, max_size=3).map(tuple)

usages = st.builds(Usage, numbers, numbers, numbers, numbers, numbers)
model_usages = st.lists(st.builds(events.ModelUsage, ids, usages, some_id), max_size=2).map(tuple)
interrupts = st.builds(
    events.Interrupt,
    id=ids,
    reason=ids,
    message=some_text,
    tool_call_id=some_id,
    response_schema=st.none() | json_objects,
    expires_at=some_text,
    metadata=st.none() | json_objects,
)
outcomes = (
    st.builds(events.Success, st.lists(ids, max_size=2).map(tuple))
    | st.builds(events.Interrupted, st.lists(interrupts, min_size=1, max_size=2).map(tuple))
    | st.just(events.Cancelled())
)
operations = st.lists(
    st.builds(lambda path, value: {"op": "add", "path": f"/{path}", "value": value}, ids, json_values),
    max_size=2,
).map(tuple)

_SPECIAL = {
    "input": message_lists,
    "messages": message_lists,
    "outcome": outcomes,
    "usage": model_usages,
    "finish_reason": st.none() | st.sampled_from(sorted(FINISH_REASONS)),
    "role": st.sampled_from(["developer", "system", "assistant", "user"]),
    "subtype": st.sampled_from(["tool-call", "message"]),
    "provider_executed": st.booleans(),
    "duration_ms": st.none() | numbers,
    "delta": texts,
    "replace": st.none() | st.booleans(),
    "patch": operations,
    "snapshot": json_values,
    "value": json_values,
    "event": json_values,
    "result": json_values,
    "suspended": st.lists(ids, max_size=2).map(tuple),
    "timestamp": st.none() | numbers,
    "metadata": metadata,
}
_OPTIONAL_IDS = {
    "parent_subagent_run_id",
    "parent_tool_call_id",
    "parent_run_id",
    "parent_message_id",
    "model",
    "code",
    "source",
    "error",
}


_OUTERMOST = (events.RunStarted, events.RunFinished, events.RunError, events.MessagesSnapshot)
_SUBAGENT = (events.SubagentStarted, events.SubagentFinished, events.SubagentError)


def _strategy(event: type, field: str) -> st.SearchStrategy[object]:
    if field == "subagent_run_id" and event not in _SUBAGENT:
        return st.none() if event in _OUTERMOST else some_id
    if event is events.StateDelta and field == "delta":
        return operations
    if event is events.ToolCallResult and field == "content":
        return result_contents
    if event is events.ActivitySnapshot and field == "content":
        return json_objects
    if field == "name" and event in (events.TextMessageStart, events.TextMessageChunk):
        return some_text
    if event.__name__.endswith("Chunk"):
        return (
            st.none() | _SPECIAL.get(field, ids)
            if field not in ("timestamp", "metadata")
            else _SPECIAL[field]
        )
    if field in _OPTIONAL_IDS:
        return some_id
    return _SPECIAL.get(field, ids)


def of(event: type) -> st.SearchStrategy[events.Event]:
    return st.builds(event, **{name: _strategy(event, name) for name in event.__dataclass_fields__})
