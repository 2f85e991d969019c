"""A long request is made shorter by rule, and stays a request that the model's server takes."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.compression import PAGE, Limits, compress, fetch
from agent.cutting import FETCH, HEAD, LONG, call_ids, result_ids, weight

MARK = {"cache_control": {"type": "ephemeral"}}
LIMITS = Limits(above=2_000, keep=4)


def body_of(messages, **more):
    return {"model": "m", "max_tokens": 100, "messages": messages, **more}


def read_all(cut, key):
    text, start = "", 0
    while start is not None:
        page = fetch(cut, key, start)
        text, start = text + page.text, page.next
    return text


def keys_in(value):
    return set(re.findall(r"ctx_[0-9a-f]{16}", json.dumps(value)))


# -- histories of both protocols -----------------------------------------------------------------------------

WORDS = st.sampled_from(["", "Short.", "A middling text. " * 20, "Long \U0001f600 text. " * 200])


@st.composite
def histories(draw, dialect):
    """Complete and well-formed: exchanges of a question, some turns with calls, and mostly an answer."""
    make = OPENAI if dialect == "openai" else ANTHROPIC
    messages = make["system"](draw) if draw(st.booleans()) else []
    number = 0
    for _ in range(draw(st.integers(1, 8))):
        messages.append(make["question"](draw))
        for _ in range(draw(st.integers(0, 4))):
            ids = [f"call_{number + offset}" for offset in range(draw(st.integers(1, 3)))]
            number += len(ids)
            messages += make["calls"](draw, ids)
        messages.append(make["answer"](draw))
    return messages if draw(st.booleans()) else messages[:-1]


def maybe_blocks(draw, text):
    """A text as a string or as blocks, with or without a mark, a picture beside it now and then."""
    kind = draw(st.sampled_from(["string", "string", "blocks", "blocks", "marked", "picture"]))
    if kind == "string":
        return text
    blocks = [{"type": "text", "text": text, **(MARK if kind == "marked" else {})}]
    if kind == "picture":
        source = {"type": "base64", "media_type": "image/png", "data": "A" * 9_000}
        blocks.append({"type": "image", "source": source})
    return blocks


def openai_calls(draw, ids):
    calls = [
        {"id": id, "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}} for id in ids
    ]
    results = [{"role": "tool", "tool_call_id": id, "content": maybe_blocks(draw, draw(WORDS))} for id in ids]
    return [{"role": "assistant", "content": draw(WORDS) or None, "tool_calls": calls}, *results]


def anthropic_calls(draw, ids):
    calls = [{"type": "tool_use", "id": id, "name": "look", "input": {"x": 1}} for id in ids]
    said = [{"type": "thinking", "thinking": "Hm. " * 300, "signature": "sig"}] if draw(st.booleans()) else []
    results = [
        {"type": "tool_result", "tool_use_id": id, "content": maybe_blocks(draw, draw(WORDS))} for id in ids
    ]
    return [{"role": "assistant", "content": said + calls}, {"role": "user", "content": results}]


OPENAI = {
    "system": lambda draw: [{"role": "system", "content": draw(WORDS)}],
    "question": lambda draw: {"role": "user", "content": maybe_blocks(draw, draw(WORDS))},
    "answer": lambda draw: {"role": "assistant", "content": draw(WORDS)},
    "calls": openai_calls,
}
ANTHROPIC = {
    "system": lambda draw: [],
    "question": lambda draw: {"role": "user", "content": maybe_blocks(draw, draw(WORDS))},
    "answer": lambda draw: {"role": "assistant", "content": maybe_blocks(draw, draw(WORDS))},
    "calls": anthropic_calls,
}
DIALECTS = st.sampled_from(["openai", "anthropic"])
REQUESTS = DIALECTS.flatmap(lambda dialect: st.tuples(st.just(dialect), histories(dialect)))
BOUNDS = st.builds(Limits, above=st.integers(1, 6_000), keep=st.integers(0, 6))


def turns(messages):
    """Who speaks in turn; the results of OpenAI's calls are one turn of the other side."""
    sides = ["model" if message["role"] == "assistant" else "other" for message in messages]
    roles = [message["role"] for message in messages]
    return [
        side
        for at, side in enumerate(sides)
        if not (at and roles[at] == roles[at - 1] == "tool") and roles[at] != "system"
    ]


def unpaired(messages):
    """Calls without the result right behind them, and results without their call."""
    wrong, open_calls = [], Counter()
    for message in messages:
        if message["role"] == "assistant":
            wrong += open_calls.elements()
            open_calls = Counter(call_ids(message))
        else:
            answered = Counter(result_ids(message))
            wrong += (answered - open_calls).elements()
            open_calls -= answered
    return wrong


def last_mark(messages):
    marked = [at for at, message in enumerate(messages) if "cache_control" in json.dumps(message)]
    return marked[-1] if marked else len(messages)


# -- laws ----------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(REQUESTS, BOUNDS)
def test_a_shortened_request_keeps_its_form_and_loses_nothing(request_, limits):
    dialect, messages = request_
    body = body_of(messages)
    before = copy.deepcopy(body)
    done = compress(body, dialect, limits)
    assert body == before, "what the caller sent is not touched"
    if done is None:
        return
    short = done.body["messages"]

    # No orphan, and who speaks when is as it was.
    assert unpaired(messages) == []
    assert unpaired(short) == []
    assert all(a != b for a, b in zip(turns(short), turns(short)[1:], strict=False))

    # What rule 1 keeps is there as it came.
    kept = max(limits.keep, len(messages) - last_mark(messages))
    assert short[len(short) - kept :] == messages[len(messages) - kept :]
    first_user = next(message for message in messages if message["role"] == "user")
    assert first_user in short
    assert [m for m in short if m["role"] == "system"] == [m for m in messages if m["role"] == "system"]

    # Everything that a note names can be read, and what is not there is there.
    named = keys_in(short)
    assert named
    assert named <= set(done.cut)
    found = "\n".join([*texts_of_all(short), *(read_all(done.cut, key) for key in named)])
    for text in texts_of_all(messages):
        assert text in found or json.dumps(text, ensure_ascii=False)[1:-1] in found

    # It is worth it, and its own end: nothing is cut twice.
    assert weight(done.body) < weight(body)
    assert compress(done.body, dialect, limits) is None


def texts_of_all(messages):
    return [text for message in messages for text in texts_of(message)]


def texts_of(message):
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if block["type"] == "text":
            yield block["text"]
        if block["type"] == "tool_result":
            yield from texts_of(block)


@settings(max_examples=60, deadline=None)
@given(REQUESTS, BOUNDS, st.data())
def test_the_same_history_is_cut_the_same_way_each_time(request_, limits, data):
    dialect, messages = request_
    first = compress(body_of(messages), dialect, limits)
    again = compress(body_of(copy.deepcopy(messages)), dialect, limits)
    assert (first and first.body) == (again and again.body)


# -- examples ------------------------------------------------------------------------------------------------


def long_talk(count, size=3_000):
    said = [{"role": "user", "content": "Question 0"}]
    for number in range(1, count):
        role = "assistant" if number % 2 else "user"
        said.append({"role": role, "content": f"{number}: " + "word " * (size // 5)})
    return said


def test_a_short_request_is_left_alone():
    assert compress(body_of(long_talk(3, 100)), "openai", LIMITS) is None


def test_old_texts_are_cut_to_their_heads_and_the_tool_that_reads_them_is_declared():
    body = body_of(long_talk(12), tools=[{"type": "function", "function": {"name": "mine"}}])
    done = compress(body, "openai", Limits(above=5_000, keep=4))
    assert done.body["messages"][0] == body["messages"][0]
    assert done.body["messages"][-4:] == body["messages"][-4:]
    cut = done.body["messages"][1]["content"]
    assert cut.startswith(body["messages"][1]["content"][:HEAD])
    assert len(cut) < LONG
    [key] = keys_in(cut)
    assert read_all(done.cut, key) == body["messages"][1]["content"]
    assert [tool["function"]["name"] for tool in done.body["tools"]] == ["mine", FETCH]
    assert done.after < done.before


def test_the_messages_protocol_gets_the_tool_in_its_own_form():
    done = compress(body_of(long_talk(12)), "anthropic", LIMITS)
    assert set(done.body["tools"][0]) == {"name", "description", "input_schema"}


def test_the_oldest_messages_go_when_heads_are_not_enough():
    messages = long_talk(400, 900)  # none is long by itself
    done = compress(body_of(messages), "openai", Limits(above=20_000, keep=4))
    assert weight(done.body) <= 20_000 * 4
    note = done.body["messages"][1]["content"]
    [key] = keys_in(note)
    gone = [json.loads(line) for line in read_all(done.cut, key).split("\n")]
    assert gone == messages[1 : 1 + len(gone)]
    assert f"[{len(gone)} earlier messages were cut" in note


def test_a_conversation_that_grows_keeps_the_beginning_it_had():
    limits, beginnings = Limits(above=20_000, keep=4), []
    for count in range(200, 240):
        done = compress(body_of(long_talk(count, 900)), "openai", limits)
        beginnings.append(json.dumps(done.body["messages"][:40]))
    assert len(set(beginnings)) <= 4, "a provider's prompt cache would be of no use"


@pytest.mark.parametrize("at", [3, 7])
def test_nothing_behind_the_last_cache_mark_is_touched(at):
    messages = long_talk(30)
    messages[1]["content"] = [{"type": "text", "text": messages[1]["content"], **MARK}]
    messages[at]["content"] = [{"type": "text", "text": messages[at]["content"], **MARK}]
    done = compress(body_of(messages), "anthropic", LIMITS)
    assert done.body["messages"][-len(messages) + at :] == messages[at:]
    assert keys_in(done.body["messages"][: -len(messages) + at])


def test_a_mark_on_what_is_cut_stays_on_it():
    messages = long_talk(30)
    for at in (3, 29):
        messages[at]["content"] = [{"type": "text", "text": messages[at]["content"], **MARK}]
    done = compress(body_of(messages), "anthropic", Limits(above=15_000, keep=4))
    [block] = done.body["messages"][3]["content"]
    assert block["cache_control"] == MARK["cache_control"]
    assert keys_in(block["text"])


@pytest.mark.parametrize(
    "more",
    [
        {"tool_choice": "none"},
        {"tool_choice": {"type": "none"}},
        {"tools": [{"type": "function", "function": {"name": FETCH}}]},
        {"tools": [{"name": FETCH}]},
        {"tools": "nonsense"},
        {"functions": []},
    ],
)
def test_a_request_that_could_not_read_what_was_cut_is_left_alone(more):
    assert compress(body_of(long_talk(30), **more), "openai", LIMITS) is None


@pytest.mark.parametrize(
    "messages",
    [
        "nonsense",
        [],
        [None, 1, "x" * 50_000],
        [{"role": "user"}, {"role": "assistant", "content": 5, "tool_calls": 7}] * 40,
        [{"role": "assistant", "content": "x" * 5_000, "function_call": {}}] * 40,
        [{"role": ["user"], "content": "x" * 5_000}, {"role": {}, "content": "x" * 5_000}] * 20,
        [{"role": "user", "content": [None, {"type": "tool_result", "content": [3]}, "x" * 3000]}] * 30,
    ],
)
def test_what_it_does_not_understand_it_leaves_alone(messages):
    done = compress(body_of(messages), "anthropic", LIMITS)
    assert done is None or unpaired(done.body["messages"]) == []


def test_an_orphaned_result_is_not_parted_further():
    """A result whose call is elsewhere: its group stays."""
    messages = long_talk(60, 900)
    messages[11]["tool_calls"] = [
        {"id": "far", "type": "function", "function": {"name": "x", "arguments": ""}}
    ]
    messages.insert(14, {"role": "tool", "tool_call_id": "far", "content": "late"})
    done = compress(body_of(messages), "openai", LIMITS)
    ids = [id for m in done.body["messages"] for id in (*call_ids(m), *result_ids(m))]
    assert ids == ["far", "far"]


def test_a_long_text_is_read_page_by_page():
    cut = {"ctx_1": "x" * (PAGE + 10)}
    assert fetch(cut, "ctx_1").next == PAGE
    assert fetch(cut, "ctx_1", PAGE).text == "x" * 10
    assert fetch(cut, "ctx_1", PAGE).next is None
    assert fetch(cut, "ctx_1", -5).text == "x" * PAGE
    assert fetch(cut, "ctx_1", 10**9).text == ""
    assert fetch(cut, "ctx_2") is None


def test_a_picture_counts_for_a_picture():
    assert weight({"type": "base64", "data": "A" * 1_000_000}) < 10_000
    assert weight({"url": "data:image/png;base64," + "A" * 1_000_000}) < 10_000
