"""The chat completions codec: against what each server really sends, and against itself."""

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
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
)
from agent.events import TextMessageContent, ToolCallEnd, ToolCallStart, TurnEnd
from agent.messages import (
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
    Usage,
    user_message,
)
from agent.wire import openai_chat
from agent.wire.jsontext import dump
from agent.wire.sse import ServerSentEvent, SSEParser
from tests.agent.wire_values import (
    RECORDINGS,
    WEATHER,
    ask,
    counting_ids,
    read,
    recording,
    turn_of,
)

OURS = sorted(path.stem for path in RECORDINGS.glob("*.sse") if not path.stem.startswith("anthropic"))
BROKEN = {"openrouter_error"}


def call(id: str, city: str) -> ToolCallPart:
    return ToolCallPart(id, "get_weather", dump({"city": city}))


# recording -> parts, finish reason, usage
EXPECTED: dict[str, tuple[tuple[Any, ...], str, Usage]] = {
    "openai_text": ((TextPart("It is 17 °C in Zürich 🌤️."),), "stop", Usage(20, 9)),
    "openai_parallel_tools": (
        (
            ToolCallPart("call_Ab1", "get_weather", '{"city": "Zürich"}'),
            ToolCallPart("call_Cd2", "get_weather", '{"city": "Paris"}'),
        ),
        "tool_calls",
        Usage(82, 34, cached_input_tokens=64),
    ),
    "openai_refusal": ((TextPart("I can't help with that."),), "stop", Usage()),
    "openai_legacy_function": ((call("made_1", "Rome"),), "tool_calls", Usage()),
    "azure_text": ((TextPart("Filtered"),), "content_filter", Usage()),
    "ollama_tools": ((call("call_v3k", "Oslo"), call("call_q8z", "Bergen")), "tool_calls", Usage(170, 36)),
    "ollama_thinking": ((ThinkingPart("Easy one."), TextPart("Four.")), "stop", Usage()),
    "llamacpp_tools": ((call("made_1", "Oslo"),), "tool_calls", Usage(163, 17)),
    "llamacpp_reasoning": ((ThinkingPart("Two and two."), TextPart("4")), "stop", Usage(9, 5)),
    "vllm_tools": (
        (
            ThinkingPart("The user wants weather."),
            ToolCallPart("chatcmpl-tool-1", "get_weather", '{"city": "Oslo"}'),
        ),
        "tool_calls",
        Usage(50, 12),
    ),
    "lmstudio_tools": ((TextPart("I will look."), call("365174485", "Oslo")), "tool_calls", Usage()),
    "openrouter_reasoning": (
        (ThinkingPart("Hm, easy."), TextPart("Yes.")),
        "stop",
        Usage(12, 30, reasoning_tokens=11, cached_input_tokens=3),
    ),
    "deepseek_reasoning": (
        (ThinkingPart("9.11 is less."), TextPart("9.8 is greater.")),
        "stop",
        Usage(16, 40, reasoning_tokens=30, cached_input_tokens=8),
    ),
    "mistral_tools": (
        (
            ThinkingPart("Both cities."),
            TextPart("Looking."),
            ToolCallPart("D681PevKs", "get_weather", '{"city": "Oslo"}'),
            ToolCallPart("aB3dEf6Gh", "get_weather", '{"city": "Rome"}'),
        ),
        "tool_calls",
        Usage(90, 30),
    ),
    "gemini_tools": ((call("made_1", "Oslo"), call("made_2", "Rome")), "tool_calls", Usage(40, 20)),
}


def test_every_recording_has_its_expectation():
    assert set(OURS) == set(EXPECTED) | BROKEN


@pytest.mark.parametrize("name", EXPECTED)
def test_each_server_is_understood(name: str):
    parts, reason, usage = EXPECTED[name]
    events, error = read(openai_chat, recording(name))
    message, end = turn_of(events)
    assert error is None
    assert message.parts == parts
    assert (end.finish_reason, end.usage) == (reason, usage)
    assert end.model


@pytest.mark.parametrize("name", OURS)
def test_a_recording_cut_at_every_size_gives_the_same_events(name: str):
    data = recording(name)
    whole = read(openai_chat, data)
    for size in [*range(1, 80), 1000]:
        events, error = read(openai_chat, data, size)
        assert events == whole[0], size
        assert type(error) is type(whole[1])


@pytest.mark.parametrize("name", OURS)
def test_a_recording_that_ends_anywhere_is_closed_once(name: str):
    data = recording(name)
    for length in range(0, len(data), 7):
        events, _ = read(openai_chat, data[:length])
        turn_of(events)
        opened = [event.tool_call_id for event in events if isinstance(event, ToolCallStart)]
        assert opened == [event.tool_call_id for event in events if isinstance(event, ToolCallEnd)]


def stream(*chunks: Any) -> bytes:
    return b"".join(b"data: " + (c if isinstance(c, bytes) else dump(c).encode()) + b"\n\n" for c in chunks)


def delta(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def tool_delta(reason: str | None = None, **entry: Any) -> dict[str, Any]:
    return delta(reason, tool_calls=[entry])


def end_of(*chunks: Any) -> TurnEnd:
    return turn_of(read(openai_chat, stream(*chunks))[0])[1]


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("eos_token", "stop"),
        ("error", None),
        ("insufficient_system_resource", None),
    ],
)
def test_finish_reasons_are_one_of_four_or_none(word: str, reason: str | None):
    end = end_of(delta(content="x"), delta(word), b"[DONE]")
    assert (end.finish_reason, end.provider_reason) == (reason, word)


def test_the_end_mark_without_a_reason_counts_as_stop():
    assert end_of(delta(content="x"), b"[DONE]").finish_reason == "stop"


def test_the_end_mark_without_a_reason_behind_whole_calls_counts_as_tool_calls():
    whole = tool_delta(index=0, id="c", function={"name": "f", "arguments": "{}"})
    assert end_of(whole, b"[DONE]").finish_reason == "tool_calls"


def test_stop_beside_a_call_that_is_not_whole_stays_stop():
    cut = tool_delta(index=0, id="c", function={"name": "f", "arguments": '{"a": '})
    assert end_of(cut, delta("stop"), b"[DONE]").finish_reason == "stop"


def test_length_beside_whole_calls_stays_length():
    whole = tool_delta(index=0, id="c", function={"name": "f", "arguments": "{}"})
    assert end_of(whole, delta("length"), b"[DONE]").finish_reason == "length"


def test_a_stream_that_merely_ends_is_broken():
    assert end_of(delta(content="x")).finish_reason is None


def test_a_stream_that_said_its_reason_needs_no_end_mark():
    assert end_of(delta(content="x"), delta("stop")).finish_reason == "stop"


def test_calls_without_arguments_keep_an_empty_text():
    events, _ = read(
        openai_chat, stream(tool_delta(index=0, id="c", function={"name": "now"}), delta("stop"))
    )
    message, end = turn_of(events)
    assert message.parts == (ToolCallPart("c", "now", ""),)
    assert end.finish_reason == "tool_calls"


def test_arguments_that_come_before_the_name_are_kept():
    events, _ = read(
        openai_chat,
        stream(
            tool_delta(index=0, id="c", function={"arguments": '{"a"'}),
            tool_delta(index=0, function={"name": "f", "arguments": ": 1}"}),
            delta("tool_calls"),
        ),
    )
    assert turn_of(events)[0].parts == (ToolCallPart("c", "f", '{"a": 1}'),)


def test_two_calls_of_one_id_get_two_ids():
    entry = {"id": "same", "function": {"name": "f", "arguments": '{"a":1}'}}
    other = {"id": "", "function": {"name": "f", "arguments": '{"a":2}'}}
    events, _ = read(openai_chat, stream(delta(tool_calls=[entry, other]), delta("tool_calls")))
    assert [part.id for part in turn_of(events)[0].tool_calls] == ["same", "made_1"]


def test_a_call_without_a_name_is_told_so_that_it_gets_its_result():
    events, _ = read(
        openai_chat, stream(tool_delta(index=0, id="c", function={"arguments": "{}"}), delta("stop"))
    )
    message, end = turn_of(events)
    assert message.parts == (ToolCallPart("c", "", "{}"),)
    assert end.finish_reason == "stop"


def test_other_choices_and_empty_deltas_say_nothing():
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}
    events, _ = read(openai_chat, stream(other, {"choices": None}, delta(content=None), delta(content="")))
    assert len(events) == 1


def test_half_a_surrogate_pair_does_no_harm():
    raw = rb'{"choices":[{"delta":{"content":"a\ud83d"}}]}'
    events, _ = read(openai_chat, stream(raw, delta("stop")))
    assert turn_of(events)[0].text == "a\ufffd"


@pytest.mark.parametrize("garbage", [b"{]", b"[1]", b"17", b"[" * 100_000, b'{"a":' * 5000])
def test_nonsense_in_the_stream_is_an_error_and_closes_what_is_open(garbage: bytes):
    events, error = read(openai_chat, stream(delta(content="x"), garbage, delta("stop"), b"[DONE]"))
    assert isinstance(error, BadStream)
    message, end = turn_of(events)
    assert (message.text, end.finish_reason) == ("x", None)


def test_an_error_behind_a_reason_is_no_good_end():
    events, error = read(openai_chat, stream(delta("stop"), {"error": "boom"}))
    assert error is not None
    assert error.detail == "boom"
    assert turn_of(events)[1].finish_reason is None


def test_an_error_in_the_stream_is_raised_without_its_key():
    events, error = read(openai_chat, recording("openrouter_error"))
    assert isinstance(error, ProviderUnavailable)
    assert error.detail == "Provider returned error: [hidden]"
    assert turn_of(events)[0].text == "Half an"


def test_an_answer_in_one_piece_gives_the_same_turn():
    events, _ = read(openai_chat, recording("openai_parallel_tools"))
    message, end = turn_of(events)
    body = openai_chat.encode_response(message, end, id="x", model=end.model or "", created=0)
    assert turn_of(openai_chat.decode_response(body, "t1", counting_ids())) == (message, end)


def test_an_error_in_one_piece_is_raised():
    with pytest.raises(RateLimited):
        openai_chat.decode_response({"error": {"message": "slow", "code": 429}}, "t1", counting_ids())


# -- requests ------------------------------------------------------------------------------------------------


def sent(*messages: Message, **changes: Any) -> list[dict[str, Any]]:
    body = openai_chat.encode_request(ask(*messages, **changes))
    assert json.loads(dump(body)) == body
    return body["messages"]


def test_a_request_asks_for_a_stream_with_usage():
    body = openai_chat.encode_request(ask(system="Be kind.", tools=(WEATHER,)))
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
    ]
    assert body["tools"][0]["function"]["name"] == "get_weather"
    assert "tool_choice" not in body
    assert "stream" not in openai_chat.encode_request(ask(), stream=False)


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("none", "none"),
        ("required", "required"),
        ("get_weather", {"type": "function", "function": {"name": "get_weather"}}),
    ],
)
def test_the_tool_choice_goes_out(choice: str, wire: Any):
    assert openai_chat.encode_request(ask(tools=(WEATHER,), tool_choice=choice))["tool_choice"] == wire
    assert "tool_choice" not in openai_chat.encode_request(ask(tool_choice=choice))


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("gpt-4o", "max_tokens"),
        ("llama3.2", "max_tokens"),
        ("openai/gpt-5", "max_tokens"),  # OpenRouter takes the old name for all
        ("o3-mini", "max_completion_tokens"),
        ("gpt-5", "max_completion_tokens"),
        ("gpt-5.1-mini", "max_completion_tokens"),
    ],
)
@pytest.mark.parametrize("given_as", ["max_tokens", "max_completion_tokens"])
def test_the_limit_has_the_name_that_the_model_takes(model: str, field: str, given_as: str):
    body = openai_chat.encode_request(ask(model=model, parameters={given_as: 5}))
    assert {key: value for key, value in body.items() if key.startswith("max_")} == {field: 5}


def test_a_refusal_that_names_the_right_form_gets_it():
    body = openai_chat.encode_request(ask(parameters={"max_tokens": 5}))
    refusal = RequestRejected(
        "", detail="Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    )
    amended = openai_chat.amend_request(body, refusal)
    assert amended is not None
    assert (amended["max_completion_tokens"], "max_tokens" in amended) == (5, False)
    amended = openai_chat.amend_request(body, RequestRejected("", detail="unknown field stream_options"))
    assert amended is not None
    assert "stream_options" not in amended
    assert openai_chat.amend_request(body, RequestRejected("", detail="No.")) is None


def test_parameters_cannot_replace_what_the_turn_is():
    body = openai_chat.encode_request(
        ask(parameters={"model": "x", "messages": [], "stream": False, "seed": 1})
    )
    assert (body["model"], body["stream"], body["seed"]) == ("m", True, 1)
    assert body["messages"]


USER = user_message("u", "Hi")


def assistant(*parts: Any, id: str = "a") -> Message:
    return Message(id, "assistant", parts)


def result(id: str, content: Any = "ok", error: str | None = None) -> Message:
    return Message(f"r-{id}", "tool", (ToolResultPart(id, content, error=error),))


def test_a_call_and_its_result_go_out_together():
    messages = sent(USER, assistant(TextPart("Let me see."), call("c1", "Oslo")), result("c1", '{"t":1}'))
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"t":1}'},
    ]


def test_the_model_reads_the_arguments_that_really_ran():
    edited = ToolCallPart("c1", "mail", '{"to":"a"}', edited='{"to":"b"}')
    messages = sent(USER, assistant(edited), result("c1"))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == '{"to":"b"}'


def test_a_call_without_a_result_gets_one():
    messages = sent(USER, assistant(call("c1", "Oslo"), call("c2", "Rome")), result("c2"), USER)
    assert [(m["role"], m.get("tool_call_id")) for m in messages[1:]] == [
        ("assistant", None),
        ("tool", "c1"),
        ("tool", "c2"),
        ("user", None),
    ]
    assert "not carried out" in messages[2]["content"]


def test_orphans_and_second_results_are_left_out():
    messages = sent(result("x"), USER, assistant(call("c1", "Oslo")), result("c1"), result("c1"), result("y"))
    assert [m["role"] for m in messages] == ["user", "assistant", "tool"]


def test_a_result_that_stands_elsewhere_stands_with_its_call():
    messages = sent(USER, assistant(call("c1", "Oslo")), USER, result("c1", "late"))
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "user"]
    assert messages[2]["content"] == "late"


def test_one_id_in_two_turns_keeps_each_result_with_its_turn():
    messages = sent(
        USER, assistant(call("c", "A")), result("c", "1"), assistant(call("c", "B")), result("c", "2")
    )
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["1", "2"]


def test_an_assistant_that_said_nothing_is_left_out_and_thoughts_stay_here():
    assert [m["role"] for m in sent(USER, assistant(), assistant(ThinkingPart("hm")), USER)] == [
        "user",
        "user",
    ]
    assert "hm" not in dump(sent(USER, assistant(ThinkingPart("hm"), TextPart("yes"))))


def test_foreign_ids_and_names_are_spelled_so_that_the_server_takes_them():
    odd = ToolCallPart("functions.f:0/" + "x" * 60, "my tool.v2", "{}")
    other = ToolCallPart("functions_f_0/" + "x" * 60, "", "{}")
    messages = sent(USER, assistant(odd, other), result(odd.id), result(other.id))
    ids = [entry["id"] for entry in messages[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(len(id) <= 40 for id in ids)
    assert [m["tool_call_id"] for m in messages[2:]] == ids
    assert [entry["function"]["name"] for entry in messages[1]["tool_calls"]] == [
        "my_tool_v2",
        "unknown_tool",
    ]


@pytest.mark.parametrize(
    ("written", "wire"),
    [("", "{}"), ("{}", "{}"), ('{"a": 1}', '{"a": 1}'), ("[1]", "[1]"), ('{"a', '{"_unparsed":"{\\"a"}')],
)
def test_arguments_go_back_as_they_were_unless_they_were_cut(written: str, wire: str):
    messages = sent(USER, assistant(ToolCallPart("c", "f", written)))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == wire


def test_pictures_and_files_go_out_as_parts():
    parts = (
        TextPart("Look:"),
        ImagePart("image/png", data="AAAA"),
        ImagePart(url="https://example.org/a.png"),
        FilePart("audio", "audio/wav", data="BBBB"),
        FilePart("document", "application/pdf", data="CCCC", name="a.pdf"),
        FilePart("video", "video/mp4", url="https://example.org/v.mp4"),
    )
    (message,) = sent(Message("u", "user", parts))
    assert [part["type"] for part in message["content"]] == [
        "text",
        "image_url",
        "image_url",
        "input_audio",
        "file",
        "text",
    ]
    assert message["content"][1]["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert "video" in message["content"][5]["text"]


def test_a_picture_in_a_result_is_named():
    content = (TextPart("Here:"), ImagePart("image/png", data="AAAA"))
    messages = sent(USER, assistant(call("c", "Oslo")), result("c", content))
    assert messages[2]["content"] == "Here:\n[image not shown: image/png]"


def test_no_text_crashes_the_encoder():
    text = "a\0b\ud800c\udfff😀"
    body = openai_chat.encode_request(
        ask(
            Message("u", "user", (TextPart(text),)),
            assistant(ToolCallPart(text, text, text)),
            result(text, text),
            system=text,
        )
    )
    dump(body).encode()


def test_developer_messages_go_out_as_system_ones():
    assert sent(Message("d", "developer", (TextPart("Be brief."),)), USER)[0]["role"] == "system"


# -- the other way round -------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=30)
ids = st.from_regex(r"[a-zA-Z0-9_-]{1,40}", fullmatch=True)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda v: st.lists(v) | st.dictionaries(words, v),
    max_leaves=5,
)
objects = st.dictionaries(words, values, max_size=3)
images = st.builds(ImagePart, st.just("image/png"), st.just("QUJD")) | st.builds(
    ImagePart, url=st.just("https://example.org/x.png")
)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Message]:
    """What a well-kept transcript holds, in this protocol's own terms."""
    messages: list[Message] = []
    used: set[str] = set()

    def add(role: Any, *parts: Any) -> None:
        messages.append(Message(f"m{len(messages) + 1}", role, parts))

    for _ in range(draw(st.integers(1, 4))):
        picture = draw(st.lists(images, max_size=1))
        add("user", TextPart(draw(words)), *picture)
        if draw(st.booleans()):
            calls = [
                ToolCallPart(id, draw(names), dump(draw(objects)))
                for id in draw(st.lists(ids, max_size=3, unique=True))
                if id not in used
            ]
            used.update(part.id for part in calls)
            text = [TextPart(draw(words))] if draw(st.booleans()) or not calls else []
            add("assistant", *text, *calls)
            for part in calls:
                add("tool", ToolResultPart(part.id, draw(words)))
    return messages


@given(transcripts(), st.sampled_from(["auto", "none", "required", "get_weather"]), words)
def test_a_request_survives_both_ways(messages: list[Message], choice: str, system: str):
    request = ask(
        *messages,
        message_id="answer",
        tools=(WEATHER,),
        tool_choice=choice,
        system=system,
        parameters={"max_tokens": 5, "temperature": 0.5, "stop": ["x"]},
    )
    body = json.loads(dump(openai_chat.encode_request(request)))
    assert openai_chat.decode_request(body) == request


turns = st.tuples(
    st.lists(words, max_size=3),  # thoughts
    st.lists(words, max_size=3),  # text
    st.lists(st.tuples(ids, names, objects.map(dump)), max_size=3, unique_by=lambda entry: entry[0]),
    st.sampled_from(["stop", "length", "content_filter"]),
    st.builds(
        Usage, st.integers(1, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)
    ),
)


@given(turns, st.integers(1, 50))
def test_a_stream_survives_both_ways(turn: Any, size: int):
    thoughts, texts, calls, reason, usage = turn
    reason = "tool_calls" if calls and reason == "stop" else reason
    chunks = [delta(reasoning_content=text) for text in thoughts] + [delta(content=text) for text in texts]
    for index, (id, name, arguments) in enumerate(calls):
        chunks.append(tool_delta(index=index, id=id, function={"name": name, "arguments": ""}))
        chunks.append(tool_delta(index=index, function={"arguments": arguments}))
    details = {
        "cached_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_input_tokens,
    }
    numbers = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
    chunks += [delta(reason), {"choices": [], "usage": numbers}, b"[DONE]"]
    events, _ = read(openai_chat, stream(*chunks))
    encoder = openai_chat.StreamEncoder(id="x", model="m", created=1, include_usage=True)
    data = b"".join(encoder.feed(event) for event in events[:-1]) + encoder.finish(events[-1])
    again, error = read(openai_chat, data, size)
    assert error is None
    assert again == events


def test_a_turn_that_broke_off_is_never_sent_as_whole():
    encoder = openai_chat.StreamEncoder(id="x", model="m", created=1)
    data = encoder.feed(TextMessageContent("t1", "Half"))
    assert encoder.finish(TurnEnd(None)) == b""
    assert b"[DONE]" not in data
    _, error = read(openai_chat, data + encoder.error(BadStream("It broke off.")))
    assert error is not None
    assert error.detail == "It broke off."


def test_the_role_is_said_once_and_first():
    encoder = openai_chat.StreamEncoder(id="x", model="m", created=1)
    data = encoder.feed(TextMessageContent("t1", "a")) + encoder.feed(TextMessageContent("t1", "b"))
    deltas = [json.loads(event.data)["choices"][0]["delta"] for event in SSEParser().feed(data)]
    assert deltas == [{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"model": None}, "model"),
        ({"model": 5}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [5]}, "messages[0]"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "smell", "smell": {}}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].image_url.url",
        ),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]},
            "messages[0].tool_calls[0].function",
        ),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"n": 2}, "n"),
        ({"functions": [{"name": "f"}]}, "functions"),
    ],
)
def test_a_bad_request_is_refused_by_the_path_of_its_field(change: dict[str, Any], path: str):
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **change}
    with pytest.raises(InvalidRequest) as refused:
        openai_chat.decode_request(body)
    assert str(refused.value).startswith(f"{path}: ")


def test_native_tools_stay_with_their_protocol():
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [{"type": "web_search"}]}
    request = openai_chat.decode_request(body)
    assert openai_chat.encode_request(request)["tools"] == [{"type": "web_search"}]
    with pytest.raises(InvalidRequest, match=r"^tools: "):
        openai_chat.encode_request(ask(parameters={"anthropic_tools": [{"type": "web_search_20250305"}]}))


# -- errors and models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (401, {"error": {"message": "no", "code": "invalid_api_key"}}, AuthenticationFailed, "provider_auth"),
        (403, {"detail": "no"}, AuthenticationFailed, "provider_auth"),
        (404, {"error": {"message": "no such model"}}, ModelNotFound, "model_not_found"),
        (
            400,
            {"error": {"message": "x", "code": "context_length_exceeded"}},
            ContextTooLong,
            "context_too_long",
        ),
        (
            400,
            {"error": "the request exceeds the available context size"},
            ContextTooLong,
            "context_too_long",
        ),
        (413, {}, ContextTooLong, "context_too_long"),
        (400, {"object": "error", "message": "bad"}, RequestRejected, "provider_rejected"),
        (422, {"detail": [{"msg": "bad field"}]}, RequestRejected, "provider_rejected"),
        (402, {}, RequestRejected, "provider_quota"),
        (429, {"error": {"code": "insufficient_quota", "message": "x"}}, RequestRejected, "provider_quota"),
        (429, {}, RateLimited, "rate_limited"),
        (408, {}, ProviderTimeout, "provider_timeout"),
        (500, {}, ProviderUnavailable, "provider_error"),
        (503, [{"error": {"message": "in a list"}}], ProviderUnavailable, "provider_error"),
        (302, {}, ProviderError, "provider_error"),
    ],
)
def test_a_refusal_has_its_class_and_a_sentence(status: int, body: Any, kind: type, code: str):
    error = openai_chat.decode_error(status, {}, json.dumps(body).encode())
    assert type(error) is kind
    assert (error.code, error.status) == (code, status)
    assert str(error).endswith((".", "?"))
    assert f"({status})" in str(error)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float | None):
    error = openai_chat.decode_error(429, {"retry-after": header}, b"")
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijkl",
        "sk-ant-api03-xyz_123456",
        "Bearer abc.def",
        "AIzaSyA1234567890abc",
        "my-own-key",
    ],
)
def test_no_key_is_in_what_people_see(secret: str):
    body = json.dumps({"error": {"message": f"Incorrect key provided: {secret}."}}).encode()
    error = openai_chat.decode_error(401, {}, body, secrets=["my-own-key"])
    assert secret.removeprefix("Bearer ") not in f"{error} {error.detail} {error!r}"
    assert error.detail is not None
    assert "Incorrect key provided" in error.detail


def test_a_web_page_is_never_shown_and_long_words_are_cut():
    assert openai_chat.decode_error(502, {}, b" <html><h1>Bad</h1>").detail is None
    assert openai_chat.decode_error(500, {}, b'{"error": "<html>x"}').detail is None
    assert openai_chat.decode_error(500, {}, b"plain words").detail == "plain words"
    detail = openai_chat.decode_error(500, {}, b"x " * 10_000).detail
    assert detail is not None
    assert len(detail) == 500


@pytest.mark.parametrize(
    ("body", "models"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}, ["a", "b"]),
        ({"models": [{"name": "x", "model": "x:1"}]}, ["x:1"]),
        ([{"id": "a"}, "b", 5, {}], ["a", "b"]),
        ({}, []),
    ],
)
def test_models_are_listed(body: Any, models: list[str]):
    assert openai_chat.decode_models(body) == models


def test_a_list_of_models_that_is_none_is_an_error():
    with pytest.raises(BadStream):
        openai_chat.decode_models("nope")


def test_the_key_goes_into_one_header():
    assert openai_chat.headers("k") == {"authorization": "Bearer k"}
    assert openai_chat.headers(None) == {}


def test_what_comes_behind_the_end_is_not_heard():
    decoder = openai_chat.StreamDecoder("t1", counting_ids())
    decoder.feed(ServerSentEvent("[DONE]"))
    assert decoder.feed(ServerSentEvent(dump(delta(content="x")))) == []
    assert decoder.finish() == []


def test_an_empty_transcript_is_encoded_all_the_same():
    assert openai_chat.encode_request(ask(transcript=Transcript()))["messages"] == []
