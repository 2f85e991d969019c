"""What of a body may be kept."""

from __future__ import annotations

import base64
import json
import time

import pytest

from chatsite.catalog import entries
from chatsite.gateway.kept import HIDDEN, MOST_KEPT, text_of

FILE = base64.b64encode(bytes(range(256)) * 100).decode()
SECRET = "sk-proj-0123456789abcdefghij"


@pytest.mark.parametrize("form", [lambda body: body, json.dumps, lambda body: json.dumps(body).encode()])
def test_files_become_their_beginning_and_a_count(form):
    body = {
        "messages": [
            {"content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{FILE}"}}]},
            {"content": [{"type": "image", "source": {"type": "base64", "data": FILE}}]},
        ]
    }
    kept = json.loads(text_of(form(body)))
    url = kept["messages"][0]["content"][0]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,AAEC")
    assert "characters not kept" in url
    assert len(url) < 200
    assert len(kept["messages"][1]["content"][0]["source"]["data"]) < 200


def test_long_prose_is_kept():
    body = {"messages": [{"role": "user", "content": "A word. " * 10_000}]}
    assert json.loads(text_of(json.dumps(body))) == body


@pytest.mark.parametrize("form", [lambda body: body, lambda body: json.dumps(body).encode()])
def test_secrets_are_never_kept(form, settings):
    settings.OPENAI_API_KEY = "our own key of an endpoint"
    settings.GATEWAY_MODELS = {"m": [{"base_url": "http://x", "api_key": "theirs-0001"}]}
    body = {
        "mcp_servers": [{"url": "http://x", "authorization_token": "hunter2"}],
        "headers": {"Authorization": "Basic aHVudGVyMg=="},
        "messages": [
            {"content": f"My key is {SECRET}, what now? our own key of an endpoint, theirs-0001"},
            {"content": "Bearer abcdefghij0123456789"},
        ],
        "max_tokens": 100,
    }
    kept = text_of(form(body))
    for secret in ("hunter2", "aHVudGVyMg", SECRET, "our own key", "theirs-0001", "abcdefghij0123"):
        assert secret not in kept
    assert json.loads(kept)["max_tokens"] == 100
    assert HIDDEN in kept


def test_words_that_only_look_like_keys_are_kept():
    body = {"content": "Use api_documentation_search and key_points; ask task-force-number-12."}
    assert json.loads(text_of(body)) == body


def test_what_administrators_endpoints_are_asked_with_is_kept_nowhere():
    sealed = entries.EndpointEntry(
        "it",
        "openai",
        "https://x/v1",
        api_key="plainkey",
        headers=(("x-token", "plaintoken"), ("x-team", "ours")),
    )
    entries.use_entries(entries.Entries((sealed,)))
    assert text_of("plainkey plaintoken ours") == f"{HIDDEN} {HIDDEN} ours"


def test_a_stream_is_kept_as_it_came_without_its_secrets():
    stream = f'event: ping\ndata: {{"type": "ping", "note": "{SECRET}"}}\n\ndata: [DONE]\n\n'
    assert text_of(stream.encode()) == stream.replace(SECRET, HIDDEN)


def test_what_is_too_long_is_cut_and_the_cut_is_said():
    text = text_of("two words " * 300_000)
    assert len(text) < MOST_KEPT + 100
    assert "2,000,000 characters not kept" in text


@pytest.mark.parametrize(
    "body",
    [None, b"", "", b"\xff\xfe", "[" * 5000, b'{"a": "\\ud800"}', {"a": "\0"}, '{"a": NaN}', {"a": object()}],
)
def test_any_body_is_text_that_a_database_holds(body):
    text = text_of(body)
    text.encode()
    assert "\0" not in text


def test_a_value_without_an_end_is_said():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert "too deeply" in text_of(deep)


def test_a_large_picture_costs_little():
    body = json.dumps({"url": "data:image/png;base64," + "A" * 20_000_000}).encode()
    began = time.thread_time()
    assert len(text_of(body)) < 200
    assert time.thread_time() - began < 2
