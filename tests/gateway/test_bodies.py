"""What callers may send, and what they are told."""

from __future__ import annotations

import gzip
import json
import math

import pytest

from chatsite.asgi import application
from chatsite.gateway import bodies
from chatsite.gateway.bodies import read_body, with_model
from chatsite.gateway.errors import Refused
from chatsite.gateway.routes import use_routes
from tests.gateway.served import CHAT, MESSAGES, MODEL, anthropic_at, asking, openai_at, serve

each_path = pytest.mark.parametrize("path", [CHAT, MESSAGES])

NO_BODIES = [b"", b"{", b"[]", b'"text"', b"null", b"7", b'{"model":"stand-in",}', b"\xff\xfe", b"{}"]
NO_BODIES += [b"[" * 100_000, b'{"a":' * 5000, b'{"model": "stand-in"} more', b"\xef\xbb\xbf{}"]


@each_path
@pytest.mark.parametrize("raw", NO_BODIES, ids=range(len(NO_BODIES)))
async def test_what_is_no_request_is_400(http, standin, path, raw):
    serve(openai_at(standin))
    answer = await http.post(path, content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    assert standin.exchanges == []


@each_path
@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-32"])
async def test_json_in_another_coding_than_utf8_is_400(http, standin, path, coding):
    """Of what we read there and what an endpoint reads there the key's permission would be for one only."""
    serve(openai_at(standin), anthropic_at(standin))
    answer = await http.post(path, content=json.dumps(asking()).encode(coding))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("The body is no JSON")
    assert standin.exchanges == []


@each_path
async def test_a_compressed_body_is_not_opened(http, standin, path):
    serve(openai_at(standin), anthropic_at(standin))
    packed = gzip.compress(json.dumps(asking()).encode())
    answer = await http.post(path, content=packed, headers={"content-encoding": "gzip"})
    assert answer.status_code == 400
    assert standin.exchanges == []


@each_path
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("stream", value) for value in ("true", 1, [], {})),
        *(("model", value) for value in (7, "", ["a"], "x" * 300, "a\nb", None, {})),
    ],
)
async def test_the_two_fields_that_are_read_must_be_right(http, standin, path, field, value):
    serve(openai_at(standin))
    answer = await http.post(path, json={**asking(), field: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"{field}: ")


@each_path
async def test_an_unknown_model_is_404(http, standin, path):
    serve(openai_at(standin))
    answer = await http.post(path, json=asking(model="nope"))
    assert answer.status_code == 404
    if path == CHAT:
        assert answer.json()["error"]["code"] == "model_not_found"
    else:
        assert answer.json()["error"]["type"] == "not_found_error"


@each_path
async def test_a_large_body_is_taken_and_a_larger_one_is_413(http, standin, path, settings):
    serve(openai_at(standin) if path == CHAT else anthropic_at(standin))
    body = asking("x" * 5_000_000)
    assert (await http.post(path, json=body)).status_code == 200
    assert standin.exchanges[-1].json == body
    settings.GATEWAY_MAX_BODY = 1000
    answer = await http.post(path, json=asking("x" * 2000))
    assert answer.status_code == 413
    assert "1000" in answer.json()["error"]["message"]

    async def without_length():
        for _ in range(50):
            yield b"x" * 100

    assert (await http.post(path, content=without_length())).status_code == 413


@each_path
async def test_a_body_that_says_that_it_is_too_large_is_refused_unread(key, standin, path, settings):
    settings.GATEWAY_MAX_BODY = 1000
    serve(openai_at(standin))
    said = []

    async def unread():
        raise AssertionError("it was read")

    async def send(message):
        said.append(message)

    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode()), (b"content-length", b"1001")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await application({**scope, "client": ("127.0.0.1", 1), "scheme": "http"}, unread, send)
    assert said[0]["status"] == 413
    assert standin.exchanges == []


ODD_MESSAGES = [
    7,
    "text",
    {},
    [7],
    ["a"],
    [None],
    [{}],
    [{"role": 7, "content": "a"}],
    [{"role": "wizard", "content": "a"}],
    [{"role": "user", "content": 7}],
    [{"role": "user", "content": [7]}],
    [{"role": "user", "content": [{"type": 7}]}],
    [{"role": "user", "content": [{"type": "text", "text": 7}]}],
    [{"role": "user", "content": [{"type": "wizard"}]}],
    [],
]


@each_path
@pytest.mark.parametrize("messages", ODD_MESSAGES, ids=range(len(ODD_MESSAGES)))
@pytest.mark.parametrize("stream", [False, True])
async def test_a_body_that_cannot_be_translated_is_400_and_says_where(http, standin, path, messages, stream):
    serve(anthropic_at(standin) if path == CHAT else openai_at(standin))
    answer = await http.post(path, json={**asking(stream=stream), "messages": messages})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("messages")
    assert standin.exchanges == []


def _calling(**call):
    return {
        "role": "assistant",
        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}, **call}],
    }


def _said(role="user", **block):
    return {"role": role, "content": [block]}


DEEPER = {
    CHAT: {
        "tool_calls": {"role": "assistant", "tool_calls": 5},
        "tool_calls[0]": {"role": "assistant", "tool_calls": [5]},
        "tool_calls[0].id": _calling(id=5),
        "tool_calls[0].function": _calling(function=5),
        "tool_calls[0].function.name": _calling(function={"name": 5, "arguments": "{}"}),
        "tool_calls[0].function.arguments": _calling(function={"name": "f", "arguments": {}}),
        "tool_call_id": {"role": "tool", "content": "a"},
        "content[0].image_url": _said(type="image_url", image_url=5),
        "content[0].image_url.url": _said(type="image_url", image_url={"url": 5}),
        "content[0].input_audio": _said(type="input_audio", input_audio=5),
        "content[0].file": _said(type="file", file=5),
    },
    MESSAGES: {
        "content[0].id": _said("assistant", type="tool_use", id=5, name="f", input={}),
        "content[0].name": _said("assistant", type="tool_use", id="a", name=5, input={}),
        "content[0].input": _said("assistant", type="tool_use", id="a", name="f", input="x"),
        "content[0].thinking": _said("assistant", type="thinking", thinking=5),
        "content[0].data": _said("assistant", type="redacted_thinking", data=5),
        "content[0].tool_use_id": _said(type="tool_result", tool_use_id=5),
        "content[0].content": _said(type="tool_result", tool_use_id="a", content=5),
        "content[0].content[0]": _said(type="tool_result", tool_use_id="a", content=[5]),
        "content[0].is_error": _said(type="tool_result", tool_use_id="a", is_error="yes"),
        "content[0].source": _said(type="image", source=5),
        "content[0].source.type": _said(type="image", source={"type": "wizard"}),
        "content[0].source.url": _said(type="image", source={"type": "url", "url": 5}),
    },
}


@each_path
async def test_a_wrong_type_deep_inside_is_400_with_the_path_to_it(http, standin, path):
    serve(anthropic_at(standin) if path == CHAT else openai_at(standin))
    for where, message in DEEPER[path].items():
        body = asking() | {"messages": [{"role": "user", "content": "Hi"}, message]}
        answer = await http.post(path, json=body)
        assert answer.status_code == 400, where
        assert answer.json()["error"]["message"].startswith(f"messages[1].{where}: "), where
    assert standin.exchanges == []


@each_path
async def test_odd_histories_are_put_in_order_by_a_translation(http, standin, path):
    """Results without calls, one id twice, nothing said: servers refuse a whole conversation for less."""
    serve(anthropic_at(standin) if path == CHAT else openai_at(standin))
    if path == CHAT:
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages = [
            {"role": "user", "content": ""},
            {"role": "tool", "tool_call_id": "nobody", "content": "lost"},
            {"role": "assistant", "content": None, "tool_calls": [call, call]},
            {"role": "tool", "tool_call_id": "c", "content": ""},
            {"role": "user", "content": "Well?"},
        ]
    else:
        call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
        messages = [
            {"role": "user", "content": ""},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "nobody", "content": "lost"}],
            },
            {"role": "assistant", "content": [call, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": ""}]},
            {"role": "user", "content": "Well?"},
        ]
    answer = await http.post(path, json={**asking(), "messages": messages})
    assert answer.status_code == 200
    assert "lost" not in standin.exchanges[-1].body.decode()


@each_path
async def test_ten_thousand_messages_pass_and_are_translated(http, standin, path):
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"word {n}"} for n in range(9999)]
    for at in (openai_at, anthropic_at):
        serve(at(standin))
        assert (await http.post(path, json={**asking(), "messages": messages})).status_code == 200
        assert len(standin.exchanges[-1].json["messages"]) == 9999


async def test_a_field_without_counterpart_is_named(http, standin):
    serve(anthropic_at(standin))
    for field, value in (("n", 2), ("response_format", {"type": "json_object"}), ("functions", [{}])):
        answer = await http.post(CHAT, json=asking(**{field: value}))
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == field
    serve(openai_at(standin))
    answer = await http.post(MESSAGES, json=asking(tools=[{"type": "bash_20250124", "name": "bash"}]))
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("tools: ")


OF_BOTH = [("temperature", value) for value in ("warm", True, [], math.nan, math.inf)]
OF_BOTH += [("top_p", "most"), ("max_tokens", "many"), ("max_tokens", 1.5), ("tools", 7), ("tools", [7])]
OF_BOTH += [("tools", [{"name": 7, "type": 7}]), ("tool_choice", 7)]
OF_CHAT = [*OF_BOTH, ("stop", 7), ("stop", ["a", 7]), ("tools", [{"function": 7}]), ("tool_choice", "never")]
OF_MESSAGES = [*OF_BOTH, ("stop_sequences", 7), ("stop_sequences", ["a", 7]), ("system", 7), ("system", [7])]
OF_MESSAGES += [("top_k", "few"), ("metadata", 7), ("tool_choice", {"type": "never"}), ("max_tokens", None)]


@pytest.mark.parametrize(
    ("path", "fields"), [(CHAT, OF_CHAT), (MESSAGES, OF_MESSAGES)], ids=["openai", "anthropic"]
)
async def test_a_field_of_another_type_is_400_by_its_name_when_it_has_to_be_translated(
    http, standin, path, fields
):
    serve(anthropic_at(standin) if path == CHAT else openai_at(standin))
    for field, value in fields:
        answer = await http.post(path, content=json.dumps(asking(**{field: value})))
        assert answer.status_code == 400, (field, value)
        assert answer.json()["error"]["message"].startswith(field), (field, value)
    assert standin.exchanges == []


@each_path
async def test_what_no_json_reader_agrees_on_is_400_or_goes_on_as_it_came(http, standin, path):
    """NaN, numbers of thousands of digits, a NUL that is no escape, a name twice in another spelling."""
    serve(openai_at(standin) if path == CHAT else anthropic_at(standin))
    begin = f'{{"model": "{MODEL}", "max_tokens": 9, "messages": [{{"role": "user", "content": "'
    for rest in (f'Hi"}}], "seed": {"9" * 5000}}}', 'Hi\0"}]}', f'Hi"}}], "mod\\u0065l": "{MODEL}"}}'):
        answer = await http.post(path, content=begin + rest)
        assert answer.status_code == 400, rest
        assert "sys." not in answer.text
    assert standin.exchanges == []
    for rest in ('Hi"}], "temperature": NaN}', 'Hi \\u0000"}]}', 'Hi"}], "stream": true, "stream": false}'):
        answer = await http.post(path, content=begin + rest)
        assert answer.status_code == 200, rest
        assert standin.exchanges[-1].body.decode() == begin + rest


async def test_the_demo_model_speaks_both(http):
    use_routes(None)
    chat = await http.post(CHAT, json={"model": "demo", "messages": [{"role": "user", "content": "help"}]})
    assert chat.json()["choices"][0]["message"]["content"]
    said = await http.post(MESSAGES, json=asking("help", model="demo", stream=True))
    assert b"message_stop" in said.content


# -- the pure part -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"a"}',
        b'{ "x" : "model", "model"\n:\t"a" }',
        b'{"m":{"model":"a"},"model":"a","n":[{"model":"a"}]}',
        b'{"text":"\\"model\\":\\"a\\"","model":"a"}',
        b'{"\\u006dodel":"a"}',
        b'{"text":"}]\\\\","model":"a"}',
    ],
)
def test_only_the_models_own_place_changes(raw):
    body = read_body(raw)
    assert body.model == "a"
    made = body.named('b"\\1')
    expected = json.loads(raw) | {"model": 'b"\\1'}
    assert json.loads(made) == expected
    assert len(made) - len(raw) == len(json.dumps('b"\\1')) - len('"a"')


@pytest.mark.parametrize(
    "raw",
    [b'{"model":"a","model":"b"}', b'{"mod\\u0065l":"a","model":"b"}', b'{"model":"a","x":1,"model":"a"}'],
)
def test_a_model_that_is_named_twice_is_refused(raw):
    with pytest.raises(Refused, match="twice"):
        read_body(raw)


def test_a_body_with_very_many_pieces_is_written_anew_and_names_one_model(monkeypatch):
    monkeypatch.setattr(bodies, "MOST_TOKENS", 50)
    raw = json.dumps({"model": "a", "metadata": [{"model": "x"}] * 50}).encode()[:-1] + b', "model": "b"}'
    body = read_body(raw)
    assert body.model == "b"
    assert json.loads(body.raw) == {"model": "b", "metadata": [{"model": "x"}] * 50}
    assert json.loads(body.named("other")) == {"model": "other", "metadata": [{"model": "x"}] * 50}
    assert json.loads(with_model(raw, "public"))["model"] == "public"


async def test_a_big_body_is_read_as_a_small_one_is(monkeypatch):
    raw = json.dumps({"model": "a", "messages": [{"role": "user", "content": "x" * bodies.BIG}]}).encode()
    body = await bodies.read_soon(raw)
    assert (body.model, body.raw) == ("a", raw)
    with pytest.raises(Refused, match="no JSON"):
        await bodies.read_soon(raw[:-1])


def test_a_big_body_of_nothing_but_brackets_is_refused_unread():
    raw = b'{"model": "a", "x": [' + b"[]," * bodies.MOST_PIECES + b"1]}"
    with pytest.raises(Refused, match="more than 1,000,000 values") as refused:
        read_body(raw)
    assert refused.value.status == 413


def test_half_a_surrogate_pair_is_no_reason_to_refuse():
    body = read_body(b'{"model":"a","messages":[{"role":"user","content":"\\ud83d"}]}')
    assert body.raw.endswith(b'"\\ud83d"}]}')
    assert body.json["messages"][0]["content"] == "\ufffd"


def test_an_object_without_a_model_stays():
    assert with_model(b'{"a":1}', "b") == b'{"a":1}'
    assert MODEL
