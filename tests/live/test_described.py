"""The API keeps to its description, and no request that can be thought of breaks it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from chatsite.operator.description import PATHS
from tests.server import Person, Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

HELD = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [(path, method) for path, methods in PATHS.items() for method in methods]


def takes_something(path: str, method: str) -> bool:
    return bool({"requestBody", "parameters"} & PATHS[path][method].keys())


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[tuple[Server, Person]]:
    with Server(tmp_path_factory.mktemp("described"), SERVER="uvicorn") as server:
        yield server, server.people(1)[0]
        assert "Traceback" not in server.output, server.output[-3000:]


def make_sense(path: str, body: dict) -> None:
    """What no description can say: a model that is there, a thread that is new, and something that was asked."""
    if path.startswith("/v1/"):
        body["model"] = "demo"
        return
    body["messages"] = [{"id": uuid.uuid4().hex, "role": "user", "content": "Hello"}]
    body |= {"threadId": uuid.uuid4().hex, "runId": uuid.uuid4().hex}
    for unanswerable in ("resume", "forwardedProps"):
        body.pop(unanswerable, None)


def tried(served: tuple[Server, Person], path: str, method: str, mode: GenerationMode) -> set[int]:
    """Requests by the score, each answered as described; the statuses that came."""
    server, person = served
    operation = schemathesis.openapi.from_url(f"{server.url}/api/schema.json")[path][method]
    came = set()

    @settings(max_examples=15, suppress_health_check=list(HealthCheck), derandomize=True, deadline=None)
    @given(case=operation.as_strategy(generation_mode=mode))
    def holds(case):
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            make_sense(path, case.body)
        answer = case.call_and_validate(base_url=server.url, headers=person.bearer, checks=HELD, timeout=30)
        came.add(answer.status_code)

    holds()
    return came


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_a_request_as_described_is_answered_as_described(path, method, served):
    came = tried(served, path, method, GenerationMode.POSITIVE)
    assert 200 in came or (path, method) == (
        "/api/chat",
        "get",
    )  # that one asks for threads that are not there


@pytest.mark.parametrize(("path", "method"), [each for each in OPERATIONS if takes_something(*each)])
def test_a_request_that_breaks_the_description_is_answered_in_words_too(path, method, served):
    assert tried(served, path, method, GenerationMode.NEGATIVE) <= {
        200,
        400,
        401,
        404,
        405,
        409,
        413,
        415,
        422,
        429,
    }
