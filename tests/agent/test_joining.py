"""Several rounds of a stream as one, and one round as it came: on everything that was ever recorded."""

import json

import pytest

from agent.messages import Usage
from agent.rerun import turn_of
from agent.wire import anthropic, openai_chat
from agent.wire.anthropic import joining as anthropic_joining
from agent.wire.openai_chat import joining as openai_joining
from agent.wire.sse import SSEParser
from tests.agent import wire_values
from tests.agent.wire_values import RECORDINGS, cuts, read, recording

MESSAGES = sorted(path.stem for path in RECORDINGS.glob("anthropic_*.sse"))
CHAT = sorted(path.stem for path in RECORDINGS.glob("*.sse") if not path.stem.startswith("anthropic_"))
BROKEN = {"anthropic_error", "openrouter_error"}
WHOLE = [name for name in MESSAGES + CHAT if name not in BROKEN]
SIZES = [1, 7, 64, 2**20]


def codec_of(name):
    return anthropic if name in MESSAGES else openai_chat


def joined(name):
    if name in MESSAGES:
        return anthropic_joining.JoinedStream(None)
    return openai_joining.JoinedStream(None, include_usage=True)


def turn(name):
    """The turn that a recording tells."""
    return told(name, recording(name))


def told(name, data):
    """What a client of that protocol reads."""
    events, error = read(codec_of(name), data)
    assert error is None
    return turn_of(*wire_values.turn_of(events), "m")


def values_of(data):
    return [json.loads(event.data) for event in SSEParser().feed(data) if event.data != "[DONE]"]


def play(stream, data, size=2**20):
    return b"".join(map(stream.feed, cuts(data, size)))


def called(made):
    return [(call.name, call.arguments) for call in made.calls]


CALLING = [name for name in WHOLE if turn(name).calls]
TEXTS = {True: "anthropic_text", False: "openai_text"}


def assert_one_message(name, out):
    values = values_of(out)
    if name in MESSAGES:
        kinds = [value["type"] for value in values]
        assert [kinds.count(kind) for kind in ("message_start", "message_delta", "message_stop")] == [1, 1, 1]
        assert kinds[-1] == "message_stop"
        starts = [value["index"] for value in values if value["type"] == "content_block_start"]
        assert starts == list(range(len(starts)))
        assert [v["index"] for v in values if v["type"] == "content_block_stop"] == starts
    else:
        assert (
            len({value.get("id") for value in values}) == len({value.get("model") for value in values}) == 1
        )
        choices = [choice for value in values for choice in value["choices"]]
        assert choices[0]["delta"].get("role") == "assistant"
        assert sum(choice.get("finish_reason") is not None for choice in choices) == 1
        assert sum(bool(value.get("usage")) and not value["choices"] for value in values) <= 1
        assert out.endswith(b"data: [DONE]\n\n")
        assert out.count(b"[DONE]") == 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", WHOLE)
def test_one_round_that_is_kept_goes_out_byte_for_byte(name, size):
    stream = joined(name)
    assert play(stream, recording(name), size) + stream.keep(Usage(1, 1)) == recording(name)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["openai_parallel_tools", "anthropic_thinking_tools"])
def test_no_byte_of_a_call_goes_out_before_the_hooks_have_looked_and_text_does(name, size):
    now = play(joined(name), recording(name), size)
    made = turn(name)
    assert not any(call.id.encode() in now for call in made.calls)
    events, _ = read(codec_of(name), now)
    assert turn_of(*wire_values.turn_of(events), "m").text == made.text


@pytest.mark.parametrize("size", [7, 2**20])
@pytest.mark.parametrize("name", WHOLE)
def test_without_its_calls_a_turn_is_the_same_and_ends_as_an_answer(name, size):
    made, stream = turn(name), joined(name)
    out = play(stream, recording(name), size) + stream.strip(range(len(made.calls)), made.usage)
    got = told(name, out)
    assert (got.text, got.thinking, got.calls, got.usage) == (made.text, made.thinking, (), made.usage)
    assert got.stop_reason == ("stop" if made.stop_reason == "tool_calls" else made.stop_reason)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", [name for name in CALLING if len(turn(name).calls) == 2])
def test_of_two_calls_the_other_stays(name, number):
    made, stream = turn(name), joined(name)
    out = play(stream, recording(name), 13) + stream.strip({number}, made.usage)
    got = told(name, out)
    assert (got.text, called(got), got.stop_reason) == (made.text, [called(made)[1 - number]], "tool_calls")
    assert_one_message(name, out)


@pytest.mark.parametrize("size", [7, 2**20])
@pytest.mark.parametrize("name", CALLING)
def test_a_call_that_is_answered_here_and_the_answer_behind_it_are_one_message(name, size):
    first, stream = turn(name), joined(name)
    behind = TEXTS[name in MESSAGES]
    second = turn(behind)
    out = play(stream, recording(name), size) + stream.rerun()
    out += play(stream, recording(behind), size) + stream.keep(first.usage + second.usage)
    got = told(name, out)
    assert (got.text, got.thinking) == (first.text + second.text, first.thinking + second.thinking)
    assert (got.calls, got.stop_reason) == ((), second.stop_reason)
    assert got.usage == first.usage + second.usage
    assert_one_message(name, out)


def test_text_beside_an_empty_list_of_calls_is_not_held():
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "hi", "tool_calls": []}}]}
    data = f"data: {json.dumps(chunk)}\n\n".encode()
    assert joined("openai_text").feed(data) == data
