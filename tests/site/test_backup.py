"""A backup is whole or not there; a restore is one site or the other."""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import os
import re
import sqlite3
import tarfile
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from chatsite.audit.models import Entry
from chatsite.chat.files import attachments, disk
from chatsite.chat.models import Attachment, Message, Run, Thread
from chatsite.operator import prepare
from chatsite.operator.backup import files, making, place, restoring, unpacking
from chatsite.operator.backup.manifest import Manifest
from chatsite.operator.copying import CannotCopy
from tests.site.processes import manage, served, wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    # What sqlite3 opened for a copy may be closed by the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, settings) -> Path:
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    settings.ATTACHMENTS_DIR = settings.DATA_DIR / "attachments"
    return settings.DATA_DIR


@pytest.fixture
def site(data) -> list[Attachment]:
    """A person with a thread and two files."""
    ada = User.objects.create_user("ada", password="a long enough secret")
    thread = Thread.objects.create(owner=ada, title="Weather", public_id="t1")
    Message.objects.create(thread=thread, public_id="m1", role="user", parts=[], text="Will it rain?")
    return [attached(ada, content) for content in (b"the first text", b"the second text")]


def attached(owner: User, content: bytes) -> Attachment:
    draft = disk.draft_of(content, f"{content[:9]!r}.txt")
    with transaction.atomic():
        row = attachments.keep(owner, draft)
    disk.in_place(draft)
    return row


@pytest.fixture
def made(site, tmp_path: Path) -> Path:
    making.make(tmp_path / "b.tar.gz")
    return tmp_path / "b.tar.gz"


def members(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}


def rewritten(file: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    content = members(file)
    change(content)
    with tarfile.open(file, "w:gz") as archive:
        for name, text in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))


# -- made ----------------------------------------------------------------------------------------------------


def test_a_backup_has_the_database_the_files_and_a_true_manifest_and_no_secret(site, made, settings, data):
    content = members(made)
    known = Manifest.model_validate_json(content.pop("manifest.json"))
    assert known.files.keys() == content.keys()
    assert {name for name in content if name.startswith("attachments/")} == {
        f"attachments/{row.digest[:2]}/{row.digest}" for row in site
    }
    assert b"the first text" in content.values()
    assert all(settings.SECRET_KEY.encode() not in text for text in content.values())
    assert ("chat", "0001_initial") in known.migrations
    assert made.stat().st_mode & 0o077 == 0
    assert not list(data.glob(".backup-*"))
    assert [path.name for path in made.parent.glob("*.part")] == []
    entry = Entry.objects.get()
    assert (entry.action, entry.subject, entry.facts["with_secrets"]) == ("backup.made", "b.tar.gz", False)


def test_the_secret_key_is_in_it_only_when_it_was_asked_for(site, tmp_path, settings):
    making.make(tmp_path / "b.tar.gz", with_secrets=True)
    assert members(tmp_path / "b.tar.gz")["secret_key"].decode() == settings.SECRET_KEY


def test_a_file_that_is_removed_while_the_backup_is_made_is_in_it(site, tmp_path, monkeypatch):
    copied = making._copied

    def and_then_removed(*given):
        disk.path_of(site[0].digest).unlink()
        return copied(*given)

    monkeypatch.setattr(making, "_copied", and_then_removed)
    assert making.make(tmp_path / "b.tar.gz").missing == []
    assert b"the first text" in members(tmp_path / "b.tar.gz").values()


def test_a_file_that_was_missing_before_is_named_and_hinders_nothing(site, tmp_path, monkeypatch):
    monkeypatch.setattr(making, "WAIT_FOR_A_FILE", 0)
    disk.path_of(site[0].digest).unlink()
    assert making.make(tmp_path / "b.tar.gz").missing == [site[0].digest]
    assert b"the second text" in members(tmp_path / "b.tar.gz").values()


def test_what_a_killed_backup_left_is_removed_by_the_next(site, tmp_path, data):
    (data / ".backup-of-a-killed-one" / "files").mkdir(parents=True)
    (tmp_path / ".b.tar.gz.part").write_text("half")
    making.make(tmp_path / "b.tar.gz")
    assert not list(data.glob(".backup-*"))
    assert not (tmp_path / ".b.tar.gz.part").exists()


def test_two_at_once_and_no_place_are_refused_in_words(site, tmp_path, data):
    with (data / "backup.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(CannotCopy, match="Another backup"):
            making.make(tmp_path / "b.tar.gz")
    with pytest.raises(CannotCopy, match="cannot be written"):
        making.make(tmp_path / "no" / "b.tar.gz")
    assert not Entry.objects.exists()


# -- refused -------------------------------------------------------------------------------------------------


def changed(name: str, text: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda content: content.update({name: text})


def of_another(**facts: object) -> Callable[[dict[str, bytes]], None]:
    def change(content: dict[str, bytes]) -> None:
        content["manifest.json"] = json.dumps(json.loads(content["manifest.json"]) | facts).encode()

    return change


def first_file_changed(content: dict[str, bytes]) -> None:
    name = next(name for name in content if name.startswith("attachments/"))
    content[name] = content[name].replace(b"text", b"TEXT")


def first_file_removed(content: dict[str, bytes]) -> None:
    del content[next(name for name in content if name.startswith("attachments/"))]


WRONG = {
    "a changed file": (first_file_changed, "its hash is another one"),
    "a removed file": (first_file_removed, "is missing in it"),
    "an added file": (changed(f"attachments/ab/ab{'0' * 62}", b"x"), "or was added"),
    "a name that leads out": (changed("attachments/../../x", b"x"), "does not belong into a backup"),
    "another name": (changed("x.sh", b"x"), "does not belong into a backup"),
    "no manifest": (lambda content: content.pop("manifest.json"), "cut off, or is no backup"),
    "another format": (of_another(format="zip"), "cut off, or is no backup"),
    "a newer version": (of_another(migrations=[["chat", "9999_of_tomorrow"]], threadloom="9.9"), "newer version.*9999"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_backup_that_is_not_good_is_refused_before_anything_is_touched(made, what, data):
    change, words = WRONG[what]
    rewritten(made, change)
    before = sorted(path for path in data.rglob("*") if path.is_file())
    with restoring._staging() as staging, pytest.raises(restoring.Refused, match=words):
        restoring._check_fits(unpacking.unpacked(made, staging, print))
    assert not staging.exists()
    assert sorted(path for path in data.rglob("*") if path.is_file()) == before


def entry(kind: bytes, name: str, size: int, **more: str) -> bytes:
    """The head of an archive's entry, whatever follows it."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, more.get("linkname", "")
    return info.tobuf(tarfile.GNU_FORMAT)


def with_holes() -> bytes:
    """The newer form of such a file: in front of its content is the list of its pieces, as long as it likes."""
    info = tarfile.TarInfo(NAME)
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    return info.tobuf(tarfile.PAX_FORMAT) + b"99999999\n" + b"0\n" * 5_000


NAME = f"attachments/ab/ab{'0' * 62}"
BOMBS = {
    "more than the disk has": (entry(tarfile.REGTYPE, NAME, 10**15), "does not fit here"),
    "a manifest of a terabyte": (entry(tarfile.REGTYPE, "manifest.json", 300 << 20), "its manifest is 314,572,800"),
    "a name of a terabyte": (entry(tarfile.GNUTYPE_LONGNAME, "././@LongLink", 10**12), "is no plain file"),
    "much about a file": (entry(tarfile.XHDTYPE, "x", 1 << 20), "is no plain file"),
    "a file with holes": (entry(tarfile.GNUTYPE_SPARSE, NAME, 0), "is no plain file"),
    "a list of holes": (with_holes(), "is no plain file"),
    "a link": (entry(tarfile.SYMTYPE, NAME, 0, linkname="/etc/passwd"), "is no plain file"),
    "a hard link": (entry(tarfile.LNKTYPE, NAME, 0, linkname="../../x"), "is no plain file"),
    "a device": (entry(tarfile.CHRTYPE, NAME, 0), "is no plain file"),
}  # fmt: skip


@pytest.mark.parametrize("what", BOMBS)
def test_what_would_unpack_to_too_much_or_to_no_file_is_refused_unread(what, tmp_path, data):
    """Nothing follows these heads: whoever believed one of them would read for ever, or find that it was cut off."""
    head, words = BOMBS[what]
    (tmp_path / "bomb.tar.gz").write_bytes(gzip.compress(head + bytes(1024)))
    with restoring._staging() as staging, pytest.raises(restoring.Refused, match=words):
        restoring._check_fits(unpacking.unpacked(tmp_path / "bomb.tar.gz", staging, print))
    assert not (data / restoring.STAGING).exists()


def test_a_backup_with_a_damaged_piece_is_refused_in_words(tmp_path):
    file, staging = tmp_path / "broken.tar.gz", tmp_path / "staging"
    staging.mkdir()
    info = tarfile.TarInfo("database.sqlite3")
    info.size = 3 << 20
    content = bytearray(gzip.compress(info.tobuf() + os.urandom(3 << 20), mtime=0))
    middle = len(content) // 2
    for at in range(middle, middle + 200_000):  # at least one block begins in there, of no kind there is
        content[at] = 0xFF
    file.write_bytes(content)
    with pytest.raises(restoring.Refused, match="cannot be read as a backup"):
        unpacking.unpacked(file, staging, print)


def test_more_files_than_a_backup_has_are_refused_and_never_written(made, tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking.manifest, "MOST_FILES", 2)
    with restoring._staging() as staging, pytest.raises(restoring.Refused, match="holds more than 2 files"):
        unpacking.unpacked(made, staging, print)
    with pytest.raises(CannotCopy, match="more than 2 attached files"):
        making.make(tmp_path / "more.tar.gz")


@pytest.mark.parametrize("what", ["cut off", "no archive", "not there", "an archive of nothing"])
def test_what_is_no_backup_is_refused_in_words(made, what, tmp_path):
    match what:
        case "cut off":
            made.write_bytes(made.read_bytes()[: made.stat().st_size // 2])
        case "no archive":
            made.write_bytes(b"hello")
        case "not there":
            made.unlink()
        case _:
            made.write_bytes(gzip.compress(b""))
    with restoring._staging() as staging, pytest.raises(restoring.Refused, match=re.escape(str(made))):
        unpacking.unpacked(made, staging, print)


def test_a_backup_of_the_other_database_is_refused(made):
    other = {"sqlite": "postgresql", "postgresql": "sqlite"}[connection.vendor]
    rewritten(made, of_another(database=other))
    with restoring._staging() as staging, pytest.raises(restoring.Refused, match="DATABASE_URL"):
        restoring._check_fits(unpacking.unpacked(made, staging, print))


def test_a_place_with_people_or_a_server_is_refused(site, made):
    with pytest.raises(restoring.Refused, match="--replace"):
        restoring._check_place(replace=False)
    restoring._check_place(replace=True)
    with prepare.hold_serving_lock(), pytest.raises(restoring.Refused, match="A server runs"):
        restoring.restore(made, replace=True)
    Run.objects.create(thread=Thread.objects.get(), state=Run.State.RUNNING, heartbeat_at=timezone.now())
    if connection.vendor == "sqlite":
        with pytest.raises(restoring.Refused, match="less than a minute ago"):
            restoring.restore(made, replace=True)
        Run.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=2))
        restoring._check_nobody_works()
    assert User.objects.get().username == "ada"


# -- in place ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moves_before_the_end", range(5))
def test_a_restore_that_is_killed_between_two_moves_is_finished_by_the_next_look(
    data, monkeypatch, moves_before_the_end
):
    names = ("", "-wal", "-shm")
    for end in names:
        (data / f"db{end}").write_text(f"old{end}")
    (data / "new").write_text("new")
    count, replace = [0], Path.replace

    def until_killed(path: Path, target: Path) -> Path:
        if path.name.startswith("db") or path.name == ".db.ready":
            if count[0] == moves_before_the_end:
                raise KeyboardInterrupt
            count[0] += 1
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", until_killed)
    if moves_before_the_end < 4:
        with pytest.raises(KeyboardInterrupt):
            place.swap(data / "new", data / "db", data / "aside")
        monkeypatch.setattr(Path, "replace", replace)
        assert place.finish()
    else:
        place.swap(data / "new", data / "db", data / "aside")
    assert {path.name: path.read_text() for path in data.iterdir() if path.is_file()} == {
        "db": "new", "aside": "old", "aside-wal": "old-wal", "aside-shm": "old-shm",
    }  # fmt: skip
    assert not place.finish()


def test_files_are_added_and_never_replaced(data, tmp_path):
    here = files.path_in(files.folder(), "ab" + "0" * 62)
    for path, text in ((here, "here"), (files.path_in(tmp_path / "n", here.name), "there"),
                       (files.path_in(tmp_path / "n", "cd" + "0" * 62), "new")):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert files.take_in(tmp_path / "n") == 1
    assert here.read_text() == "here"
    assert files.path_in(files.folder(), "cd" + "0" * 62).read_text() == "new"


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    return {"DATA_DIR": str(tmp_path / "elsewhere" / "data"), "PORT": "0"}


def asked(file: Path | str, question: str) -> list:
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
        return database.execute(question).fetchall()


@pytest.mark.slow
@pytest.mark.skipif(connection.vendor != "sqlite", reason="its twin below is for PostgreSQL")
def test_an_empty_place_becomes_the_site_and_a_site_is_kept_aside(site, tmp_path, elsewhere, settings):
    there = Path(elsewhere["DATA_DIR"])
    making.make(tmp_path / "b.tar.gz", with_secrets=True)
    first = manage("restore", str(tmp_path / "b.tar.gz"), **elsewhere)
    assert first.returncode == 0, first.stderr
    assert asked(there / "db.sqlite3", "SELECT username FROM auth_user") == [("ada",)]
    assert (there / "secret_key").read_text() == settings.SECRET_KEY
    contents = {path.read_bytes() for path in (there / "attachments").rglob("*") if path.is_file()}
    assert contents == {b"the first text", b"the second text"}
    assert manage("verify_audit", **elsewhere).returncode == 0
    said = [
        action for (action,) in asked(there / "db.sqlite3", "SELECT action FROM audit_entry ORDER BY number")
    ]
    assert said == ["backup.restored"]  # and no broken seal
    refused = manage("restore", str(tmp_path / "b.tar.gz"), **elsewhere)
    assert (refused.returncode, "--replace" in refused.stderr) == (1, True)
    with sqlite3.connect(there / "db.sqlite3") as database:
        database.execute("UPDATE auth_user SET username = 'eve'")
    again = manage("restore", str(tmp_path / "b.tar.gz"), "--replace", **elsewhere)
    assert again.returncode == 0, again.stderr
    assert asked(there / "db.sqlite3", "SELECT username FROM auth_user") == [("ada",)]
    (aside,) = [path for path in there.glob("db.sqlite3.before-*") if path.name[-1].isdigit()]
    assert asked(aside, "SELECT username FROM auth_user") == [("eve",)]
    assert not list(there.glob(".restore*")) + list(there.glob("restore.journal"))
    # As a restore leaves it that is killed between its two moves: the next start finishes it.
    (there / "db.sqlite3").replace(there / ".db.sqlite3.ready")
    moves = [[str(there / ".db.sqlite3.ready"), str(there / "db.sqlite3")]]
    (there / "restore.journal").write_text(json.dumps(moves))
    with served(there.parent) as server:
        assert "A restore that was interrupted is finished." in server.output
        assert asked(there / "db.sqlite3", "SELECT username FROM auth_user") == [("ada",)]
        assert server.get("/healthz").status_code == 200
        running = manage("restore", str(tmp_path / "b.tar.gz"), "--replace", **elsewhere)
        assert "A server runs" in running.stderr


@pytest.mark.slow
def test_a_killed_backup_command_leaves_nothing_half_under_the_name(tmp_path, elsewhere):
    """And the next one is whole. It is killed as soon as its work folder is seen, which may be behind its last step."""
    import signal
    import subprocess
    import sys

    from tests.site.processes import ROOT, environment

    there = Path(elsewhere["DATA_DIR"])
    assert manage("migrate", "-v", "0", **elsewhere).returncode == 0
    command = [sys.executable, "manage.py", "backup", "-o", str(tmp_path / "b.tar.gz")]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(**elsewhere))
    wait_until(lambda: list(there.glob(".backup-*")) or process.poll() is not None, "the work folder")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "b.tar.gz").exists() or "manifest.json" in members(tmp_path / "b.tar.gz")
    whole = manage("backup", "-o", str(tmp_path / "c.tar.gz"), **elsewhere)
    assert whole.returncode == 0, whole.stderr
    assert "manifest.json" in members(tmp_path / "c.tar.gz")
    assert not list(there.glob(".backup-*"))


@pytest.mark.slow
def test_a_postgresql_site_is_backed_up_and_restored(tmp_path):
    from tests.site.test_several_processes import missing

    server = os.environ.get("TEST_DATABASE_URL")
    if not server:
        missing("TEST_DATABASE_URL names no PostgreSQL server")
    names = [f"threadloom_{uuid.uuid4().hex}" for _ in range(2)]
    with psycopg.connect(server, autocommit=True) as admin:
        for name in names:
            admin.execute(f"CREATE DATABASE {name}")
        try:
            _from_one_to_the_other(tmp_path, *(server.rpartition("/")[0] + f"/{name}" for name in names))
        finally:
            for name in names:
                admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _from_one_to_the_other(tmp_path: Path, here: str, there: str) -> None:
    one = {"DATA_DIR": str(tmp_path / "one"), "DATABASE_URL": here, "SECRET_KEY": "k" * 50}
    other = {**one, "DATA_DIR": str(tmp_path / "other"), "DATABASE_URL": there}
    file = str(tmp_path / "b.tar.gz")
    assert manage("migrate", "-v", "0", **one).returncode == 0
    plant = "from django.contrib.auth.models import User; User.objects.create_user('ada')"
    assert manage("shell", "-c", plant, **one).returncode == 0
    made = manage("backup", "-o", file, **one)
    assert made.returncode == 0, made.stderr
    restored = manage("restore", file, **other)
    assert restored.returncode == 0, restored.stderr
    with psycopg.connect(there, autocommit=True) as database:
        assert database.execute("SELECT username FROM auth_user").fetchall() == [("ada",)]
        database.execute("UPDATE auth_user SET username = 'eve'")
        busy = manage("restore", file, "--replace", **other)
        assert "1 other connections use this database" in busy.stderr
    assert "--replace" in manage("restore", file, **other).stderr
    again = manage("restore", file, "--replace", **other)
    assert again.returncode == 0, again.stderr
    aside = re.findall(r"schema (before_\d+)", again.stdout)[0]
    with psycopg.connect(there) as database:
        assert database.execute("SELECT username FROM auth_user").fetchall() == [("ada",)]
        assert database.execute(f"SELECT username FROM {aside}.auth_user").fetchall() == [("eve",)]
    audit = manage("verify_audit", **other)
    assert audit.returncode == 0, audit.stderr
    assert "guard" not in audit.stdout
