"""The parser of server-sent events: the same events whatever the network makes of the bytes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BadStream
from agent.wire.sse import COMMENT, ServerSentEvent, SSEParser, encode_sse


def parse(data: bytes, size: int = 2**20) -> list[ServerSentEvent]:
    parser = SSEParser()
    events = [event for i in range(0, len(data), size) for event in parser.feed(data[i : i + size])]
    return events + parser.finish()


def texts(data: bytes, size: int = 2**20) -> list[str]:
    return [event.data for event in parse(data, size)]


def test_an_event_is_its_data():
    assert parse(b"data: hello\n\n") == [ServerSentEvent("hello")]


def test_all_fields_are_read():
    assert parse(b"event: ping\nid: 7\nretry: 250\ndata: x\n\n") == [ServerSentEvent("x", "ping", "7", 250)]


def test_the_last_id_stays_but_name_and_retry_do_not():
    _, second = parse(b"event: a\nid: 7\nretry: 1\ndata: x\n\ndata: y\n\n")
    assert (second.event, second.id, second.retry) == ("", "7", None)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_lines_end_in_three_ways_and_are_cut_anywhere(end: bytes, size: int):
    data = b"data: one\n\n: a comment\n\nevent: e\ndata: two\ndata: lines\n\ndata\n\n".replace(b"\n", end)
    assert texts(data, size) == ["one", "two\nlines", ""]


def test_line_ends_may_be_mixed():
    assert texts(b"data: 1\r\n\ndata: 2\r\rdata: 3\n\r\ndata: 4\n\n") == ["1", "2", "3", "4"]


def test_a_cr_at_the_end_of_the_bytes_ends_its_line_at_once():
    parser = SSEParser()
    assert [event.data for event in parser.feed(b"data: x\r\r")] == ["x"]
    assert parser.feed(b"\ndata: y\r") == []
    assert [event.data for event in parser.feed(b"\n\r")] == ["y"]


def test_only_one_space_behind_the_colon_is_dropped():
    assert texts(b"data:x\n\ndata:  x\n\n") == ["x", " x"]


def test_a_bom_is_dropped_once_and_only_in_front():
    bom = b"\xef\xbb\xbf"
    assert texts(bom + b"data: a\n\ndata: " + bom + b"b\n\n", 1) == ["a", "\ufeffb"]


@pytest.mark.parametrize("size", range(1, 9))
def test_characters_may_be_cut_anywhere(size: int):
    assert texts("data: é€😀\n\n".encode(), size) == ["é€😀"]


def test_what_is_no_utf8_is_replaced_and_hurts_nothing_else():
    assert texts(b"data: a\xffb\n\ndata: \xe2\x82\n\ndata: c\n\n", 1) == ["a\ufffdb", "\ufffd", "c"]


def test_unknown_fields_comments_and_bad_values_are_dropped():
    data = b": c\nfoo: bar\nretry: 1x\nid: a\0b\nevent\ndata: x\n\n"
    assert parse(data) == [ServerSentEvent("x")]


def test_an_event_without_data_is_none():
    assert parse(b"event: x\nid: 3\n\n\n\n") == []


@pytest.mark.parametrize("rest", [b"data: [DONE]", b"data: [DONE]\n", b"event: e\ndata: [DO", b"data: a\r"])
def test_what_is_cut_is_no_event_but_can_be_seen(rest: bytes):
    parser = SSEParser()
    assert [event.data for event in parser.feed(b"data: 1\n\n" + rest)] == ["1"]
    assert parser.finish() == []
    assert parser.leftover is not None
    assert parser.leftover.data == rest.split(b"data: ")[1].strip().decode()


def test_a_whole_stream_leaves_nothing():
    parser = SSEParser()
    parser.feed(b"data: 1\n\n: comment\n\n")
    parser.finish()
    assert parser.leftover is None


@pytest.mark.parametrize("piece", [b"x" * 64, b"data: " + b"x" * 58 + b"\n"])
def test_what_never_ends_is_an_error_and_not_a_full_memory(piece: bytes):
    parser = SSEParser(max_waiting=1000)
    with pytest.raises(BadStream):
        for _ in range(100):
            parser.feed(piece)


def test_many_events_may_be_more_than_may_wait():
    parser = SSEParser(max_waiting=1000)
    assert sum(len(parser.feed(b"data: " + b"x" * 90 + b"\n\n")) for _ in range(1000)) == 1000


def test_tiny_pieces_of_a_huge_event_take_linear_time():
    def seconds(size: int) -> float:
        parser, started = SSEParser(), time.process_time()
        for _ in range(size):
            parser.feed(b"0123456789abcdef")
        assert len(parser.feed(b"\n\n")) == 0
        return time.process_time() - started

    seconds(1000)
    # Quadratic work would take 64 times as long for 8 times as much; the rest is a noisy machine.
    assert seconds(160_000) < 32 * max(seconds(20_000), 0.002)


@given(
    st.lists(
        st.tuples(st.text().filter(lambda text: "\r" not in text), st.sampled_from([None, "e", "über"]))
    ),
    st.integers(1, 20),
)
def test_what_is_encoded_is_parsed_again(events: list[tuple[str, str | None]], size: int):
    data = b"".join(encode_sse(text, event) + COMMENT for text, event in events)
    assert [(event.data, event.event or None) for event in parse(data, size)] == [
        (text.encode("utf-8", "replace").decode(), event) for text, event in events
    ]


def test_encoding_uses_lf_only_and_refuses_a_name_of_two_lines():
    assert encode_sse("a\r\nb\rc", "e", "1", 5) == b"event: e\nid: 1\nretry: 5\ndata: a\ndata: b\ndata: c\n\n"
    with pytest.raises(ValueError, match="one line"):
        encode_sse("x", "a\nb")
