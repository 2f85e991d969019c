"""SQLite, or PostgreSQL where `DATABASE_URL` names one: then each test has a database of its own there."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.sites import Site
from tests.standin import StandIn


@pytest.fixture
def standin() -> Iterator[StandIn]:
    with StandIn().in_thread() as standin:
        yield standin


@pytest.fixture
def database() -> Iterator[dict[str, str]]:
    """The setting that makes a site use a fresh database."""
    server = os.environ.get("DATABASE_URL", "")
    if not server.startswith("postgres"):
        yield {}
        return
    name = f"threadloom_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield {"DATABASE_URL": server.rpartition("/")[0] + f"/{name}"}
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def site(tmp_path: Path, standin: StandIn, database: dict[str, str]) -> Site:
    return Site(tmp_path, standin, database)
