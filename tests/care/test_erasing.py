"""A person is erased: every row, every file, with proof; a hold forbids it; whoever stops it may go on."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from io import StringIO

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatsite.audit.models import Entry
from chatsite.audit.verifying import verify
from chatsite.care import erasing, holds, housework
from chatsite.care.lines import lines, staying
from chatsite.care.models import Erasure
from chatsite.chat.actions import organizing
from chatsite.chat.files import attachments, disk
from chatsite.chat.models import Attachment, Message, Share, Thread
from chatsite.gateway.models import Exchange, ExchangeCall
from chatsite.policies import quotas
from chatsite.policies.quotas import Account, Amount
from chatsite.policies.values import Limits
from chatsite.usage.models import Day
from tests.care import drawers

SKIPPED = {line.model for line in staying()}


def command(*arguments: str) -> dict:
    out = StringIO()
    call_command("erase_user", *arguments, stdout=out, stderr=StringIO())
    return json.loads(out.getvalue())


# -- the list is whole ---------------------------------------------------------------------------------------


def covered() -> set[tuple[str, str]]:
    return {(line.model, line.path.partition("__")[0]) for line in [*lines(), *staying()] if line.path}


@pytest.mark.parametrize("table", [model._meta.label for model in drawers.tables()])
def test_every_table_that_leads_to_people_has_a_line(table):
    assert table in {label for label, _ in covered()}, f"say in a module `personal` what becomes of {table}"


@pytest.mark.parametrize(("table", "column"), drawers.direct())
def test_every_column_that_names_a_person_has_a_line(table, column):
    assert (table, column) in covered(), f"say in a module `personal` what becomes of {table}.{column}"


def test_every_line_leads_to_people(db):
    for line in lines():
        assert apps.get_model(line.model)
        if line.path:
            line.of(1).exists()


# -- all of it goes ------------------------------------------------------------------------------------------


@pytest.fixture
def both(ada, bob):
    """Ada and Bob with a row in each table, and the same file."""
    for person in (ada, bob):
        person.groups.add(Group.objects.get_or_create(name="people")[0])
        person.user_permissions.add(Permission.objects.first())
        drawers.fill(person, SKIPPED | {"auth.User_groups", "auth.User_user_permissions"})
        quotas.admit([Account(f"user:{person.pk}", Limits(runs_at_once=9))], f"run:{person.pk}", Amount(9))
        Client().force_login(person)
        own = Exchange.objects.filter(user=person).values_list("public_id", flat=True)
        ExchangeCall.objects.create(exchange_id=own[0], call_id="without a key", name="t")
        Day.objects.create(day=timezone.now().date(), source="chat", about="user", value=str(person.pk))
        for content in (b"the same text", f"a text of {person}".encode()):
            draft = disk.draft_of(content, f"{content[:5]!r}.txt")
            attachments.keep(person, draft)
            disk.in_place(draft)
    return ada, bob


def counts(person) -> dict[str, int]:
    return {line.name: line.count(person.pk) for line in lines()}


def test_not_a_row_of_the_person_is_left_and_none_of_anybody_else_is_gone(both):
    ada, bob = both
    before, bobs = counts(ada), counts(bob)
    assert all(before.values()), [name for name, count in before.items() if not count]
    proof = command("ada", "--reason", "She asked for it.")
    assert not any(counts(ada).values())
    assert counts(bob) == bobs
    assert not User.objects.filter(username="ada").exists()
    rows = proof["document"]["rows"]
    assert {name: row["before"] for name, row in rows.items()} == before
    assert {row["after"] for row in rows.values()} == {0}
    files = {path.name for path in disk.folder().rglob("*") if path.is_file()}
    assert files == {row.digest for row in Attachment.objects.filter(owner=bob)} - {"bob"}


def test_the_proof_and_the_audit_log_hold_each_other(both):
    proof = command("ada", "--reason", "She asked for it.")
    text = json.dumps(proof["document"], sort_keys=True, separators=(",", ":"))
    assert proof["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    entry = Entry.objects.get(number=proof["audit"]["number"])
    assert (entry.action, entry.subject, entry.reason) == ("user.erased", "user ada", "She asked for it.")
    assert (entry.hash, entry.facts["proof_sha256"]) == (proof["audit"]["hash"], proof["sha256"])
    verify()


def test_what_names_the_person_elsewhere_forgets_the_name(ada, bob, thread_of):
    share = Share.objects.create(thread=thread_of(bob), created_by=ada)
    people = ContentType.objects.get_for_model(User)
    LogEntry.objects.create(
        user=bob, content_type=people, object_id=ada.pk, object_repr="ada", action_flag=CHANGE
    )
    command("ada", "--reason", "She asked for it.")
    share.refresh_from_db()
    assert share.created_by is None
    assert not LogEntry.objects.exists()


def test_a_call_whose_key_is_gone_goes_with_its_exchange(ada):
    Exchange.objects.create(public_id="e1", request_id="r", user=ada)
    ExchangeCall.objects.create(exchange_id="e1", call_id="c", name="t")
    ExchangeCall.objects.create(exchange_id="e2", call_id="c", name="t")
    command("ada", "--reason", "She asked for it.")
    assert [call.exchange_id for call in ExchangeCall.objects.all()] == ["e2"]


def test_to_erase_again_is_to_get_the_same_proof(ada, thread_of):
    thread_of(ada)
    proof = command("ada", "--reason", "She asked for it.")
    assert command("ada", "--reason", "Again.") == proof
    assert Entry.objects.filter(action="user.erased").count() == 1
    with pytest.raises(CommandError, match="no user 'eve'"):
        command("eve", "--reason", "x")


# -- what forbids it -----------------------------------------------------------------------------------------


def test_a_hold_forbids_it_also_when_it_comes_half_way(ada, thread_of, monkeypatch):
    thread = thread_of(ada)
    hold = holds.place(user=ada, thread=thread.public_id, reason="A case at court.")
    with pytest.raises(CommandError, match="A case at court"):
        command("ada", "--reason", "She asked for it.")
    assert User.objects.get(username="ada").is_active
    holds.lift(hold, reason="It is over.")
    erasure = erasing.begin(ada, reason="She asked for it.")
    erasing.one_step(erasure)
    hold = holds.place(user=ada, reason="Another case.")
    left = Thread.objects.count(), Message.objects.count()
    with pytest.raises(erasing.Refused, match="Another case"):
        erasing.run(erasure)
    assert erasing.step() is False
    assert (Thread.objects.count(), Message.objects.count()) == left
    holds.lift(hold, reason="It is over.")
    assert erasing.run(erasure)
    assert not Thread.objects.exists()


def test_the_only_administrator_and_oneself_are_not_erased(db, ada):
    root = User.objects.create_superuser("root")
    with pytest.raises(CommandError, match="only administrator"):
        command("root", "--reason", "x")
    with pytest.raises(erasing.Refused, match="This is you"):
        erasing.begin(ada, reason="x", actor=ada)
    with pytest.raises(erasing.Refused, match="reason"):
        erasing.begin(ada, reason=" ", actor=root)
    User.objects.create_superuser("second")
    command("root", "--reason", "x")
    assert not Entry.objects.filter(subject="user ada").exists()


# -- half way ------------------------------------------------------------------------------------------------


def test_it_can_be_stopped_after_any_step_and_counts_what_was_there_first(ada, thread_of, monkeypatch):
    for _ in range(3):
        thread_of(ada)
    monkeypatch.setattr("chatsite.care.lines.AT_ONCE", 1)
    erasure = erasing.begin(ada, reason="She asked for it.")
    assert not User.objects.get(pk=ada.pk).is_active
    for _ in range(5):
        erasing.one_step(Erasure.objects.get())
    assert 0 < Message.objects.count() + Thread.objects.count() < 9
    assert erasing.run(erasure, seconds=0) is False
    proof = command("ada", "--reason", "Another reason.")
    assert proof["document"]["rows"]["chat.Message"] == {"before": 6, "after": 0}
    assert proof["document"]["reason"] == "She asked for it."


def test_upkeep_goes_on_with_what_was_left(ada, thread_of):
    thread_of(ada)
    erasing.begin(ada, reason="She asked for it.")
    while housework.steps()["erasures"]():
        pass
    assert Erasure.objects.get().proof["document"]["rows"]["chat.Thread"] == {"before": 1, "after": 0}
    assert not Thread.objects.exists()


def test_two_who_go_on_at_once_end_it_once(ada, thread_of):
    one, other = erasing.begin(ada, reason="x"), erasing.begin(ada, reason="y")
    assert erasing.run(one)
    assert erasing.run(other)
    assert other.proof == one.proof
    assert Entry.objects.filter(action="user.erased").count() == 1


@pytest.mark.slow
def test_a_killed_command_is_run_again_and_all_is_gone(tmp_path):
    """A process of its own on a database of its own, killed in the middle of many small transactions."""
    from tests.site.processes import ROOT, environment, manage

    settings = {"DATA_DIR": str(tmp_path / "data"), "DATABASE_URL": f"sqlite:///{tmp_path}/db.sqlite3"}
    assert manage("migrate", "-v", "0", **settings).returncode == 0
    plant = (
        "from django.contrib.auth.models import User; from chatsite.chat.models import Message, Thread\n"
        "thread = Thread.objects.create(owner=User.objects.create_user('ada'))\n"
        "Message.objects.bulk_create(Message(thread=thread, public_id=str(number), role='user', text='secret word')"
        " for number in range(60000))"
    )
    assert manage("shell", "-c", plant, **settings).returncode == 0
    arguments = [sys.executable, "manage.py", "erase_user", "ada", "--reason", "She asked for it."]
    process = subprocess.Popen(
        arguments, cwd=ROOT, env=environment(**settings), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stderr.readline()  # the first line of its progress: it is in the middle
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    again = manage("erase_user", "ada", "--reason", "Again.", **settings)
    assert again.returncode == 0, again.stderr
    rows = json.loads(again.stdout)["document"]["rows"]["chat.Message"]
    assert rows == {"before": 60_000, "after": 0}
    assert manage("verify_audit", **settings).returncode == 0
    content = b"".join(path.read_bytes() for path in tmp_path.glob("db.sqlite3*"))
    assert b"secret word" not in content


# -- in the admin --------------------------------------------------------------------------------------------


def test_an_administrator_erases_with_a_reason_and_sees_the_proof(root, ada, thread_of):
    thread_of(ada)
    page = reverse("admin:care_erasure_add")
    assert "There is no such user." in root.post(page, {"user": "eve", "reason": "x"}).text
    assert "required" in root.post(page, {"user": "ada", "reason": ""}).text
    assert "This is you." in root.post(page, {"user": "root", "reason": "x"}).text
    assert User.objects.count() == 2
    shown = root.post(page, {"user": "ada", "reason": "She asked for it."}, follow=True)
    assert "The user was erased" in shown.text
    assert Erasure.objects.get().proof["sha256"] in shown.text
    assert [entry.actor_name for entry in Entry.objects.all()] == ["root", "root"]


def test_staff_without_the_permission_erases_nobody(ada):
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_erasure"))
    client = Client()
    client.force_login(clerk)
    page = reverse("admin:care_erasure_add")
    assert client.post(page, {"user": "ada", "reason": "x"}).status_code == 403
    assert User.objects.filter(username="ada").exists()


def act(client: Client, action: str, of: str, *chosen: int, **more: str):
    sent = {"action": action, "_selected_action": chosen, **more}
    return client.post(reverse(f"admin:{of}_changelist"), sent, follow=True)


def test_people_are_erased_by_an_action_of_their_list_and_never_deleted(root, ada, bob, thread_of, held):
    thread_of(ada)
    held(bob)
    both = [ada.pk, bob.pk]
    assert "Reason" in act(root, "erase", "auth_user", *both).text
    assert User.objects.filter(pk__in=both).count() == 2
    shown = act(root, "erase", "auth_user", *both, confirmed="yes", reason="They left.").text
    assert "Nobody may erase this user" in shown
    assert [user.username for user in User.objects.filter(pk__in=both)] == ["bob"]
    assert Erasure.objects.get().proof["document"]["reason"] == "They left."
    answer = root.post(reverse("admin:auth_user_delete", args=[bob.pk]), {"post": "yes"})
    assert answer.status_code == 403


def test_a_clerk_erases_no_superuser(db, ada):
    User.objects.create_superuser("root")
    second = User.objects.create_superuser("second")
    ada.is_staff = True
    ada.save()
    ada.user_permissions.add(
        *Permission.objects.filter(codename__in=["view_user", "add_erasure", "add_hold"])
    )
    client = Client()
    client.force_login(ada)
    shown = act(client, "erase", "auth_user", second.pk, confirmed="yes", reason="x").text
    assert "Only an administrator who may do everything" in shown
    assert User.objects.filter(username="second", is_active=True).exists()


def test_threads_are_erased_by_an_action_unless_somebody_holds_them(root, ada, thread_of, held):
    gone, kept = thread_of(ada), thread_of(ada)
    held(ada, kept.public_id)
    shown = act(root, "erase", "chat_thread", gone.pk, kept.pk, confirmed="yes", reason="A mistake.").text
    assert f"{kept.public_id[1:]}: Somebody holds it" in shown  # a page begins its messages with a capital
    assert organizing.remove_deleted()
    assert [thread.pk for thread in Thread.objects.all()] == [kept.pk]
    entry = Entry.objects.get(action="thread.erased")
    assert (entry.subject, entry.reason) == (f"user ada, thread {gone.public_id}", "A mistake.")
