"""A real database file, real endpoints on loopback, and the ASGI application that the server serves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

import httpx
import pytest
import uvicorn
from django.contrib.auth.models import User
from django.db import connection

from agent.providers.http import close_shared_clients
from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.asgi import application
from chatsite.gateway import auth, rounds
from chatsite.gateway.recorder import recorder
from chatsite.gateway.routes import use_routes
from tests.gateway.served import until
from tests.standin import StandIn

T = TypeVar("T")


async def off_loop(job: Callable[[], T]) -> T:
    """`job()` in a thread, over a connection that is closed behind it (a test database cannot be dropped before)."""

    def work() -> T:
        try:
            return job()
        finally:
            connection.close()

    return await asyncio.to_thread(work)


@pytest.fixture(autouse=True)
def _nothing_is_left_to_write() -> Iterator[None]:
    """The recorder's thread outlives a test; what it writes must not."""
    yield
    assert recorder.flush(30)


@pytest.fixture
def rows(transactional_db: None) -> Iterator[None]:
    """A database that the gateway's threads can see."""
    yield
    auth.close_connections()


@pytest.fixture
def person(rows: None) -> User:
    return User.objects.create_user("ada", password="a long enough secret")


@pytest.fixture
def key_row(person: User) -> ApiKey:
    keys.new_api_key(person, label="tests")
    return ApiKey.objects.get()


@pytest.fixture
def key(person: User) -> Iterator[str]:
    yield keys.new_api_key(person, label="tests")
    # Before the rows it refers to are gone.
    assert recorder.flush(30)
    use_routes(None)
    auth.close_connections()


@pytest.fixture
async def standin(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StandIn]:
    monkeypatch.setattr(rounds, "FIRST_PAUSE", 0.01)
    async with StandIn() as server:
        yield server
        await close_shared_clients()


@pytest.fixture
async def http(key: str) -> AsyncIterator[httpx.AsyncClient]:
    """A program's client, with its key."""
    transport = httpx.ASGITransport(app=application)
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://gateway.test", headers=headers, timeout=60
    ) as client:
        yield client
    await close_shared_clients()


class _Server(uvicorn.Server):
    """Ends at once; uvicorn's own looks every 0.1 s whether it should, and then sleeps as long for its connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.over = asyncio.Event()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()  # they are pytest's

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.over.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        state = self.server_state
        for protocol in list(state.connections):
            protocol.shutdown()
        with contextlib.suppress(TimeoutError):
            await until(lambda: not state.connections and not state.tasks, seconds=0.1)


@pytest.fixture
async def url(key: str) -> AsyncIterator[str]:
    """The application on a real server in this loop: for streams, and for callers that leave."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = _Server(uvicorn.Config(application, lifespan="off", log_config=None, access_log=False))
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        server.over.set()
        await serving
