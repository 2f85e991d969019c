"""What AG-UI's clients check of a stream (`verifyEvents`), over our values; and what we promise besides.

verify_events(events)     raises AssertionError with the number of the event and what is wrong with it
verify_run(events)        the same for one whole run of the loop: it ends, once, with nothing behind
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from agent import events as ev
from agent.events import Event

PAIRS: tuple[tuple[type, type | None, type, str], ...] = (
    (ev.TextMessageStart, ev.TextMessageContent, ev.TextMessageEnd, "message_id"),
    (ev.ToolCallStart, ev.ToolCallArgs, ev.ToolCallEnd, "tool_call_id"),
    (ev.ReasoningMessageStart, ev.ReasoningMessageContent, ev.ReasoningMessageEnd, "message_id"),
    (ev.ReasoningStart, None, ev.ReasoningEnd, "message_id"),
    (ev.StepStarted, None, ev.StepFinished, "step_name"),
    (ev.SubagentStarted, None, ev.SubagentFinished, "subagent_run_id"),
    (ev.SubagentStarted, None, ev.SubagentError, "subagent_run_id"),
)
AT_CLIENT = "tool-input-available"
CHUNKS = (ev.TextMessageChunk, ev.ToolCallChunk, ev.ReasoningMessageChunk)


def verify_events(events: Iterable[Event]) -> None:
    state: type | None = None  # None before a run, RunStarted in it, else its terminal event
    opened: set[tuple[type, str, str | None]] = set()
    subagents: set[str] = set()
    chunk_seen: set[type] = set()

    for number, event in enumerate(events):

        def no(what: str, number: int = number, event: Event = event) -> AssertionError:
            return AssertionError(f"event {number}, {event!r}: {what}")

        kind = type(event)
        if kind is ev.RunStarted:
            if state is ev.RunStarted:
                raise no("a run is open already")
            state, opened, chunk_seen = kind, set(), set()
            continue
        if kind is ev.RunError:
            if state is ev.RunError:
                raise no("behind RunError only RunStarted may come")
            state = kind
            continue
        if state is not ev.RunStarted:
            raise no("the first event of a run is RunStarted" if state is None else "the run is over")
        if kind is ev.RunFinished:
            if opened:
                raise no(f"still open: {sorted((opener.__name__, id) for opener, id, _ in opened)}")
            state = kind
            continue
        if kind is not ev.SubagentStarted and event.subagent_run_id not in (None, *subagents):
            raise no("no such subagent was started")
        if kind is ev.SubagentStarted:
            if event.parent_subagent_run_id is not None and event.parent_subagent_run_id not in subagents:
                raise no("its parent was not started")
            if event.subagent_run_id in subagents:
                raise no("this subagent's id was used before")
            subagents.add(event.subagent_run_id)
        if kind in CHUNKS:
            id = event.tool_call_id if kind is ev.ToolCallChunk else event.message_id
            if id is None and kind not in chunk_seen:
                raise no("the first chunk carries its id")
            chunk_seen.add(kind)
        for opener, grower, closer, name in PAIRS:
            if kind not in (opener, grower, closer):
                continue
            key = (
                opener,
                getattr(event, name),
                None if opener is ev.SubagentStarted else event.subagent_run_id,
            )
            if kind is opener:
                if key in opened and opener is not ev.SubagentStarted:
                    raise no("is open already")
                opened.add(key)
            elif key not in opened:
                if opener is not ev.SubagentStarted or kind is closer:
                    raise no("is not open")
            elif kind is closer:
                opened.discard(key)


def waiting_at_client(end: Event) -> set[str]:
    """The client's calls that a run ends with, whatever its outcome."""
    pending = getattr(getattr(end, "outcome", None), "pending_tool_call_ids", ())
    return {*pending, *((end.metadata or {}).get("pendingToolCallIds", ()))}


def waiting_calls(end: Event) -> set[str]:
    asked = getattr(getattr(end, "outcome", None), "interrupts", ())
    held = (end.metadata or {}).get("heldToolCallIds", ())
    # The question of a subagent is about a call of its own; the outermost call on the way there waits with it.
    calls = {
        ((i.metadata or {}).get("path") or [{"toolCallId": i.tool_call_id}])[0]["toolCallId"] for i in asked
    }
    return {*waiting_at_client(end), *held, *calls}


def verify_run(events: Sequence[Event]) -> None:
    verify_events(events)
    assert isinstance(events[0], ev.RunStarted), events[0]
    ends = [number for number, event in enumerate(events) if ev.is_terminal(event)]
    assert ends == [len(events) - 1], f"one terminal event, the last: {ends} of {len(events)}"
    assert sum(isinstance(event, ev.RunStarted) for event in events) == 1

    calls = [event.tool_call_id for event in events if isinstance(event, ev.ToolCallStart)]
    assert all(calls), "a call without an id"
    assert len(calls) == len(set(calls)), f"two calls of one id: {calls}"
    own = {
        e.tool_call_id
        for e in events
        if isinstance(e, ev.ToolCallStart) and not e.provider_executed and e.subagent_run_id is None
    }
    results = Counter(event.tool_call_id for event in events if isinstance(event, ev.ToolCallResult))
    assert all(count == 1 for count in results.values()), f"a call with two results: {results}"
    left = own - set(results)
    waiting = waiting_calls(events[-1])
    assert left == waiting & own, (
        f"calls without a result: {left - waiting}; waiting with one: {waiting - left}"
    )
    told = {e.value["toolCallId"] for e in events if isinstance(e, ev.Custom) and e.name == AT_CLIENT}
    assert told == waiting_at_client(events[-1]), f"the clients of {told} were told to run something"

    texts = {e.message_id for e in events if isinstance(e, ev.TextMessageStart | ev.ToolCallResult)}
    tools = [e.message_id for e in events if isinstance(e, ev.ToolCallResult)]
    assert len(tools) == len(set(tools)), "two results of one message id"
    assert len(texts) >= len(tools)
