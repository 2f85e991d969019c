"""Whatever somebody does to the log past the product, `verify_audit` names the first entry that is not right."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connection, transaction

from chatsite.audit import log
from chatsite.audit.chain import hash_of
from chatsite.audit.models import Entry, Head
from chatsite.audit.verifying import Broken, verify


def sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def made_anew(first: int) -> None:
    """As somebody would who knows how hashes are made, and writes to the database."""
    previous = Entry.objects.filter(number=first - 1).values_list("hash", flat=True).first() or ""
    for entry in Entry.objects.filter(number__gte=first).order_by("number"):
        entry.previous = previous
        previous = hash_of(entry)
        sql(
            f"UPDATE audit_entry SET previous = '{entry.previous}', hash = '{previous}' WHERE number = {entry.number}"
        )
    Head.objects.update(hash=previous, number=Entry.objects.count())


def inserted_copy() -> None:
    columns = "at, action, actor_id, actor_name, subject, reason, door, facts, previous, hash"
    sql(f"INSERT INTO audit_entry (number, {columns}) SELECT 4, {columns} FROM audit_entry WHERE number = 3")


DEEDS = {
    "a reason is changed": (lambda: sql("UPDATE audit_entry SET reason = 'x' WHERE number = 2"), 2, "changed"),
    "a fact is changed": (
        lambda: sql("""UPDATE audit_entry SET facts = '{"scopes": []}' WHERE number = 2"""), 2, "changed",
    ),
    "one is removed": (lambda: sql("DELETE FROM audit_entry WHERE number = 2"), 2, "removed"),
    "the first is removed": (lambda: sql("DELETE FROM audit_entry WHERE number = 1"), 1, "removed"),
    "the end is cut off": (lambda: sql("DELETE FROM audit_entry WHERE number > 1"), 2, "cut"),
    "all are removed": (lambda: sql("DELETE FROM audit_entry"), 1, "cut"),
    "one is put in behind the head": (inserted_copy, 4, "inserted"),
    "the head is removed": (lambda: sql("DELETE FROM audit_head"), 1, "headless"),
    "one is changed, with its own hash made anew": (
        lambda: (sql("UPDATE audit_entry SET reason = 'x' WHERE number = 2"),
                 sql(f"UPDATE audit_entry SET hash = '{hash_of(Entry.objects.get(number=2))}' WHERE number = 2")),
        3, "replaced",
    ),
    "the whole chain is made anew": (
        lambda: (sql("UPDATE audit_entry SET reason = 'x' WHERE number = 2"), made_anew(2)), 3, "unsealed",
    ),
    "it is cut, and the head set back": (
        lambda: (sql("DELETE FROM audit_entry WHERE number = 3"), made_anew(1)), 2, "unsealed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("deed", DEEDS)
def test_the_first_entry_that_is_not_right_is_named(three, deed):
    assert verify().number == 3
    do, number, how = DEEDS[deed]
    do()
    with pytest.raises(Broken) as broken:
        verify()
    assert (broken.value.number, broken.value.how) == (number, how)


def test_a_log_that_goes_on_after_it_was_forged_says_so_itself(three):
    sql("UPDATE audit_entry SET reason = 'x' WHERE number = 2")
    made_anew(2)
    log.record("key.made")
    assert verify().seals_broken == [4]


def test_a_log_that_lost_its_head_says_so_itself(three):
    sql("DELETE FROM audit_head")
    log.record("key.made")
    assert verify().seals_broken == [4]


def test_a_changed_secret_key_is_told_apart_by_its_fallbacks(three, settings):
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another" * 10
    assert verify().seals_broken == []
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(Broken, match="SECRET_KEY_FALLBACKS"):
        verify()


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("verify_audit", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_says_that_it_is_whole_and_what_to_keep(three, guarded):
    said = command()
    assert "from entry 1 to 3." in said
    assert "guard" not in said
    kept = re.search(r"3:[0-9a-f]{64}", said)[0]
    assert "whole" in command("--expect", kept)


def test_what_was_kept_elsewhere_finds_a_log_that_was_put_back(three):
    kept = f"3:{three[2].hash}"
    head = Head.objects.get()
    log.record("key.made")
    sql("DELETE FROM audit_entry WHERE number = 4")
    Head.objects.update(number=3, hash=head.hash, seal=head.seal)
    assert "whole" in command("--expect", kept)  # an older copy of the log was whole too, then
    with pytest.raises(CommandError, match="it was cut"):
        command("--expect", f"4:{'0' * 64}")
    with pytest.raises(CommandError, match="made anew"):
        command("--expect", f"2:{'0' * 64}")


@pytest.mark.parametrize("wrong", ["3", "x:y", "3:abc", ""])
def test_a_wrong_expectation_is_refused_in_words(db, wrong):
    with pytest.raises(CommandError, match="NUMBER:HASH"):
        command("--expect", wrong)


def test_the_command_fails_on_a_broken_chain_and_on_no_empty_one(three):
    sql("DELETE FROM audit_entry WHERE number = 2")
    with pytest.raises(CommandError, match=r"Entry 2 was removed.*first broken: 2, removed"):
        command()
    sql("DELETE FROM audit_entry")
    sql("DELETE FROM audit_head")
    assert "empty" in command()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entry SET reason = 'x'",
        "DELETE FROM audit_entry",
        "DELETE FROM audit_head",
        "UPDATE audit_head SET number = 1",
    ],
)
def test_the_database_itself_refuses(three, guarded, statement):
    with pytest.raises(DatabaseError, match="only grows"), transaction.atomic():
        sql(statement)
    if connection.vendor == "postgresql":
        with pytest.raises(DatabaseError, match="only grows"), transaction.atomic():
            sql("TRUNCATE audit_entry")
    assert verify().notes == []
    log.record("key.made")
    assert verify().number == 4


def test_that_the_database_does_not_guard_is_said(three):
    assert "audit_entry_no_delete" in command()


@pytest.mark.slow
def test_a_migrated_database_has_its_guards(tmp_path):
    """On SQLite a later migration of these tables drops their triggers: it has to make them again."""
    from tests.site.processes import manage

    made = manage(
        "migrate", "-v", "0", DATA_DIR=str(tmp_path), DATABASE_URL=f"sqlite:///{tmp_path}/x.sqlite3"
    )
    assert made.returncode == 0, made.stderr
    said = manage("verify_audit", DATA_DIR=str(tmp_path), DATABASE_URL=f"sqlite:///{tmp_path}/x.sqlite3")
    assert (said.returncode, said.stdout) == (0, "The log is empty.\n")
