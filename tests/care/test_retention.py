"""Threads and exchanges go when a rule says so, each person's by the rule of their group."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from chatsite.audit.models import Entry
from chatsite.chat.actions import organizing
from chatsite.chat.care import retention, upkeep
from chatsite.chat.files import attachments, disk
from chatsite.chat.models import Attachment, Message, Run, RunEvent, Share, Thread
from chatsite.chat.problems import Missing
from chatsite.chat.rows import search
from chatsite.gateway.models import Exchange, ExchangeCall
from chatsite.policies.models import GroupPolicy


def all_of_it() -> None:
    retention.walk.again()
    call_command("upkeep", verbosity=0)


def group_of(user, days: int | None) -> None:
    group = Group.objects.create(name=f"for {days} days")
    GroupPolicy.objects.create(group=group, retention_days=days)
    user.groups.add(group)


def titles() -> set[str]:
    return set(Thread.objects.filter(deleted_at=None).values_list("title", flat=True))


def test_without_a_rule_threads_stay_for_ever(ada, thread_of):
    thread_of(ada, 10_000)
    all_of_it()
    assert titles() == {"Weather"}
    assert not Entry.objects.exists()


def test_the_rule_of_a_group_goes_before_the_one_for_all(ada, bob, thread_of, settings):
    settings.THREADS_KEEP_DAYS = 30
    group_of(ada, 90)
    for owner in (ada, bob):
        for days in (29, 31, 91):
            thread_of(owner, days, f"{owner} {days}")
    all_of_it()
    assert titles() == {"ada 29", "ada 31", "bob 29"}
    said = [(entry.subject, entry.facts) for entry in Entry.objects.order_by("number")]
    assert said == [("user ada", {"threads": 1, "days": 90}), ("user bob", {"threads": 2, "days": 30})]


def test_a_group_alone_may_have_a_rule(ada, bob, thread_of):
    group_of(ada, 7)
    for owner in (ada, bob):
        thread_of(owner, 8, str(owner))
    all_of_it()
    assert titles() == {"bob"}


def test_all_that_belongs_to_a_thread_goes_with_it(ada, thread_of, settings):
    settings.THREADS_KEEP_DAYS = 5
    thread = thread_of(ada, 6)
    run = Run.objects.get(thread=thread)
    RunEvent.objects.create(run=run, first=1, number=1, type="CUSTOM", data={})
    organizing.share(thread=Thread.objects.get(), by=ada)
    draft = disk.draft_of(b"a text", "a.txt")
    row = attachments.keep(ada, draft)
    disk.in_place(draft)
    thread.attachments.add(row)
    Attachment.objects.update(created_at=timezone.now() - timedelta(days=6))
    assert search.find(ada.pk, "rain")
    path = disk.path_of(row.digest)
    assert path.exists()
    all_of_it()
    for model in (Thread, Run, RunEvent, Message, Share, Attachment):
        assert not model.objects.exists(), model
    assert not path.exists()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM chat_message_fts WHERE chat_message_fts MATCH 'rain'")
            assert cursor.fetchone() == (0,)


def test_a_thread_with_a_run_at_work_or_a_new_message_stays(ada, thread_of, settings):
    settings.THREADS_KEEP_DAYS = 5
    Run.objects.create(thread=thread_of(ada, 6, "at work"), state=Run.State.RUNNING)
    thread_of(ada, 4, "new")
    all_of_it()
    assert titles() == {"at work", "new"}


def test_it_can_be_stopped_anywhere_and_goes_on(ada, thread_of, settings, monkeypatch):
    monkeypatch.setattr(organizing, "ROWS_A_STEP", 1)
    settings.THREADS_KEEP_DAYS = 5
    thread = thread_of(ada, 6)
    steps = 0
    while Thread.objects.exists():
        retention.walk.again()  # each step in a process of its own, as if the one before had been killed
        upkeep.step()
        steps += 1
        assert titles() <= {"Weather"}
        if Thread.objects.filter(deleted_at=None).count() == 0:
            with pytest.raises(Missing):
                organizing.restore(ada, thread.public_id)
    assert steps > 3
    assert not Message.objects.exists()


def test_exchanges_and_their_calls_go_by_the_rule_of_a_group_where_it_is_shorter(ada, bob):
    from chatsite.accounts import keys
    from chatsite.accounts.models import ApiKey

    group_of(ada, 7)
    group_of(bob, 90)
    for who in (ada, bob):
        keys.new_api_key(who)
        for days in (6, 8, 29, 31):
            at = timezone.now() - timedelta(days=days)
            Exchange.objects.create(public_id=f"{who}{days}", request_id="r", user=who, created_at=at)
            ExchangeCall.objects.create(
                exchange_id=f"{who}{days}",
                call_id="c",
                name="t",
                claimed_at=at,
                key=ApiKey.objects.get(user=who),
            )
    all_of_it()
    left = {"ada6", "bob6", "bob8", "bob29"}
    assert set(Exchange.objects.values_list("public_id", flat=True)) == left
    assert set(ExchangeCall.objects.values_list("exchange_id", flat=True)) == left
