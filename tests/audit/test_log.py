"""What an entry says, and that it is part of what it tells of."""

from __future__ import annotations

import threading
from datetime import date
from decimal import Decimal

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection, transaction

from chatsite.audit import log
from chatsite.audit.facts import NotForTheLog
from chatsite.audit.models import AppendOnly, Entry
from chatsite.audit.verifying import verify


def test_an_entry_says_who_did_what_to_whom_why_and_by_which_door(ada):
    log.record(
        "transcript.opened",
        actor=ada,
        subject="thread T",
        reason="A complaint.",
        door="admin",
        facts={"n": 1},
    )
    entry = Entry.objects.get()
    assert (entry.number, entry.action, entry.actor_id, entry.actor_name) == (
        1, "transcript.opened", str(ada.pk), "ada",
    )  # fmt: skip
    assert (entry.subject, entry.reason, entry.door, entry.facts) == (
        "thread T", "A complaint.", "admin", {"n": 1},
    )  # fmt: skip


def test_an_entry_outlives_whom_it_is_about(ada):
    log.record("key.made", actor=ada)
    User.objects.all().delete()
    assert Entry.objects.get().actor_name == "ada"
    verify()


@pytest.mark.parametrize("nobody", [None, AnonymousUser()])
def test_nobody_known_may_have_done_it(db, nobody):
    log.record("login.failed", actor=nobody, subject="user mallory")
    assert Entry.objects.get().actor_name == ""


def test_what_is_taken_back_was_never_written(ada):
    with pytest.raises(RuntimeError), transaction.atomic():
        log.record("key.made", actor=ada)
        raise RuntimeError
    assert not Entry.objects.exists()
    log.record("key.made", actor=ada)
    assert verify().number == 1


@pytest.mark.parametrize("name", ["text", "Content", "prompt", "password", "arguments", "api_key"])
@pytest.mark.parametrize("facts", [lambda n: {n: "x"}, lambda n: {"in": [{n: "x"}]}], ids=["bare", "deeper"])
def test_content_and_secrets_are_refused(db, name, facts):
    with pytest.raises(NotForTheLog):
        log.record("policy.changed", facts=facts(name))
    assert not Entry.objects.exists()


def test_more_than_two_kilobytes_of_facts_are_refused(db):
    with pytest.raises(NotForTheLog, match="2048"):
        log.record("policy.changed", facts={f"name{number}": "x" * 150 for number in range(20)})


def test_what_is_only_long_or_odd_is_written_as_the_database_holds_it(db):
    log.record(
        "policy.changed",
        subject="s" * 1000,
        reason="\x00\ud800",
        facts={"names": [f"n{number}" for number in range(30)], "cost": Decimal("0.10"), "day": date(2026, 1, 2),
               "share": 1e-7, "long": "é" * 300, "none": None, "on": True, "big": 2**70},
    )  # fmt: skip
    entry = Entry.objects.get()
    assert entry.facts["names"][-2:] == ["n19", "+10"]
    assert (entry.facts["cost"], entry.facts["share"], entry.facts["big"]) == ("0.10", "1e-07", 2**70)
    assert (len(entry.subject), entry.subject[-1], len(entry.facts["long"])) == (300, "…", 200)
    verify()


def test_code_cannot_change_or_delete_an_entry(three):
    entry = three[0]
    entry.reason = "Another one."
    rows = Entry.objects.all()
    for change in (entry.save, entry.delete, rows.delete, lambda: rows.update(reason=""),
                   lambda: rows.bulk_update([entry], ["reason"])):  # fmt: skip
        with pytest.raises(AppendOnly):
            change()
    assert verify().number == 3


@pytest.mark.django_db(transaction=True)
def test_writers_on_connections_of_their_own_make_one_chain():
    """Each thread has its own connection, and holds its transaction open over the next one's beginning."""
    begin = threading.Barrier(4)
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            begin.wait(60)
            for number in range(15):
                with transaction.atomic():
                    log.record("key.made", subject=f"{name} {number}")
                    Entry.objects.count()
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert verify().number == 60
    assert Entry.objects.filter(subject__startswith="a ").count() == 15
