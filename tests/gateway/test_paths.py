"""Every path below /v1/ answers in the caller's dialect."""

from __future__ import annotations

import httpx
import pytest

from chatsite.asgi import application

ANTHROPIC = {"anthropic-version": "2023-06-01"}


@pytest.fixture
async def http():
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
        yield client


async def test_health_needs_no_key(http):
    answer = await http.get("/v1/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/nothing", "/v1/chat/completions/more", "/v1/embeddings"]
)
async def test_an_unknown_path_is_an_error_of_openais(http, path):
    answer = await http.post(path, json={})
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/nothing"])
async def test_an_unknown_path_is_an_error_of_anthropics(http, path):
    answer = await http.post(path, json={}, headers=ANTHROPIC)
    assert answer.status_code == 404
    body = answer.json()
    assert body["type"] == "error"
    assert body["error"]["type"] == "not_found_error"
    assert body["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("path", "shape"), [("chat/completions", {"error"}), ("messages", {"type", "error"})]
)
async def test_two_slashes_of_a_base_url_are_an_error_that_a_program_can_read(http, path, shape):
    answer = await http.post(f"http://gateway.test//v1/{path}", json={})
    assert answer.status_code == 404
    assert answer.json().keys() - {"request_id"} == shape
    assert f"//v1/{path}" in answer.json()["error"]["message"]


async def test_a_wrong_method_says_which_is_right(http):
    answer = await http.delete("/v1/health")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("given", "taken"), [("abc-123", True), ("a b", False), ("", False), ("x" * 300, False)]
)
async def test_a_sane_request_id_is_kept(http, given, taken):
    answer = await http.get("/v1/health", headers={"x-request-id": given})
    assert (answer.headers["x-request-id"] == given) is taken
    assert answer.headers["x-request-id"]


async def test_the_header_that_says_anthropic_decides_where_both_have_the_path(http):
    for headers, shape in (({}, {"error"}), ({"x-api-key": "no"}, {"error"}), (ANTHROPIC, {"type", "error"})):
        body = (await http.get("/v1/models", headers=headers)).json()
        assert body.keys() - {"request_id"} == shape
