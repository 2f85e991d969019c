"""The same site on PostgreSQL and Redis, for whoever has such servers (.ci/run starts both)."""

import os
import uuid
from typing import NoReturn
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.site.processes import served

pytestmark = pytest.mark.slow


def missing(what: str) -> NoReturn:
    """CI brings both services, so there a missing one is a failure and no skip."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture
def database_url():
    server = os.environ.get("TEST_DATABASE_URL")
    if not server:
        missing("TEST_DATABASE_URL names no PostgreSQL server")
    name = f"threadloom_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server.rpartition("/")[0] + f"/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def redis_database(number: int) -> str:
    """One for a file of tests alone: news name runs by their numbers, and each of two sites at once has a run 1."""
    server = os.environ.get("TEST_REDIS_URL")
    if not server:
        missing("TEST_REDIS_URL names no Redis server")
    return urlsplit(server)._replace(path=f"/{number}").geturl()


@pytest.fixture
def redis_url():
    return redis_database(1)


def test_two_servers_share_one_database(database_url, redis_url, tmp_path):
    shared = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "SECRET_KEY": "k" * 50}
    with (
        served(tmp_path / "one", SERVER="daphne", **shared) as one,
        served(tmp_path / "two", SERVER="uvicorn", **shared) as two,
    ):
        assert one.get("/healthz").text == two.get("/healthz").text == "ok\n"
        # The later start printed the link that counts, and both know it.
        assert one.get(two.setup_path).status_code == two.get(two.setup_path).status_code == 200
        assert one.get(one.setup_path).status_code == 404
