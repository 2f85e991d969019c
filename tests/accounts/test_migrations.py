"""The keys were the chat's; a database from then keeps every one, and a new one needs no chat to have them.

`before.*.sql` is a database as the last version made and filled it that had the keys in the chat.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.site.processes import manage
from tests.site.test_several_processes import missing

HERE = Path(__file__).parent

# What a site looks at after the migrations, said in one line a fact.
LOOK = """
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.chat import access
from chatsite.chat.models import Thread
print("keys", [(k.label, k.user.username, k.created_at.year, k.last_used_at and str(k.last_used_at.date()),
    k.revoked_at and str(k.revoked_at.date()), k.scopes, k.allowed_models, k.budget, k.keep) for k in
    ApiKey.objects.order_by("pk")])
print("opens", access.user_of_key("tl-an-old-key-of-ada-0001"), keys.look_up("tl-an-old-key-of-ada-0002"))
clerk = User.objects.get(username="clerk")
print("may", clerk.has_perm("accounts.view_apikey"), clerk.has_perm("accounts.change_apikey"),
    clerk.has_perm("accounts.add_apikey"))
print("types", list(ContentType.objects.filter(model="apikey").values_list("app_label", flat=True)))
print("log", [str(entry.content_type) for entry in LogEntry.objects.all()])
print("threads", list(Thread.objects.values_list("public_id", flat=True)))
print("new", keys.new_api_key(clerk, budget="2.5")[:3])
"""
EXPECTED = """\
keys [('laptop', 'ada', 2026, '2026-01-03', None, ['chat', 'gateway'], [], None, 'metadata'), \
('revoked', 'ada', 2026, None, '2026-01-02', ['chat', 'gateway'], [], None, 'metadata')]
opens ada None
may True True False
types ['accounts']
log ['Accounts | API key']
threads ['kept']
new tl-
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def postgres() -> Iterator[str]:
    """The address of an empty database of its own."""
    server = os.environ.get("TEST_DATABASE_URL")
    if not server:
        missing("TEST_DATABASE_URL names no PostgreSQL server")
    name = f"threadloom_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrated(address: str, folder: Path, *, look: bool = True) -> str:
    settings = {"DATABASE_URL": address, "DATA_DIR": str(folder)}
    done = manage("migrate", "-v0", **settings)
    assert done.returncode == 0, done.stderr
    again = manage("makemigrations", "--check", "--dry-run", **settings)
    assert again.returncode == 0, again.stdout
    return manage("shell", "--no-imports", "-c", LOOK, **settings).stdout if look else ""


def test_a_filled_sqlite_database_keeps_its_keys_and_who_may_see_them(tmp_path: Path):
    path = tmp_path / "db.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((HERE / "before.sqlite.sql").read_text())
    assert migrated(f"sqlite:////{path}", tmp_path) == EXPECTED


def test_a_filled_postgresql_database_keeps_its_keys_and_who_may_see_them(postgres: str, tmp_path: Path):
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute((HERE / "before.postgresql.sql").read_text())
    assert migrated(postgres, tmp_path) == EXPECTED


EMPTY = """
from django.contrib.auth.models import User
from chatsite.accounts import keys
key = keys.new_api_key(User.objects.create(username="ada"))
print(keys.look_up(key).scopes == {"chat", "gateway"})
"""


def test_an_empty_database_gets_the_table(tmp_path: Path):
    address = f"sqlite:////{tmp_path / 'db.sqlite3'}"
    migrated(address, tmp_path, look=False)
    settings = {"DATABASE_URL": address, "DATA_DIR": str(tmp_path)}
    assert manage("shell", "--no-imports", "-c", EMPTY, **settings).stdout == "True\n"


def test_a_site_without_the_chat_has_keys_too(tmp_path: Path):
    address = f"sqlite:////{tmp_path / 'db.sqlite3'}"
    settings = {
        "DATABASE_URL": address, "DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "tests.accounts.site_without_chat",
    }  # fmt: skip
    done = manage("migrate", "-v0", **settings)
    assert done.returncode == 0, done.stderr
    assert manage("shell", "--no-imports", "-c", EMPTY, **settings).stdout == "True\n"
