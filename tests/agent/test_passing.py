"""A stream that passes, and what is read off it when it is over."""

from __future__ import annotations

import pytest

from agent.messages import Usage
from agent.wire.passing import MAX_HELD, PassedStream
from agent.wire.raw_events import RawEvents

CHUNKS = (
    b'data: {"id":"1","model":"inner","choices":[{"index":0,"delta":{"content":"say \\"model\\":\\"inner\\""},'
    b'"finish_reason":null}]}\n\n'
    b'data: {"id":"1","model":"inner","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
    b'data: {"id":"1","model":"inner","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\n'
    b"data: [DONE]\n\n"
)
MESSAGE = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","model":"inner","usage":'
    b'{"input_tokens":3,"cache_read_input_tokens":2,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use",'
    b'"id":"c","name":"f","input":{"model":"inner"}}}\n\n'
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"tool_use"},'
    b'"usage":{"output_tokens":4}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
BOTH = [("openai", CHUNKS), ("anthropic", MESSAGE)]
each_dialect = pytest.mark.parametrize(("dialect", "whole"), BOTH, ids=["openai", "anthropic"])


def passed(stream, whole, size):
    out = [stream.feed(whole[i : i + size]) for i in range(0, len(whole), size)]
    return [*out, stream.finish()]


@each_dialect
@pytest.mark.parametrize("size", [*range(1, 12), 64, 10_000])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_any_cut_passes_whole_and_stops_at_an_events_end(dialect, whole, size, ends):
    whole = whole.replace(b"\n", ends)
    pieces = passed(PassedStream(dialect), whole, size)
    assert b"".join(pieces) == whole
    assert all(piece.endswith(ends * 2) for piece in pieces if piece)


@each_dialect
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_only_the_models_name_is_another(dialect, whole, size):
    told = b"".join(passed(PassedStream(dialect, 'pub"\\1lic'), whole, size))
    shown = b'"model":"pub\\"\\\\1lic"'
    if dialect == "openai":
        assert told == whole.replace(b'"id":"1","model":"inner"', b'"id":"1",' + shown)
    else:
        assert told == whole.replace(b'"id":"m","model":"inner"', b'"id":"m",' + shown)


@each_dialect
def test_its_end_its_reason_and_its_usage_are_read_off(dialect, whole):
    stream = PassedStream(dialect)
    passed(stream, whole, 16)
    assert stream.is_whole
    assert stream.stop_reason == ("length" if dialect == "openai" else "tool_use")
    assert stream.usage == (Usage(3, 4) if dialect == "openai" else Usage(5, 4, cached_input_tokens=2))
    assert stream.events == whole.count(b"\n\n")
    assert not stream.ends_in_error


@each_dialect
def test_a_cut_stream_is_not_whole_and_has_told_no_usage_or_some(dialect, whole):
    stream = PassedStream(dialect)
    stream.feed(whole[: whole.index(b"\n\n") + 2])
    assert not stream.is_whole
    assert (stream.usage is None) is (dialect == "openai")


@each_dialect
def test_wherever_it_is_cut_it_is_whole_only_behind_its_reason(dialect, whole):
    at = whole.index(b'"finish_reason":"' if dialect == "openai" else b'"stop_reason":"')
    end = whole.index(b"\n\n", at)
    for cut in range(len(whole)):
        stream = PassedStream(dialect)
        told = stream.feed(whole[:cut]) + stream.finish()
        assert stream.is_whole is (cut >= end), cut
        assert not told or told.endswith((b"\n\n", b"}", b"}\n", b"]", b"]\n"))


def test_words_that_look_like_an_end_are_none():
    stream = PassedStream("openai")
    stream.feed(
        b'data: {"choices":[{"delta":{"content":"data: [DONE] \\"finish_reason\\":\\"stop\\""}}]}\n\n'
    )
    assert not stream.is_whole


def test_an_event_without_end_is_not_held_for_ever():
    stream = PassedStream("openai")
    assert stream.feed(b"data: " + b"x" * 100) == b""
    assert len(stream.feed(b"x" * MAX_HELD)) == MAX_HELD + 106


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10_000])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_raw_events_are_the_very_bytes(size, ends):
    whole = MESSAGE.replace(b"\n", ends) + b": a comment" + ends * 2 + b"data: [DONE]"
    events = RawEvents()
    found = [event for i in range(0, len(whole), size) for event in events.feed(whole[i : i + size])]
    found += events.finish()
    assert b"".join(event.raw for event in found) == whole
    kinds = [event.value["type"] for event in found if event.value]
    assert kinds[0] == "message_start"
    assert len(kinds) == 5
