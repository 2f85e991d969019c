"""Several rounds as one stream, cut anywhere; nothing but bytes."""

from __future__ import annotations

import json

import pytest

from agent.messages import Usage
from agent.wire.anthropic import joining as messages
from agent.wire.openai_chat import joining as chat
from tests.standin import DONE, chunk, chunk_of, frame

SIZES = [1, 3, 17, 100_000]
USAGE = Usage(30, 12)


def cut(stream, data, size):
    return b"".join(stream.feed(data[i : i + size]) for i in range(0, len(data), size))


def values(data):
    lines = [line[6:] for line in data.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def block(index, kind, **fields):
    delta = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}[kind]
    piece = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}[kind]
    start = {"type": kind, **fields}
    return b"".join(
        [
            frame("content_block_start", index=index, content_block=start),
            frame(
                "content_block_delta", index=index, delta={"type": delta, piece: fields.get("name", "words")}
            ),
            frame("content_block_stop", index=index),
        ]
    )


def message(*blocks, reason="end_turn"):
    head = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "x",
        "content": [],
        "usage": {"input_tokens": 1},
    }
    told = [block(index, kind, **fields) for index, (kind, fields) in enumerate(blocks)]
    end = frame(
        "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 3}
    )
    return b"".join([frame("message_start", message=head), frame("ping"), *told, end, frame("message_stop")])


def call(id, name):
    return "tool_use", {"id": id, "name": name, "input": {}}


TEXT = ("text", {"text": ""})
THOUGHT = ("thinking", {"thinking": "", "signature": ""})


def shape(data):
    """The blocks as (index, kind or name), the reason, and how often the message begins and ends."""
    events = values(data)
    starts = [(e["index"], e["content_block"]) for e in events if e["type"] == "content_block_start"]
    blocks = [(index, start.get("name") or start["type"]) for index, start in starts]
    kinds = [event["type"] for event in events]
    reasons = [e["delta"]["stop_reason"] for e in events if e["type"] == "message_delta"]
    return blocks, reasons, (kinds.count("message_start"), kinds.count("message_stop"))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("holds", [None, {"ours"}, {"other"}])
def test_a_message_that_is_kept_is_the_bytes_that_came(size, holds):
    whole = message(THOUGHT, TEXT, call("a", "ours"), TEXT, call("b", "theirs"), reason="tool_use")
    stream = messages.JoinedStream(holds)
    live = cut(stream, whole, size)
    assert live + stream.keep(USAGE) == whole
    assert (b"ours" in live) is (holds == {"other"})


@pytest.mark.parametrize("size", SIZES)
def test_a_second_round_goes_on_in_the_same_message(size):
    stream = messages.JoinedStream({"ours"})
    out = cut(stream, message(THOUGHT, TEXT, call("a", "ours"), reason="tool_use"), size) + stream.rerun()
    out += cut(stream, message(TEXT, call("b", "ours"), reason="tool_use"), size) + stream.rerun()
    out += cut(stream, message(TEXT, call("c", "theirs"), reason="tool_use"), size) + stream.keep(USAGE)
    blocks = [(0, "thinking"), (1, "text"), (2, "text"), (3, "text"), (4, "theirs")]
    assert shape(out) == (blocks, ["tool_use"], (1, 1))
    [usage] = [event["usage"] for event in values(out) if event["type"] == "message_delta"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (30, 12)
    indexes = [event["index"] for event in values(out) if "index" in event]
    assert indexes == sorted(indexes)


@pytest.mark.parametrize("size", SIZES)
def test_calls_are_taken_out_by_their_place(size):
    whole = message(TEXT, call("a", "ours"), call("b", "theirs"), call("c", "ours"), reason="tool_use")
    stream = messages.JoinedStream({"ours"})
    out = cut(stream, whole, size) + stream.strip({0, 2}, USAGE)
    assert shape(out) == ([(0, "text"), (1, "theirs")], ["tool_use"], (1, 1))
    stream = messages.JoinedStream(None)
    out = cut(stream, whole, size) + stream.strip({0, 1, 2}, USAGE)
    assert shape(out) == ([(0, "text")], ["end_turn"], (1, 1))


def test_a_call_that_was_told_before_the_held_ones_counts():
    whole = message(call("a", "theirs"), call("b", "ours"), reason="tool_use")
    stream = messages.JoinedStream({"ours"})
    out = stream.feed(whole) + stream.strip({1}, USAGE)
    assert shape(out) == ([(0, "theirs")], ["tool_use"], (1, 1))


def test_an_answer_of_calls_alone_gets_words():
    stream = messages.JoinedStream({"ours"})
    out = stream.feed(message(call("a", "ours"), reason="tool_use")) + stream.strip({0}, USAGE, "Sorry.")
    assert shape(out) == ([(0, "text")], ["end_turn"], (1, 1))
    assert b"Sorry." in out


def test_an_error_is_told_at_once_and_nothing_follows():
    stream = messages.JoinedStream(None)
    error = frame("error", error={"type": "overloaded_error", "message": "Full."})
    held = frame(
        "content_block_start", index=0, content_block={"type": "tool_use", "id": "a", "name": "ours"}
    )
    assert stream.feed(held + error) == error
    assert stream.failed


# -- chat completions ----------------------------------------------------------------------------------------


def called(index, id, name):
    head = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    rest = {"index": index, "function": {"arguments": "{}"}}
    return chunk({"tool_calls": [head]}) + chunk({"tool_calls": [rest]})


def completion(text, *calls, reason=None):
    told = [called(index, id, name) for index, (id, name) in enumerate(calls)]
    return b"".join(
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": text}) if text else b"",
            *told,
            chunk({}, reason or ("tool_calls" if calls else "stop")),
            chunk_of([], usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}),
            DONE,
        ]
    )


def outline(data):
    """Text, calls by (index, name), reasons, usages, roles, end marks."""
    choices = [choice for value in values(data) for choice in value["choices"]]
    deltas = [choice["delta"] for choice in choices]
    calls = [c for delta in deltas for c in delta.get("tool_calls", ()) if c["function"].get("name")]
    return (
        "".join(delta.get("content") or "" for delta in deltas),
        [(c["index"], c["function"]["name"]) for c in calls],
        [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
        sum(bool(value.get("usage")) for value in values(data)),
        sum("role" in delta for delta in deltas),
        data.count(b"[DONE]"),
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_completion_that_is_kept_is_the_bytes_that_came(size):
    whole = completion("Words.", ("a", "ours"), ("b", "theirs"))
    stream = chat.JoinedStream(None)
    live = cut(stream, whole, size)
    assert b"Words." in live
    assert b"ours" not in live
    assert live + stream.keep(USAGE) == whole


@pytest.mark.parametrize("size", SIZES)
def test_a_second_round_goes_on_in_the_same_completion(size):
    stream = chat.JoinedStream(None, include_usage=True)
    out = cut(stream, completion("One. ", ("a", "ours")), size) + stream.rerun()
    second = (
        completion("Two.", ("b", "theirs"))
        .replace(b"chatcmpl-standin", b"another")
        .replace(b"stand-in", b"x")
    )
    out += cut(stream, second, size) + stream.keep(USAGE)
    assert outline(out) == ("One. Two.", [(0, "theirs")], ["tool_calls"], 1, 1, 1)
    assert {value["id"] for value in values(out)} == {"chatcmpl-standin"}
    assert {value["model"] for value in values(out)} == {"stand-in"}
    [usage] = [value["usage"] for value in values(out) if value.get("usage")]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (30, 12, 42)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("include_usage", [False, True])
def test_calls_of_a_completion_are_taken_out_by_their_place(size, include_usage):
    whole = completion("Words.", ("a", "ours"), ("b", "theirs"), ("c", "ours"), ("d", "mine"))
    stream = chat.JoinedStream(None, include_usage=include_usage)
    out = cut(stream, whole, size) + stream.strip({0, 2}, USAGE)
    assert outline(out) == ("Words.", [(0, "theirs"), (1, "mine")], ["tool_calls"], include_usage, 1, 1)
    stream = chat.JoinedStream(None, include_usage=include_usage)
    out = cut(stream, completion("", ("a", "ours")), size) + stream.strip({0}, USAGE, "Sorry.")
    assert outline(out) == ("Sorry.", [], ["stop"], include_usage, 1, 1)


def test_an_answer_in_its_place_has_one_end():
    stream = chat.JoinedStream(None)
    out = stream.feed(completion("One. ", ("a", "ours")))
    message = {"role": "assistant", "content": "Mine.", "tool_calls": None}
    out += stream.answer({"choices": [{"message": message, "finish_reason": "stop"}]}, USAGE)
    assert outline(out) == ("One. Mine.", [], ["stop"], 0, 1, 1)


def test_an_error_in_a_completion_is_told_at_once():
    stream = chat.JoinedStream(None)
    error = b'data: {"error":{"message":"Full."}}\n\n'
    assert stream.feed(called(0, "a", "ours") + error) == error
    assert stream.failed
