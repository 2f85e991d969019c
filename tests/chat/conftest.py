"""A real database file, real tasks, the real log; only the model is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient

from agent.providers.http import close_shared_clients
from agent.providers.scripted import ScriptedProvider
from chatsite.accounts import keys
from chatsite.asgi import application
from chatsite.chat import db, recovery, runner
from chatsite.chat.agents import Agents, use_agents
from chatsite.chat.models import Run
from chatsite.chat.process import rounds
from chatsite.chat.process.heartbeat import Watch


@pytest.fixture(autouse=True)
def _database(transactional_db: None) -> Iterator[None]:
    yield
    db.close_connections()


@pytest.fixture(autouse=True)
def _no_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that makes a run look lost closes it itself; a beat of this process would race with it."""
    monkeypatch.setattr(rounds, "FIRST_BEAT_AFTER", 3600.0)


@pytest.fixture
def person() -> User:
    return User.objects.create_user("ada", password="a long enough secret")


@pytest.fixture
def stranger() -> User:
    return User.objects.create_user("mallory", password="a long enough secret")


@pytest.fixture
def key(person: User) -> str:
    return keys.new_api_key(person, label="tests")


@pytest.fixture
def plays() -> Iterator[Callable[..., ScriptedProvider]]:
    """`plays(turn, turn, ...)`: the model of all runs in this test plays these turns."""

    def play(*turns: object) -> ScriptedProvider:
        provider = ScriptedProvider(*turns)
        use_agents(Agents([], demo=provider))
        return provider

    yield play
    use_agents(None)


@pytest.fixture
def client_of(person: User) -> Callable[[User], AsyncClient]:
    def log_in(who: User) -> AsyncClient:
        client = AsyncClient()
        client.force_login(who)
        return client

    return log_in


@pytest.fixture
async def settled() -> AsyncIterator[Callable[[], object]]:
    """`await settled()`: no run of this process is at work any more. Also awaited at the end of the test."""

    async def wait() -> None:
        while tasks := [work.task for work in runner.running_here() if work.task is not None]:
            await asyncio.wait(tasks)

    yield wait
    for work in runner.running_here():
        work.abort.abort("the test is over")
    await wait()
    await close_shared_clients()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A program's client of the ASGI application that the server serves."""
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def until(condition: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Let the loop turn until the condition holds; fails when it never does."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (what is awaited is many things, not one event)
            await asyncio.sleep(0.005)


async def recover() -> list[recovery.Recovered]:
    """What the next beat would do: recover what has no process any more, and start what goes on here."""
    return await rounds.recover_lost(Watch())


async def row_of(run: Run) -> Run:
    return await db.read(Run.objects.get, pk=run.pk)
