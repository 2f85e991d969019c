from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey


@pytest.fixture
def person(db) -> User:
    return User.objects.create_user("ada", password="a long enough secret")


@pytest.fixture
def admin(db) -> Iterator[Client]:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a long enough secret"))
    return client


@pytest.fixture
def key(person: User) -> str:
    return keys.new_api_key(person, label="tests")


def row() -> ApiKey:
    return ApiKey.objects.get()
