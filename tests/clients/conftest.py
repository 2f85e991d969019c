"""A server as a process, a model on loopback, and the real clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.clients import Client, installed, what_is_missing
from tests.live.api import KEYS, Api, new_id
from tests.server import Server
from tests.standin import StandIn

Open = Callable[..., Client]


@pytest.fixture(scope="session")
def packages(pytestconfig: pytest.Config) -> Path:
    if missing := what_is_missing():
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    assert pytestconfig.cache is not None
    return installed(pytestconfig.cache.mkdir("clients"))


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn().in_thread() as standin:
        yield standin


@pytest.fixture(scope="module")
def software() -> str:
    return "daphne"


@pytest.fixture(scope="module")
def server(
    software: str,
    tmp_path_factory: pytest.TempPathFactory,
    standin: StandIn,
    packages: Path,
) -> Iterator[Server]:
    models = {"OPENAI_BASE_URL": standin.openai_url, "OPENAI_MODELS": "of-openai", **KEYS}
    with Server(tmp_path_factory.mktemp(software), SERVER=software, **models) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[Api]:
    with Api(server, server.people(1)[0]) as api:
        yield api


@pytest.fixture(params=["agui", "tanstack"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def opened(packages: Path, server: Server, api: Api) -> Iterator[Open]:
    """Makes clients: `opened(kind, thread?, tools=[...])`."""
    clients: list[Client] = []

    def open(kind: str, thread: str = "", **options: object) -> Client:
        client = Client(kind, packages, server, api.person, thread or new_id(), **options)
        clients.append(client)
        return client

    yield open
    for client in clients:
        client.close()


@pytest.fixture(autouse=True)
def _nothing_wrong_in_the_log(server: Server) -> Iterator[None]:
    yield
    news = server.news()
    assert "Traceback" not in news, news
    assert " ERROR " not in news, news
