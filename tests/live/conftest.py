"""The whole over real sockets: the server as a process, a model's endpoint on loopback, clients of HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.api import KEYS, Api
from tests.server import Server
from tests.standin import StandIn
from tests.words import A_KEY

BOTH = {"OPENAI_MODELS": "of-openai", "ANTHROPIC_MODELS": "of-anthropic", "DEFAULT_MODEL": "demo"}


def endpoints(standin: StandIn) -> dict[str, str]:
    return {"OPENAI_BASE_URL": standin.openai_url, "ANTHROPIC_BASE_URL": standin.anthropic_url, **KEYS}


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn().in_thread() as standin:
        yield standin


@pytest.fixture(scope="module", params=["daphne", "uvicorn"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, standin: StandIn):
    with Server(
        tmp_path_factory.mktemp(request.param), SERVER=request.param, **endpoints(standin), **BOTH
    ) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Api]:
    with Api(server, server.people(1)[0]) as api:
        yield api


@pytest.fixture(autouse=True)
def _nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test provokes: no key and no trace in what the server wrote."""
    yield
    if "server" not in request.fixturenames:
        return
    news = request.getfixturevalue("server").news()
    assert "Traceback" not in news, news
    assert " ERROR " not in news, news
    assert not A_KEY.search(news), news


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that take `model` are made for both protocols."""
    if "model" in metafunc.fixturenames:
        metafunc.parametrize("model", ["of-openai", "of-anthropic"])
