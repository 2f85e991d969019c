"""The messages codec: against what Anthropic really sends, and against itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import (
    AuthenticationFailed,
    BadStream,
    ContextTooLong,
    InvalidRequest,
    ModelNotFound,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
)
from agent.events import (
    Custom,
    ReasoningEncryptedValue,
    TextMessageContent,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    TurnEnd,
)
from agent.messages import (
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    user_message,
)
from agent.wire import anthropic, openai_chat
from agent.wire.jsontext import dump
from tests.agent.wire_values import RECORDINGS, WEATHER, ask, counting_ids, read, recording, turn_of

OURS = sorted(path.stem for path in RECORDINGS.glob("anthropic_*.sse"))
BROKEN = {"anthropic_error"}

# recording -> parts, finish reason, usage
EXPECTED: dict[str, tuple[tuple[Any, ...], str, Usage]] = {
    "anthropic_text": ((TextPart("Grüezi! 👋"),), "stop", Usage(25, 15)),
    "anthropic_thinking_tools": (
        (
            ThinkingPart("The user asks for weather.", "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"),
            ThinkingPart("", redacted="EmwKAhgBEgy3va3pzix"),
            TextPart("I will look it up."),
            ToolCallPart("toolu_01A", "get_weather", '{"city": "San Francisco"}'),
            ToolCallPart("toolu_01B", "get_time", ""),
        ),
        "tool_calls",
        Usage(1125, 15, cached_input_tokens=1000, cache_write_input_tokens=100),
    ),
    "anthropic_whole_input": (
        (ToolCallPart("toolu_9", "get_weather", '{"city":"Oslo"}'),),
        "tool_calls",
        Usage(25, 15),
    ),
    "anthropic_web_search_pause": (
        (
            ToolCallPart("srvtoolu_1", "web_search", '{"query":"news"}', provider_executed=True),
            TextPart("So far"),
            ToolCallPart("srvtoolu_2", "web_search", '{"query":"more"}', provider_executed=True),
        ),
        "stop",
        Usage(25, 15),
    ),
    "anthropic_refusal": ((TextPart("I"),), "content_filter", Usage(25, 15)),
    "anthropic_max_tokens": (
        (ToolCallPart("toolu_cut", "write_file", '{"text": "once upon'),),
        "length",
        Usage(25, 15),
    ),
}


def test_every_recording_has_its_expectation():
    assert set(OURS) == set(EXPECTED) | BROKEN


@pytest.mark.parametrize("name", EXPECTED)
def test_each_recording_is_understood(name: str):
    parts, reason, usage = EXPECTED[name]
    events, error = read(anthropic, recording(name))
    message, end = turn_of(events)
    assert error is None
    assert message.parts == parts
    assert (end.finish_reason, end.usage) == (reason, usage)
    assert end.model == "claude-sonnet-4-5-20250929"


@pytest.mark.parametrize("name", OURS)
def test_a_recording_cut_at_every_size_gives_the_same_events(name: str):
    data = recording(name)
    whole = read(anthropic, data)
    for size in [*range(1, 80), 1000]:
        events, error = read(anthropic, data, size)
        assert events == whole[0], size
        assert type(error) is type(whole[1])


@pytest.mark.parametrize("name", OURS)
def test_a_recording_that_ends_anywhere_is_closed_once(name: str):
    data = recording(name)
    for length in range(0, len(data), 7):
        events, _ = read(anthropic, data[:length])
        turn_of(events)
        opened = [event.tool_call_id for event in events if isinstance(event, ToolCallStart)]
        assert opened == [event.tool_call_id for event in events if isinstance(event, ToolCallEnd)]


def frames(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {e['type']}\ndata: {dump(e)}\n\n".encode() for e in events)


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def change(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ends(reason: str | None) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}}


HEAD = {"type": "message_start", "message": {"model": "claude", "usage": {"input_tokens": 5}}}
STOP = {"type": "message_stop"}
CALL = start(0, type="tool_use", id="c", name="f", input={})


@pytest.mark.parametrize(
    ("word", "reason", "paused"),
    [
        ("end_turn", "stop", False),
        ("stop_sequence", "stop", False),
        ("pause_turn", "stop", True),
        ("max_tokens", "length", False),
        ("model_context_window_exceeded", "length", False),
        ("tool_use", "tool_calls", False),
        ("refusal", "content_filter", False),
        ("something_new", "stop", False),
    ],
)
def test_stop_reasons_become_finish_reasons(word: str, reason: str, paused: bool):
    _, end = turn_of(read(anthropic, frames(HEAD, ends(word), STOP))[0])
    assert (end.finish_reason, end.paused, end.provider_reason) == (reason, paused, word)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([HEAD, STOP], "stop"),
        ([HEAD, CALL, stop(0), STOP], "tool_calls"),
        ([HEAD, CALL, change(0, type="input_json_delta", partial_json='{"a'), stop(0), STOP], "stop"),
        ([HEAD, CALL, stop(0)], None),
        ([HEAD], None),
        ([], None),
        ([HEAD, ends("end_turn")], "stop"),
        ([HEAD, ends(None), STOP], "stop"),
    ],
)
def test_the_end_mark_counts_and_a_mere_end_does_not(events: list[dict[str, Any]], reason: str | None):
    assert turn_of(read(anthropic, frames(*events))[0])[1].finish_reason == reason


def test_an_error_event_is_raised_and_closes_what_is_open():
    events, error = read(anthropic, recording("anthropic_error"))
    message, end = turn_of(events)
    assert isinstance(error, ProviderUnavailable)
    assert error.detail == "Overloaded"
    assert (message.text, end.finish_reason) == ("Half", None)


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("authentication_error", AuthenticationFailed),
        ("not_found_error", ModelNotFound),
        ("rate_limit_error", RateLimited),
        ("invalid_request_error", RequestRejected),
        ("request_too_large", ContextTooLong),
        ("api_error", ProviderUnavailable),
    ],
)
def test_an_error_in_the_stream_has_its_class(type: str, kind: type):
    error = read(anthropic, frames({"type": "error", "error": {"type": type, "message": "x"}}))[1]
    assert error is not None
    assert error.__class__ is kind


def test_nonsense_is_an_error():
    assert isinstance(read(anthropic, b"event: x\ndata: {]\n\n")[1], BadStream)
    assert isinstance(read(anthropic, b"data: 5\n\n")[1], BadStream)


def test_what_belongs_to_no_block_is_dropped():
    odd = [
        change(7, type="text_delta", text="x"),
        stop(7),
        start(1, type="hologram"),
        stop(1),
        {"type": "news"},
    ]
    assert len(read(anthropic, frames(HEAD, *odd, ends("end_turn"), STOP))[0]) == 1


def test_input_in_both_forms_counts_once():
    whole = start(0, type="tool_use", id="c", name="f", input={"a": 1})
    pieces = change(0, type="input_json_delta", partial_json='{"a":1}')
    events, _ = read(anthropic, frames(HEAD, whole, pieces, stop(0), ends("tool_use"), STOP))
    assert turn_of(events)[0].parts == (ToolCallPart("c", "f", '{"a":1}'),)


def test_what_a_providers_own_tool_found_is_told_for_keeping():
    events, _ = read(anthropic, recording("anthropic_web_search_pause"))
    (found,) = [event for event in events if isinstance(event, Custom)]
    assert found.name == "provider_result"
    assert (found.value["messageId"], found.value["toolCallId"]) == ("t1", "srvtoolu_1")
    assert found.value["block"]["content"][0]["encrypted_content"] == "Eqgf"
    assert turn_of(events)[1].paused


def test_a_redacted_thought_is_marked():
    events, _ = read(anthropic, recording("anthropic_thinking_tools"))
    signed = [event for event in events if isinstance(event, ReasoningEncryptedValue)]
    assert [event.metadata for event in signed] == [None, {"redacted": True}]


@pytest.mark.parametrize(
    "name", sorted(set(EXPECTED) - {"anthropic_max_tokens", "anthropic_web_search_pause"})
)
def test_an_answer_in_one_piece_gives_the_same_turn(name: str):
    message, end = turn_of(read(anthropic, recording(name))[0])
    body = anthropic.encode_response(message, end, id="x", model=end.model or "", created=0)
    again, end_again = turn_of(anthropic.decode_response(body, "t1", counting_ids()))
    assert end_again.usage == end.usage
    assert [dump(part_facts(part)) for part in again.parts] == [
        dump(part_facts(part)) for part in message.parts
    ]


def part_facts(part: Any) -> Any:
    """A part with its arguments as an object: an answer in one piece cannot keep how they were spaced."""
    if isinstance(part, ToolCallPart):
        return [part.id, part.name, json.loads(part.arguments or "{}")]
    return repr(part)


def test_an_error_in_one_piece_is_raised():
    with pytest.raises(RateLimited):
        anthropic.decode_response(
            {"type": "error", "error": {"type": "rate_limit_error"}}, "t", counting_ids()
        )


# -- requests ------------------------------------------------------------------------------------------------

USER = user_message("u", "Hi")


def call(id: str, city: str = "Oslo") -> ToolCallPart:
    return ToolCallPart(id, "get_weather", dump({"city": city}))


def assistant(*parts: Any, id: str = "a", **metadata: Any) -> Message:
    return Message(id, "assistant", parts, metadata=metadata)


def result(id: str, content: Any = "ok", error: str | None = None) -> Message:
    return Message(f"r-{id}", "tool", (ToolResultPart(id, content, error=error),))


def encoded(*messages: Message, **changes: Any) -> dict[str, Any]:
    return json.loads(dump(anthropic.encode_request(ask(*messages, **changes))))


def sent(*messages: Message, **changes: Any) -> list[dict[str, Any]]:
    return encoded(*messages, **changes)["messages"]


def shape(messages: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    return [
        (m["role"], ["text"] if isinstance(m["content"], str) else [block["type"] for block in m["content"]])
        for m in messages
    ]


def test_the_request_has_what_the_protocol_demands():
    body = encoded(system="Be kind.", tools=(WEATHER,))
    assert body == {
        "model": "m",
        "max_tokens": 8192,
        "system": "Be kind.",
        "messages": [{"role": "user", "content": "Hello"}],
        "tools": [
            {
                "name": "get_weather",
                "description": "The weather of a city.",
                "input_schema": dict(WEATHER.parameters),
            }
        ],
        "stream": True,
    }
    assert "stream" not in anthropic.encode_request(ask(), stream=False)


def test_system_and_developer_messages_move_to_the_top():
    body = encoded(
        Message("s", "system", (TextPart("A"),)),
        USER,
        Message("d", "developer", (TextPart("B"),)),
        system="S",
    )
    assert body["system"] == "S\n\nA\n\nB"
    assert [m["role"] for m in body["messages"]] == ["user"]


def test_parameters_are_translated_or_dropped():
    body = encoded(
        parameters={
            "max_completion_tokens": 7,
            "temperature": 1.7,
            "stop": "END",
            "user": "u1",
            "seed": 3,
            "frequency_penalty": 1,
            "top_k": 4,
        }
    )
    assert {
        key: body[key] for key in ("max_tokens", "temperature", "stop_sequences", "metadata", "top_k")
    } == {
        "max_tokens": 7,
        "temperature": 1,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u1"},
        "top_k": 4,
    }
    assert not {"seed", "frequency_penalty", "stop", "user"} & set(body)


def test_a_budget_for_thinking_leaves_room_for_the_answer():
    assert (
        encoded(parameters={"thinking": {"type": "enabled", "budget_tokens": 10_000}})["max_tokens"] == 18_192
    )


@pytest.mark.parametrize("name", ["response_format", "openai_tools"])
def test_what_has_no_counterpart_is_refused_by_name(name: str):
    value = {"response_format": {"type": "json_object"}, "openai_tools": [{"type": "custom"}]}[name]
    with pytest.raises(InvalidRequest):
        anthropic.encode_request(ask(parameters={name: value}))


@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        ("auto", None, None),
        ("none", None, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ("get_weather", None, {"type": "tool", "name": "get_weather"}),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
    ],
)
def test_the_tool_choice_is_translated(choice: str, parallel: bool | None, wire: Any):
    body = encoded(tools=(WEATHER,), tool_choice=choice, parameters={"parallel_tool_calls": parallel})
    assert body.get("tool_choice") == wire
    assert "tool_choice" not in encoded(tool_choice=choice)


def test_results_stand_first_in_one_user_message():
    messages = sent(
        USER, assistant(call("c1"), call("c2")), result("c2"), result("c1"), user_message("x", "And?")
    )
    assert shape(messages) == [
        ("user", ["text"]),
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text"]),
    ]
    assert [block["tool_use_id"] for block in messages[2]["content"][:2]] == ["c1", "c2"]


def test_messages_of_one_role_are_joined_and_the_first_is_the_users():
    messages = sent(assistant(TextPart("A")), assistant(TextPart("B"), id="b"), USER, USER)
    assert shape(messages) == [
        ("user", ["text"]),
        ("assistant", ["text", "text"]),
        ("user", ["text", "text"]),
    ]


def test_a_call_without_a_result_gets_one_that_is_an_error():
    messages = sent(USER, assistant(call("c1")), USER)
    assert messages[2]["content"][0]["is_error"] is True
    assert "is_error" not in sent(USER, assistant(call("c")), result("c"))[2]["content"][0]
    assert sent(USER, assistant(call("c")), result("c", "no", "timeout"))[2]["content"][0]["is_error"] is True


def test_orphans_are_left_out():
    assert shape(sent(result("x"), USER, result("y"))) == [("user", ["text"])]


def test_thoughts_go_back_only_with_their_signature():
    parts = (ThinkingPart("a"), ThinkingPart("b", "sig"), ThinkingPart(redacted="zzz"), TextPart("yes"))
    blocks = sent(USER, assistant(*parts))[1]["content"]
    assert blocks == [
        {"type": "thinking", "thinking": "b", "signature": "sig"},
        {"type": "redacted_thinking", "data": "zzz"},
        {"type": "text", "text": "yes"},
    ]
    assert len(sent(USER, assistant(ThinkingPart("b", "sig")), USER)) == 1


def test_texts_that_the_server_refuses_are_left_out():
    assert shape(sent(USER, assistant(TextPart(" \n")), USER)) == [("user", ["text", "text"])]


@pytest.mark.parametrize(
    ("written", "wire"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"_value": [1]}),
        ('{"a', {"_unparsed": '{"a'}),
        ("null", {"_value": None}),
    ],
)
def test_arguments_go_back_as_an_object(written: str, wire: Any):
    assert sent(USER, assistant(ToolCallPart("c", "f", written)))[1]["content"][0]["input"] == wire


def test_the_model_reads_the_arguments_that_really_ran():
    edited = ToolCallPart("c", "mail", '{"to":"a"}', edited='{"to":"b"}')
    assert sent(USER, assistant(edited))[1]["content"][0]["input"] == {"to": "b"}


def test_foreign_ids_are_spelled_so_that_the_server_takes_them():
    messages = sent(USER, assistant(call("functions.get:0")), result("functions.get:0"))
    id = messages[1]["content"][0]["id"]
    assert id == messages[2]["content"][0]["tool_use_id"]
    assert id.replace("_", "").replace("-", "").isalnum()


def test_a_providers_own_call_goes_back_with_its_result_or_not_at_all():
    theirs = ToolCallPart("srv1", "web_search", '{"q":1}', provider_executed=True)
    block = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []}
    kept = sent(USER, assistant(theirs, TextPart("x"), providerResults={"srv1": block}), USER)
    assert kept[1]["content"][:2] == [
        {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"q": 1}},
        block,
    ]
    assert shape(sent(USER, assistant(theirs, TextPart("x")), USER))[1] == ("assistant", ["text"])


def test_a_paused_turn_goes_back_as_it_is():
    theirs = ToolCallPart("srv1", "web_search", '{"q":1}', provider_executed=True)
    messages = sent(USER, assistant(TextPart("So far"), theirs, paused=True))
    assert shape(messages)[1] == ("assistant", ["text", "server_tool_use"])


def test_pictures_and_documents_go_out_as_blocks():
    parts = (
        ImagePart("image/png", data="AAAA"),
        ImagePart(url="https://example.org/a.png"),
        ImagePart(url="data:image/gif;base64,R0lG"),
        FilePart("document", "application/pdf", data="CCCC", name="a.pdf"),
        FilePart("document", "text/markdown", data="SGk="),
        FilePart("document", url="https://example.org/a.pdf"),
        FilePart("audio", "audio/wav", data="BBBB"),
    )
    blocks = sent(Message("u", "user", parts))[0]["content"]
    assert [block.get("source", {}).get("type") for block in blocks] == [
        "base64",
        "url",
        "base64",
        "base64",
        "text",
        "url",
        None,
    ]
    assert blocks[2]["source"] == {"type": "base64", "media_type": "image/gif", "data": "R0lG"}
    assert blocks[3]["title"] == "a.pdf"
    assert blocks[4]["source"]["data"] == "Hi"
    assert blocks[6] == {"type": "text", "text": "[audio not shown: audio/wav]"}


def test_a_picture_in_a_result_is_shown():
    content = (TextPart("Here:"), ImagePart("image/png", data="AAAA"))
    block = sent(USER, assistant(call("c")), result("c", content))[2]["content"][0]
    assert [part["type"] for part in block["content"]] == ["text", "image"]


def test_no_text_crashes_the_encoder():
    text = "a\0b\ud800c\udfff😀"
    parts = (TextPart(text), ThinkingPart(text, text), ToolCallPart(text, text, text))
    body = anthropic.encode_request(
        ask(Message("u", "user", (TextPart(text),)), assistant(*parts), system=text)
    )
    dump(body).encode()


# -- the other way round -------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30).filter(str.strip)
ids = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner) | st.dictionaries(words, inner),
    max_leaves=5,
)
arguments = st.dictionaries(words, values, max_size=3).map(lambda value: dump(value) if value else "")
images = st.builds(ImagePart, st.just("image/png"), st.just("QUJD")) | st.builds(
    ImagePart, url=st.just("https://example.org/x.png")
)
thoughts = st.builds(ThinkingPart, words, words) | st.builds(ThinkingPart, redacted=words)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    """What a well-kept transcript holds, in this protocol's own terms."""
    messages: list[Message] = []

    def add(role: Any, *parts: Any) -> None:
        messages.append(Message(f"m{len(messages) + 1}", role, parts))

    add("user", TextPart(draw(words)), *draw(st.lists(images, max_size=2)))
    for number in range(draw(st.integers(0, 3))):
        calls = [
            ToolCallPart(f"{id[:50]}-{number}", draw(names), draw(arguments))
            for id in draw(st.lists(ids, max_size=3, unique_by=lambda id: id[:50]))
        ]
        add("assistant", *draw(st.lists(thoughts, max_size=2)), TextPart(draw(words)), *calls)
        for part in calls:
            content = draw(words | st.tuples(st.builds(TextPart, words), images))
            add("tool", ToolResultPart(part.id, content, draw(st.sampled_from([None, "tool_error"]))))
        add("user", TextPart(draw(words)))
    return messages


@given(transcripts(), st.sampled_from(["auto", "none", "required", "get_weather"]), words)
def test_a_request_survives_both_ways(messages: list[Message], choice: str, system: str):
    request = ask(
        *messages,
        message_id="answer",
        tools=(WEATHER,),
        tool_choice=choice,
        system=system,
        parameters={"max_tokens": 5, "temperature": 0.5, "stop": ["x"], "user": "me"},
    )
    body = json.loads(dump(anthropic.encode_request(request)))
    assert anthropic.decode_request(body) == request


def block_frames(index: int, block: Any) -> list[dict[str, Any]]:
    kind, *rest = block
    if kind == "text":
        deltas = [change(index, type="text_delta", text=text) for text in rest[0]]
        return [start(index, type="text", text=""), *deltas, stop(index)]
    if kind == "thinking":
        deltas = [change(index, type="thinking_delta", thinking=text) for text in rest[0]]
        signature = change(index, type="signature_delta", signature=rest[1])
        return [start(index, type="thinking", thinking="", signature=""), *deltas, signature, stop(index)]
    if kind == "redacted":
        return [start(index, type="redacted_thinking", data=rest[0]), stop(index)]
    deltas = [change(index, type="input_json_delta", partial_json=text) for text in rest[2]]
    return [start(index, type=kind, id=f"{index}{rest[0]}", name=rest[1], input={}), *deltas, stop(index)]


some_words = st.lists(words, min_size=1, max_size=3)
blocks = st.one_of(
    st.tuples(st.just("text"), some_words),
    st.tuples(st.just("thinking"), some_words, words),
    st.tuples(st.just("redacted"), words),
    st.tuples(st.sampled_from(["tool_use", "server_tool_use"]), ids, names, some_words),
)


@given(
    st.lists(blocks, max_size=6),
    st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal", "pause_turn"]),
    st.builds(
        Usage, st.integers(20, 30), st.integers(0, 9), st.just(0), st.integers(0, 9), st.integers(0, 9)
    ),
    st.integers(1, 50),
)
def test_a_stream_survives_both_ways(content: list[Any], reason: str, usage: Usage, size: int):
    last = ends(reason) | {"usage": anthropic.answer.encode_usage(usage)}
    body = [part for index, block in enumerate(content) for part in block_frames(index, block)]
    events, _ = read(anthropic, frames(HEAD, *body, last, STOP))
    encoder = anthropic.StreamEncoder(id="x", model="claude")
    data = b"".join(encoder.feed(event) for event in events[:-1]) + encoder.finish(events[-1])
    again, error = read(anthropic, data, size)
    assert error is None
    assert again == events


def test_calls_that_came_interleaved_are_told_one_after_the_other():
    events, _ = read(openai_chat, recording("openai_parallel_tools"))
    encoder = anthropic.StreamEncoder(id="x", model="claude")
    data = b"".join(encoder.feed(event) for event in events[:-1]) + encoder.finish(events[-1])
    again, error = read(anthropic, data)
    assert error is None
    assert turn_of(again)[0].parts == turn_of(events)[0].parts


def test_what_waits_is_told_though_nobody_closed_it():
    encoder = anthropic.StreamEncoder(id="x", model="claude")
    told = [ToolCallStart("a", "f", "t1"), ToolCallStart("b", "g", "t1"), ToolCallArgs("b", "{}")]
    data = b"".join(encoder.feed(event) for event in told) + encoder.finish(TurnEnd("tool_calls"))
    assert [part.id for part in turn_of(read(anthropic, data)[0])[0].tool_calls] == ["a", "b"]


def test_a_turn_that_broke_off_is_never_sent_as_whole():
    encoder = anthropic.StreamEncoder(id="x", model="claude")
    data = encoder.feed(TextMessageContent("t1", "Half"))
    assert encoder.finish(TurnEnd(None)) == b""
    assert b"message_stop" not in data
    events, error = read(anthropic, data + encoder.ping() + encoder.error(BadStream("It broke off.")))
    assert error is not None
    assert turn_of(events)[0].text == "Half"


def test_an_openai_request_goes_to_an_anthropic_endpoint():
    body = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "S"},
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
            },
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "r"},
        ],
        "max_completion_tokens": 9,
        "stop": ["x"],
    }
    body = anthropic.encode_request(openai_chat.decode_request(body))
    assert shape(body["messages"]) == [
        ("user", ["image"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result"]),
    ]
    assert (body["system"], body["max_tokens"], body["stop_sequences"]) == ("S", 9, ["x"])


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model": None}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].source"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]},
            "messages[0].content[0].source.type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            "messages[0].content[0].tool_use_id",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "c", "name": "f", "input": 5}],
                    }
                ]
            },
            "messages[0].content[0].input",
        ),
        ({"system": [{"type": "text"}]}, "system[0].text"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tool_choice": {"type": "maybe"}}, "tool_choice.type"),
        ({"stop_sequences": "x"}, "stop_sequences"),
    ],
)
def test_a_bad_request_is_refused_by_the_path_of_its_field(fields: dict[str, Any], path: str):
    body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], **fields}
    with pytest.raises(InvalidRequest) as refused:
        anthropic.decode_request(body)
    assert str(refused.value).startswith(f"{path}: ")


def test_native_tools_stay_with_their_protocol():
    native = {"type": "web_search_20250305", "name": "web_search"}
    request = anthropic.decode_request(
        {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tools": [native]}
    )
    assert anthropic.encode_request(request)["tools"] == [native]


def test_the_key_goes_into_its_own_header():
    assert anthropic.headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert "x-api-key" not in anthropic.headers(None)


def test_errors_and_models_are_read():
    body = json.dumps({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}).encode()
    error = anthropic.decode_error(404, {}, body)
    assert isinstance(error, ModelNotFound)
    assert error.detail == "model: x"
    too_long = (
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 5"}}'
    )
    assert isinstance(anthropic.decode_error(400, {}, too_long), ContextTooLong)
    assert anthropic.decode_models({"data": [{"type": "model", "id": "claude-x"}]}) == ["claude-x"]


def test_tools_that_were_called_are_declared_where_the_request_has_none():
    """Anthropic refuses calls in messages when `tools` is not there."""
    call = Message("a", "assistant", (ToolCallPart("c", "find", "{}"), ToolCallPart("d", "find", "{}")))
    results = [Message(id, "tool", (ToolResultPart(id, "x"),)) for id in ("c", "d")]
    body = anthropic.encode_request(ask(user_message("u", "hi"), call, *results))
    assert [tool["name"] for tool in body["tools"]] == ["find"]
    assert body["tool_choice"] == {"type": "none"}
