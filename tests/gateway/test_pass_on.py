"""Caller and endpoint speak the same dialect: bytes pass."""

from __future__ import annotations

import json

import pytest

from tests.gateway.served import CHAT, MESSAGES, SECRET, anthropic_at, asking, openai_at, serve
from tests.standin import Raw, Say, broken, render

DOORS = [(CHAT, "openai", openai_at), (MESSAGES, "anthropic", anthropic_at)]
each_dialect = pytest.mark.parametrize(("path", "dialect", "at"), DOORS, ids=["openai", "anthropic"])


def recorded(standin, dialect, say, *, stream=True):
    """The bytes of this answer, as the stand-in writes them."""

    class Asked:
        streams = stream

    asked = Asked()
    asked.dialect = dialect
    return b"".join(render(say, asked, 0.0).writes)


FULL = Say(
    "Grüße, 世界! A text of some length.",
    calls=[("call_1", "get_weather", {"city": "Zürich"}), ("call_2", "get_weather", {"city": "Oslo"})],
    thinking="Let me see.",
)


@each_dialect
async def test_the_answer_in_one_piece_passes_byte_for_byte(http, standin, path, dialect, at):
    serve(at(standin))
    standin.play(FULL)
    answer = await http.post(path, json=asking())
    assert answer.status_code == 200
    assert answer.content == recorded(standin, dialect, FULL, stream=False)
    assert answer.headers["x-threadloom-rounds"] == "1"
    assert answer.headers["content-type"] == "application/json"


@each_dialect
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 100_000])
async def test_a_stream_cut_anywhere_passes_byte_for_byte(http, standin, path, dialect, at, size):
    whole = recorded(standin, dialect, FULL)
    standin.play(Raw([whole[i : i + size] for i in range(0, len(whole), size)]))
    serve(at(standin))
    answer = await http.post(path, json=asking(stream=True))
    assert answer.content == whole
    assert answer.headers["content-type"].startswith("text/event-stream")


@each_dialect
async def test_the_body_goes_on_byte_for_byte(http, standin, path, dialect, at):
    serve(at(standin))
    body = b'{ "x_unknown":{"model":"no","deep":[1,2.50,1e3]},"max_tokens":5,\n"model" : "stand-in",' + (
        '"messages":[{"role":"user","content":"Grüße \\u00fc"}]}'.encode()
    )
    answer = await http.post(path, content=body)
    assert answer.status_code == 200
    assert standin.exchanges[-1].body == body


@each_dialect
async def test_only_the_model_is_another_where_the_endpoint_calls_it_so(http, standin, path, dialect, at):
    endpoint = at(standin)
    serve(endpoint, named={"fast": [(endpoint, "stand-in")]})
    body = (
        b'{"a":{"model":"fast"},"model":"fast","max_tokens":5,"messages":[{"role":"user","content":"fast"}]}'
    )
    for stream in (b"false", b"true"):
        sent = body[:-1] + b',"stream":' + stream + b"}"
        answer = await http.post(path, content=sent)
        assert answer.status_code == 200
        assert standin.exchanges[-1].body == sent.replace(b'"model":"fast","max', b'"model":"stand-in","max')
        assert b'"model":"fast"' in answer.content
        assert b'"model":"stand-in"' not in answer.content


async def test_the_callers_key_never_reaches_the_endpoint_and_its_own_never_the_caller(http, standin, key):
    serve(openai_at(standin))
    headers = {"cookie": "a=b", "x-forwarded-for": "10.0.0.1", "openai-beta": "x=1", "traceparent": "00-1"}
    answer = await http.post(CHAT, json=asking(), headers=headers)
    sent = standin.exchanges[-1].headers
    assert sent["authorization"] == f"Bearer {SECRET}"
    assert not {"cookie", "x-forwarded-for", "x-api-key"} & sent.keys()
    assert (sent["openai-beta"], sent["traceparent"]) == ("x=1", "00-1")
    assert sent["x-request-id"] == answer.headers["x-request-id"]
    assert SECRET not in str(answer.headers)


async def test_anthropics_headers_matter_to_its_endpoint(http, standin):
    serve(anthropic_at(standin))
    beta = {"anthropic-version": "2099-01-01", "anthropic-beta": "one,two"}
    await http.post(MESSAGES, json=asking(), headers=beta)
    sent = standin.exchanges[-1].headers
    assert sent["x-api-key"] == SECRET
    assert (sent["anthropic-version"], sent["anthropic-beta"]) == ("2099-01-01", "one,two")
    await http.post(MESSAGES, json=asking())
    assert standin.exchanges[-1].headers["anthropic-version"] == "2023-06-01"


async def test_the_endpoints_headers_that_matter_reach_the_caller(http, standin):
    serve(openai_at(standin))
    told = [("x-ratelimit-remaining-requests", "7"), ("x-request-id", "theirs"), ("set-cookie", "a=b")]
    standin.play(
        Raw(
            [recorded(standin, "openai", Say("Hi."), stream=False)],
            content_type="application/json",
            headers=told,
        )
    )
    answer = await http.post(CHAT, json=asking(), headers={"x-request-id": "mine-1"})
    assert answer.headers["x-ratelimit-remaining-requests"] == "7"
    assert answer.headers["x-upstream-request-id"] == "theirs"
    assert answer.headers["x-request-id"] == "mine-1"
    assert "set-cookie" not in answer.headers


async def test_fields_that_steer_hooks_never_come_from_a_caller(http, standin):
    serve(openai_at(standin))
    body = asking(_agentic_loop_depth=1, max_agentic_loops=99, seed=7)
    assert (await http.post(CHAT, json=body)).status_code == 200
    sent = standin.exchanges[-1].json
    assert sent == asking(seed=7)
    escaped = json.dumps(body).replace("_agentic", "\\u005fagentic")
    assert (await http.post(CHAT, content=escaped)).status_code == 200
    assert standin.exchanges[-1].json == asking(seed=7)


# -- what an endpoint may do instead ------------------------------------------------------------------------


@each_dialect
async def test_a_whole_answer_becomes_the_stream_that_was_asked_for(http, standin, path, dialect, at):
    serve(at(standin))
    standin.play(
        Raw([recorded(standin, dialect, Say("Hello."), stream=False)], content_type="application/json")
    )
    answer = await http.post(path, json=asking(stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert b"Hello." in answer.content
    assert answer.content.rstrip().endswith(b"[DONE]" if dialect == "openai" else b'{"type":"message_stop"}')


@each_dialect
async def test_a_stream_becomes_the_one_piece_that_was_asked_for(http, standin, path, dialect, at):
    serve(at(standin))
    standin.play(Raw([recorded(standin, dialect, Say("Hello."))]))
    answer = await http.post(path, json=asking())
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    text = body["choices"][0]["message"]["content"] if dialect == "openai" else body["content"][0]["text"]
    assert (text, body["model"]) == ("Hello.", "stand-in")


@each_dialect
@pytest.mark.parametrize("kind", ["cut", "cut_call", "no_reason", "half_character", "reset"])
async def test_a_stream_that_breaks_off_ends_in_an_error(http, standin, path, dialect, at, kind):
    serve(at(standin))
    standin.play(broken(kind, dialect))
    answer = await http.post(path, json=asking(stream=True))
    *_, last = answer.content.strip().split(b"\n\n")
    error = json.loads(last.partition(b"data: ")[2])
    assert error["error"]["message"]
    assert (error.get("type") == "error") is (dialect == "anthropic")
    assert b"[DONE]" not in answer.content
    assert b"message_stop" not in answer.content


@each_dialect
async def test_a_stream_that_goes_over_to_plain_json_ends_in_an_error(http, standin, path, dialect, at):
    """The JSON says how its answer ends, which is no end of the stream; and it names the endpoint's own model."""
    endpoint = at(standin)
    serve(endpoint, named={"fast": [(endpoint, "stand-in")]})
    begun = recorded(standin, dialect, Say("Hello."))
    begun = begun[: begun.index(b"\n\n", begun.index(b"Hello.")) + 2]
    standin.play(Raw([begun, recorded(standin, dialect, Say("Hello."), stream=False)]))
    answer = await http.post(path, json=asking(stream=True, model="fast"))
    *_, last = answer.content.strip().split(b"\n\n")
    assert json.loads(last.partition(b"data: ")[2])["error"]["message"]
    assert b"stand-in" not in answer.content


@each_dialect
async def test_an_error_in_mid_stream_is_told_once(http, standin, path, dialect, at):
    serve(at(standin))
    standin.play(broken("error", dialect))
    answer = await http.post(path, json=asking(stream=True))
    assert answer.content == b"".join(broken("error", dialect).writes)


@each_dialect
@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_under_a_200_is_an_error(http, standin, path, dialect, at, stream):
    serve(at(standin))
    standin.play(*[broken("json_error", dialect)] * 3)
    answer = await http.post(path, json=asking(stream=stream))
    assert answer.status_code == 500
    assert answer.json()["error"]["message"]


@each_dialect
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("400", 400),
        ("401", 401),
        ("403", 403),
        ("404", 404),
        ("429_long", 429),
        ("500", 500),
        ("503", 503),
        ("529", 529),
    ],
)
async def test_the_endpoints_status_is_kept(http, standin, path, dialect, at, kind, status):
    serve(at(standin))
    standin.play(*[broken(kind, dialect)] * 3)
    answer = await http.post(path, json=asking(stream=True))
    assert answer.status_code == status
    body = answer.json()
    assert body["error"]["message"]
    assert body["error"]["type"]
    if kind == "429_long":
        assert int(answer.headers["retry-after"]) in (3600, 3601)
    if status in (401, 403):
        assert "sk-test" not in answer.text


@each_dialect
@pytest.mark.parametrize("kind", ["redirect", "html", "html_502", "empty", "not_http", "refuse"])
async def test_nonsense_of_an_endpoint_is_a_bad_gateway(http, standin, path, dialect, at, kind):
    serve(at(standin))
    standin.play(*[broken(kind, dialect)] * 3)
    answer = await http.post(path, json=asking())
    assert answer.status_code == 502
    assert "<html" not in answer.text
    assert answer.json()["error"]["message"]
