"""A person with something in each of their drawers, and a stranger who has the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from chatsite.care.models import Hold
from chatsite.chat.care import retention as threads
from chatsite.chat.models import Thread
from chatsite.chat.transfer import moving, shape
from chatsite.gateway import retention as exchanges


@pytest.fixture(autouse=True)
def _from_the_first_person_on() -> None:
    threads.walk.again()
    exchanges.walk.again()


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, settings) -> None:
    settings.ATTACHMENTS_DIR = tmp_path / "attachments"


@pytest.fixture
def ada(db) -> User:
    return User.objects.create_user("ada", email="ada@example.org")


@pytest.fixture
def bob(db) -> User:
    return User.objects.create_user("bob", email="bob@example.org")


@pytest.fixture
def root(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def thread_of(db) -> Callable[..., Thread]:
    """A thread with a question and an answer in which nothing happened for so many days."""

    def make(owner: User, days: float = 0, title: str = "Weather") -> Thread:
        at = timezone.now() - timedelta(days=days)
        run = {"id": "r1", "state": "finished", "created_at": at, "finished_at": at}
        said = [
            {"id": "m1", "run": "r1", "role": "user", "parts": [{"type": "text", "text": "Will it rain?"}]},
            {"id": "m2", "run": "r1", "role": "assistant", "parts": [{"type": "text", "text": "No."}]},
        ]
        for number, entry in enumerate(said):
            entry |= {"created_at": at, "parent": f"m{number}" if number else None}
        file = shape.ThreadFile(
            title=title, created_at=at, updated_at=at, head="m2", runs=[run], messages=said
        )
        thread = moving.take_in(owner, file)
        Thread.objects.filter(pk=thread.pk).update(updated_at=at)
        return thread

    return make


@pytest.fixture
def held(db) -> Callable[..., Hold]:
    from chatsite.care import holds

    return lambda user, thread="": holds.place(user=user, thread=thread, reason="A case at court.")
