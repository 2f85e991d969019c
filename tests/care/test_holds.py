"""Nobody erases what is held, whoever asks and whatever rule says so."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db.models import ProtectedError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatsite.audit.models import Entry
from chatsite.care import holds
from chatsite.care.models import Hold
from chatsite.chat.care import upkeep
from chatsite.chat.files import attachments, disk
from chatsite.chat.models import Attachment, Message, Run, RunEvent, Thread
from chatsite.gateway import retention as exchanges
from chatsite.gateway.models import Exchange

LONG_AGO = timezone.now() - timedelta(days=4000)


def all_of_it() -> None:
    call_command("upkeep", verbosity=0)


def test_a_hold_is_in_the_audit_log_with_its_reason_and_its_end(ada, bob):
    hold = holds.place(user=ada, reason=" A case. ", actor=bob, door="admin")
    holds.lift(hold, reason="It is over.", actor=bob, door="admin")
    placed, lifted = Entry.objects.order_by("number")
    assert (placed.action, placed.subject, placed.reason, placed.actor_name) == (
        "hold.placed", "user ada", "A case.", "bob",
    )  # fmt: skip
    assert (lifted.action, lifted.reason) == ("hold.lifted", "It is over.")
    assert not Hold.objects.exists()


def test_no_reason_and_a_second_hold_are_refused(ada):
    with pytest.raises(holds.Refused, match="reason"):
        holds.place(user=ada, reason="  ")
    hold = holds.place(user=ada, reason="A case.")
    with pytest.raises(holds.Refused, match="already"):
        holds.place(user=ada, reason="Another case.")
    with pytest.raises(holds.Refused, match="reason"):
        holds.lift(hold, reason="")
    assert Entry.objects.count() == 1


@pytest.mark.parametrize("on", ["the person", "the thread"])
def test_what_is_held_outlives_its_deletion_and_every_rule_until_it_is_lifted(
    ada, bob, thread_of, held, on, settings
):
    settings.THREADS_KEEP_DAYS = 5
    kept, other, strangers = thread_of(ada, 100), thread_of(ada, 100), thread_of(bob, 100)
    Thread.objects.update(deleted_at=LONG_AGO)
    hold = held(ada, kept.public_id if on == "the thread" else "")
    all_of_it()
    left = set(Thread.objects.values_list("pk", flat=True))
    assert left == ({kept.pk} if on == "the thread" else {kept.pk, other.pk})
    assert Message.objects.filter(thread=kept).count() == 2
    assert strangers.pk not in left
    holds.lift(hold, reason="It is over.")
    all_of_it()
    assert not Thread.objects.exists()
    assert not Message.objects.exists()


def test_a_deleted_message_a_log_and_a_file_of_a_held_person_stay(ada, bob, thread_of, held):
    for who in (ada, bob):
        thread = thread_of(who)
        Message.objects.filter(thread=thread, public_id="m2").update(deleted_at=LONG_AGO)
        run = Run.objects.get(thread=thread)
        Run.objects.filter(pk=run.pk).update(log=Run.Log.FOLDED, finished_at=LONG_AGO)
        for number in (1, 2, 3):
            kind = "RUN_FINISHED" if number == 3 else "CUSTOM"
            RunEvent.objects.create(run=run, first=number, number=number, type=kind, data={})
        draft = disk.draft_of(b"a text", "a.txt")
        attachments.keep(who, draft)
        disk.in_place(draft)
    Attachment.objects.update(created_at=LONG_AGO)
    held(ada)
    all_of_it()
    assert set(Message.objects.filter(public_id="m2").values_list("thread__owner", flat=True)) == {ada.pk}
    assert RunEvent.objects.filter(run__thread__owner=ada).count() == 3
    assert RunEvent.objects.filter(run__thread__owner=bob).count() == 1
    assert [row.owner for row in Attachment.objects.all()] == [ada]


def test_exchanges_of_a_held_person_stay(ada, bob, held):
    for who in (ada, bob, None):
        Exchange.objects.create(public_id=f"e{who}", request_id="r", user=who, created_at=LONG_AGO)
    held(ada)
    exchanges.prune()
    assert [row.user for row in Exchange.objects.all()] == [ada]


def test_who_is_held_cannot_be_deleted_past_the_erasure_either(ada, thread_of, held):
    held(ada, thread_of(ada).public_id)
    with pytest.raises(ProtectedError):
        ada.delete()
    assert Thread.objects.exists()


def test_a_hold_is_placed_and_lifted_in_the_admin(root, ada):
    shown = root.get(reverse("admin:care_hold_add"), {"user": "ada"})
    assert 'value="ada"' in shown.text
    sent = {"user": "nobody", "thread": "", "reason": "A case."}
    assert "There is no such user." in root.post(reverse("admin:care_hold_add"), sent).text
    assert root.post(reverse("admin:care_hold_add"), {**sent, "user": "ada"}).status_code == 303
    hold = Hold.objects.get()
    assert (hold.user, hold.placed_by) == (ada, "root")
    chosen = {"action": "lift", "_selected_action": hold.pk}
    assert "Reason" in root.post(reverse("admin:care_hold_changelist"), chosen).text
    assert Hold.objects.exists()
    root.post(reverse("admin:care_hold_changelist"), {**chosen, "confirmed": "yes", "reason": "It is over."})
    assert not Hold.objects.exists()
    assert [entry.actor_name for entry in Entry.objects.all()] == ["root", "root"]


def test_threads_are_held_by_an_action_of_their_list(root, ada, thread_of):
    thread = thread_of(ada)
    sent = {"action": "hold", "_selected_action": thread.pk, "confirmed": "yes", "reason": "A case."}
    root.post(reverse("admin:chat_thread_changelist"), sent)
    assert (Hold.objects.get().user, Hold.objects.get().thread) == (ada, thread.public_id)
    again = root.post(reverse("admin:chat_thread_changelist"), sent, follow=True)
    assert "There is such a hold already" in again.text


def test_an_action_names_threads_by_their_ids_alone(root, ada, thread_of):
    """Staff that may not read what others wrote may hold it."""
    thread = thread_of(ada, title="A secret matter")
    shown = root.post(
        reverse("admin:chat_thread_changelist"), {"action": "hold", "_selected_action": thread.pk}
    )
    assert thread.public_id in shown.text
    assert "A secret matter" not in shown.text


def test_people_are_held_by_an_action_of_their_list(root, ada):
    sent = {"action": "hold", "_selected_action": ada.pk, "confirmed": "yes", "reason": "A case."}
    root.post(reverse("admin:auth_user_changelist"), sent)
    assert (Hold.objects.get().user, Hold.objects.get().thread) == (ada, "")


def test_staff_without_the_permission_places_and_lifts_none(ada, held):
    hold = held(ada)
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_hold"))
    client = Client()
    client.force_login(clerk)
    assert client.get(reverse("admin:care_hold_add")).status_code == 403
    sent = {"action": "lift", "_selected_action": hold.pk, "confirmed": "yes", "reason": "x"}
    client.post(reverse("admin:care_hold_changelist"), sent)
    assert Hold.objects.exists()


def test_upkeep_without_anything_to_do_ends(ada, held):
    held(ada)
    assert upkeep.step() is False
