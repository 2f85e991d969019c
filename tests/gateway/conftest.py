from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from django.contrib.auth.models import User
from django.db import connection

from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.gateway.recorder import recorder

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
def rows(transactional_db: None) -> None:
    """A database that the recorder's thread can see."""


@pytest.fixture
def person(rows: None) -> User:
    return User.objects.create_user("ada", password="a long enough secret")


@pytest.fixture
def key_row(person: User) -> ApiKey:
    keys.new_api_key(person, label="tests")
    return ApiKey.objects.get()
