from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection

from chatsite.audit import guards, log
from chatsite.audit.models import Entry


@pytest.fixture
def ada(db) -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def guarded(db) -> Iterator[None]:
    guards.install(connection)
    yield
    guards.remove(connection)


@pytest.fixture
def three(ada: User) -> list[Entry]:
    for number in range(3):
        log.record("key.made", actor=ada, subject=f"key {number}", facts={"scopes": ["chat"]})
    return list(Entry.objects.order_by("number"))
