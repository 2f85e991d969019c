"""Statements built once: what they write is what the ORM would have written."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.forms import model_to_dict

from chatsite.chat.models import Message, Run, RunEvent, Thread, ToolCall
from chatsite.chat.rows import statements

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
ODD = {"quote": "'; -- %s \"", "list": [1, None, True, "ü"], "empty": {}}


@pytest.fixture
def thread():
    owner = get_user_model().objects.create_user("ada")
    return Thread.objects.create(owner=owner, public_id="t-1")


def message(thread, id, **extra):
    return Message(
        public_id=id, thread=thread, role="user", parts=[ODD], text="50 % of 'it'", created_at=AT, **extra
    )


def columns(row):
    row.refresh_from_db()
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return {name: value for name, value in values.items() if name not in {"id", "public_id"}}


def test_an_inserted_row_is_the_one_that_save_would_have_made(thread):
    ours, theirs = message(thread, "m-1", metadata=ODD), message(thread, "m-2", metadata=ODD)
    statements.insert(ours)
    theirs.save(force_insert=True)
    assert ours.pk != theirs.pk
    assert columns(Message.objects.get(pk=ours.pk)) == columns(theirs)
    assert columns(ours)["parts"] == [ODD]


def test_an_inserted_row_can_be_changed_and_saved(thread):
    row = message(thread, "m-1")
    statements.insert(row)
    row.text = "other"
    row.save()
    assert list(Message.objects.values_list("pk", "text")) == [(row.pk, "other")]


def test_an_upsert_makes_what_is_not_there_and_changes_only_the_named_columns_of_what_is(thread):
    run = Run.objects.create(thread=thread)
    ToolCall.objects.create(run=run, call_id="c-1", name="first", state="proposed", arguments="{}")
    calls = [
        {"run_id": run.pk, "call_id": id, "name": "second", "state": "done", "result": "r", "finished_at": AT}
        for id in ("c-1", "c-2")
    ]
    statements.upsert(ToolCall, calls, unique=("run", "call_id"), update=("state", "result", "finished_at"))
    rows = ToolCall.objects.order_by("pk").values_list(
        "call_id", "name", "state", "arguments", "result", "finished_at"
    )
    assert list(rows) == [
        ("c-1", "first", "done", "{}", "r", AT),
        ("c-2", "second", "done", "", "r", AT),
    ]


def test_a_change_sets_columns_of_one_row(thread):
    runs = [Run.objects.create(thread=thread, public_id=f"r-{n}", state="finished") for n in range(2)]
    changed = {"usage": [ODD], "finished_at": AT, "turns": 3}
    statements.change(Run, changed, runs[0].pk)
    runs[0].refresh_from_db()
    runs[1].refresh_from_db()
    assert model_to_dict(runs[0], changed) == {"usage": [ODD], "finished_at": AT, "turns": 3}
    assert (runs[1].usage, runs[1].finished_at, runs[1].turns) == ([], None, 0)


def test_what_is_held_is_told_and_what_is_not_there_is_left_out(thread):
    runs = [Run.objects.create(thread=thread, public_id=f"r-{n}", state="finished") for n in range(2)]
    found = statements.hold(Run, ("id", "state"), [runs[1].pk, runs[0].pk, 10**9])
    assert found == [(run.pk, "finished") for run in runs]


def test_what_goes_in_one_go_is_all_there_in_its_order(thread):
    run = Run.objects.create(thread=thread)
    events = [(run.pk, n, n, "CUSTOM", f'{{"n": {n}, "odd": "\'; -- %s"}}') for n in range(1, 1203)]
    keys = statements.keys(Message, 2)
    with statements.in_one_go():
        statements.add_many(RunEvent, ("run_id", "first", "number", "type", "data"), events)
        first = statements.add(Message, values_of(thread, "m-1"), next(keys))
        second = statements.add(Message, {**values_of(thread, "m-2"), "parent_id": first}, next(keys))
        statements.change(Thread, {"head": second}, thread.pk)
    thread.refresh_from_db()
    assert (thread.head.public_id, thread.head.parent.public_id, first < second) == ("m-2", "m-1", True)
    assert list(RunEvent.objects.order_by("number").values_list("number", flat=True)) == [
        n for _, n, *_ in events
    ]
    assert RunEvent.objects.get(number=7).data == {"n": 7, "odd": "'; -- %s"}
    again = message(thread, "m-3")
    again.save()
    assert again.pk > second, "keys that were taken beforehand are given to nobody else"


def test_an_error_of_what_goes_in_one_go_is_djangos_and_keeps_nothing(thread):
    run = Run.objects.create(thread=thread)
    with pytest.raises(IntegrityError), transaction.atomic(), statements.in_one_go():
        statements.change(Run, {"turns": 5}, run.pk)
        for _ in range(2):
            statements.append(ToolCall, {"run_id": run.pk, "call_id": "c-1", "name": "twice"})
    run.refresh_from_db()
    assert (run.turns, ToolCall.objects.count()) == (0, 0)


def values_of(thread, id):
    return {"public_id": id, "thread_id": thread.pk, "role": "user", "parts": [ODD], "created_at": AT}
