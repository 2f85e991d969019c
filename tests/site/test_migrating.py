"""What a start does with a database of another version: a snapshot and the migrations, or a refusal in words."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from chatsite.audit import guards
from chatsite.operator import copying, prepare, schema, snapshots
from tests.site.processes import manage

pytestmark = pytest.mark.django_db(transaction=True)
LAST = ("audit", "0002_guards")
"""A migration that makes no table, and may be applied again."""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, settings) -> Iterator[Path]:
    settings.DATA_DIR = tmp_path
    yield tmp_path
    guards.remove(connection)


@pytest.fixture
def recorder() -> Iterator[MigrationRecorder]:
    recorder = MigrationRecorder(connection)
    known = set(recorder.applied_migrations())
    yield recorder
    for key in set(recorder.applied_migrations()) - known:
        recorder.record_unapplied(*key)
    for key in known - set(recorder.applied_migrations()):
        recorder.record_applied(*key)


def start() -> list[str]:
    said: list[str] = []
    prepare.prepare_database(said.append)
    return said


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_database_of_this_version_is_left_alone(data):
    assert start() == []
    assert schema.look() == schema.Schema()
    assert not (data / "snapshots").exists()


def test_what_is_pending_is_applied_behind_a_snapshot(data, recorder):
    User.objects.create_user("ada")
    recorder.record_unapplied(*LAST)
    assert start() == ["Preparing the database ..."]
    assert schema.look().pending == ()
    (made,) = (data / "snapshots").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-before-audit\.0002_guards\.(sqlite3|sql)", made.name)
    assert made.stat().st_mode & 0o077 == 0
    if connection.vendor == "sqlite":
        with sqlite3.connect(made) as copy:
            assert copy.execute("SELECT username FROM auth_user").fetchall() == [("ada",)]
            recorded = copy.execute("SELECT name FROM django_migrations WHERE app = 'audit'").fetchall()
        assert recorded == [("0001_initial",)]
    else:
        assert "CREATE TABLE public.auth_user" in made.read_text()


def test_the_last_three_snapshots_stay(data, recorder):
    folder = data / "snapshots"
    folder.mkdir()
    for day in range(1, 6):
        (folder / f"2026010{day}-000000-before-chat.0001.sqlite3").touch()
    (folder / "my own.sqlite3").touch()
    recorder.record_unapplied(*LAST)
    start()
    made = sorted(path.name[:8] for path in folder.iterdir() if "before" in path.name)
    assert len(made) == snapshots.KEPT
    assert made[:2] == ["20260104", "20260105"]
    assert (folder / "my own.sqlite3").exists()


def test_an_operator_who_wants_no_snapshot_has_none(data, recorder, settings):
    settings.MIGRATE_SNAPSHOT = False
    recorder.record_unapplied(*LAST)
    start()
    assert not (data / "snapshots").exists()


def test_without_room_for_a_snapshot_nothing_is_migrated(data, recorder, monkeypatch):
    recorder.record_unapplied(*LAST)
    (data / "snapshots").mkdir()
    name = "copy_sqlite" if connection.vendor == "sqlite" else "dump_postgresql"

    def full(*_: object) -> None:
        raise copying.CannotCopy("No space.")

    monkeypatch.setattr(snapshots, name, full)
    with pytest.raises(prepare.NotReady, match=r"No space\. .*MIGRATE_SNAPSHOT=false"):
        start()
    assert schema.look().pending == ("audit.0002_guards",)


def test_pending_migrations_are_refused_where_the_operator_applies_them(recorder, settings):
    settings.MIGRATE = False
    start()
    recorder.record_unapplied(*LAST)
    with pytest.raises(
        prepare.NotReady, match=r"igrations are pending \(audit\.0002_guards\).*manage\.py migrate"
    ):
        start()
    assert schema.look().pending == ("audit.0002_guards",)


@pytest.mark.parametrize("migrate", [True, False])
def test_the_database_of_a_newer_version_is_always_refused(recorder, settings, migrate, data):
    settings.MIGRATE = migrate
    recorder.record_applied("chat", "9999_of_tomorrow")
    recorder.record_unapplied(*LAST)
    with pytest.raises(prepare.NotReady, match=r"newer version.*chat\.9999_of_tomorrow.*backup"):
        start()
    assert schema.look().pending == ("audit.0002_guards",)
    assert not (data / "snapshots").exists()


def test_migrations_of_an_app_that_is_not_here_are_nobodys_concern(recorder):
    recorder.record_applied("an_app_of_a_hook", "0001_initial")
    assert start() == []


def test_a_half_migrated_database_is_refused(recorder):
    recorder.record_unapplied("audit", "0001_initial")
    with pytest.raises(prepare.NotReady, match=r"half migrated.*audit\.0002_guards.*snapshot"):
        start()
    recorder.record_unapplied(*LAST)
    with pytest.raises(prepare.NotReady, match=r"table audit_\w+ is there, and audit\.0001_initial"):
        start()


def test_a_table_that_a_migration_left_behind_is_refused():
    sql("CREATE TABLE new__chat_thread (id integer)")
    try:
        with pytest.raises(prepare.NotReady, match="The table new__chat_thread was left"):
            start()
    finally:
        sql("DROP TABLE new__chat_thread")


def test_a_migration_that_fails_says_where_the_snapshot_is(data, recorder, monkeypatch):
    def fail(connection: object) -> None:
        raise DatabaseError("no such column: x\nmore of it")

    monkeypatch.setattr(guards, "install", fail)
    recorder.record_unapplied(*LAST)
    with pytest.raises(prepare.NotReady, match=r"A migration failed: no such column: x\. .*snapshots/"):
        start()
    assert schema.look().pending == ("audit.0002_guards",)


def test_serve_says_it_and_ends(tmp_path):
    settings = {"DATA_DIR": str(tmp_path), "MIGRATE": "false", "PORT": "0"}
    ended = manage("serve", **settings)
    assert ended.returncode == 1
    assert "are pending" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_copy_is_of_one_moment_however_much_is_written_meanwhile(tmp_path, monkeypatch):
    """Between any two steps somebody commits: the copy neither begins anew nor mixes two moments."""
    source, target = tmp_path / "a.sqlite3", tmp_path / "b.sqlite3"
    with sqlite3.connect(source) as writing:
        writing.execute("PRAGMA journal_mode = WAL")
        writing.execute("CREATE TABLE t (moment, filler)")
        writing.executemany("INSERT INTO t VALUES (0, ?)", [("x" * 1000,)] * 4000)
        writing.commit()
        steps = []

        def between(tell):
            def progress(status, left, total):
                steps.append(left)
                writing.execute("UPDATE t SET moment = moment + 1")
                writing.commit()

            return progress

        monkeypatch.setattr(copying, "_pages", between)
        monkeypatch.setattr(copying, "PAGES_A_STEP", 100)
        copying.copy_sqlite(source, target, print)
    assert len(steps) < 30
    with sqlite3.connect(target) as copy:
        assert copy.execute("SELECT DISTINCT moment FROM t").fetchall() == [(0,)]
    assert sorted(path.name for path in tmp_path.glob("*b.sqlite3*")) == ["b.sqlite3"]


def test_the_database_has_each_constraint_and_index_that_a_model_names():
    """A migration may take one away without a word: PostgreSQL's forgot that a thread has one active run."""
    missing = []
    for model in apps.get_models():
        with connection.cursor() as cursor:
            there = connection.introspection.get_constraints(cursor, model._meta.db_table)
        named = [each.name for each in (*model._meta.constraints, *model._meta.indexes)]
        missing += [f"{model._meta.db_table}: {name}" for name in named if name not in there]
    assert missing == []
