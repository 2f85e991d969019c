from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User

from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.gateway.recorder import recorder


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
