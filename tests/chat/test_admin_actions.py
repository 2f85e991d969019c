"""What an admin may do: stop another's run, take a thread or a list along as a file. Each is on record."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import zipfile

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import AsyncClient, Client
from django.urls import reverse

from agent.providers.scripted import Turn
from chatsite.audit.models import Entry
from chatsite.chat import commands, db
from chatsite.chat.admin import exports
from chatsite.chat.commands.values import Send
from chatsite.chat.models import Message, Run, Thread
from chatsite.chat.transfer import moving, shape
from tests.chat.conftest import row_of, until
from tests.chat.test_admin import listing, logged_in, page, transcript, weather

WHY = "It has been at it for an hour."


@pytest.fixture
def clerk() -> User:
    clerk = User.objects.create_user("clerk", password="a long enough secret", is_staff=True)
    names = ["view_thread", "view_run", "view_message", "view_toolcall"]
    clerk.user_permissions.set(Permission.objects.filter(codename__in=names))
    return clerk


def allowed(clerk: User, name: str) -> Client:
    clerk.user_permissions.add(Permission.objects.get(codename=name))
    return logged_in(clerk)


def entries(action: str) -> list[tuple[str, str, str]]:
    rows = Entry.objects.filter(action=action).order_by("number")
    return [(row.actor_name, row.subject, row.reason) for row in rows]


def stop(client: Client, run: Run, **more: str):
    return client.post(listing("run"), {"action": "stop", "_selected_action": [run.pk], **more}, follow=True)


# -- stop ----------------------------------------------------------------------------------------------------


async def test_a_run_of_another_is_stopped_as_its_owner_would_and_that_is_on_record(
    person, clerk, plays, settled
):
    client = await db.write(allowed, clerk, "stop_run")
    plays(Turn("Word by word, and never an end. " * 50, gate=asyncio.Event(), delta_size=8))
    done = await commands.begin_thread(person, Send(text="Go"), door="page")
    await until(lambda: commands.runner.is_here(done.run.pk))
    at_the_door = sync_to_async(stop)  # the database's own threads are needed for what it does
    asked = await at_the_door(client, done.run)
    assert "Stop runs" in asked.text
    assert (await row_of(done.run)).state == "running"
    await at_the_door(client, done.run, confirmed="yes", reason=WHY)
    await settled()
    run = await row_of(done.run)
    assert (run.state, run.stop_reason) == ("cancelled", "cancelled")
    assert await db.read(entries, "run.stopped") == [("clerk", f"run {run.public_id}", WHY)]
    again = await at_the_door(client, done.run, confirmed="yes", reason=WHY)
    assert "It is over already." in again.text
    assert len(await db.read(entries, "run.stopped")) == 1


def test_to_stop_takes_a_permission_of_its_own(person, clerk):
    run = Run.objects.create(thread=Thread.objects.create(owner=person), state="running", owner="elsewhere")
    client = logged_in(clerk)
    assert '<option value="stop">' not in page(client, listing("run"))
    stop(client, run, confirmed="yes", reason=WHY)
    run.refresh_from_db()
    assert not run.stop_requested
    assert not entries("run.stopped")


# -- a thread as a file --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["json", "md"])
def test_a_thread_is_taken_along_by_whoever_may_read_it_with_a_reason(kind, person, clerk):
    thread = weather(person, title="=Weather")
    address = reverse("admin:chat_thread_export", args=[thread.pk, kind])
    assert logged_in(clerk).get(address).status_code == 403
    client = allowed(clerk, "view_transcript")
    assert "Wear a light" not in client.get(address).text
    answer = client.post(address, {"reason": WHY}, follow=True)
    assert "Wear a light" in answer.text
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="')
    assert "Weather" not in answer.headers["Content-Disposition"]
    if kind == "json":
        assert json.loads(answer.text)["title"] == "=Weather"
    (entry,) = Entry.objects.filter(action="transcript.opened")
    assert (entry.reason, entry.facts["page"]) == (WHY, f"export {kind}")
    assert address in page(client, transcript(thread))
    assert client.get(reverse("admin:chat_thread_export", args=[thread.pk, "exe"])).status_code == 404


def taken(client: Client, threads: list[Thread], **more: str):
    chosen = [thread.pk for thread in threads]
    return client.post(listing("thread"), {"action": "export", "_selected_action": chosen, **more})


def test_several_threads_are_taken_along_as_one_archive_that_can_be_imported(person, stranger, clerk):
    threads = [weather(person), weather(stranger, title="Other")]
    own = weather(clerk, title="My own")
    client = allowed(clerk, "view_transcript")
    asked = taken(client, [*threads, own])
    assert "It is kept in the audit log." in asked.text
    assert all(thread.public_id in asked.text for thread in threads)
    assert "Export threads" in taken(client, threads, confirmed="yes", reason=" ").text
    assert not entries("transcript.opened")
    answer = taken(client, [*threads, own], confirmed="yes", reason=WHY)
    assert entries("transcript.opened") == [
        ("clerk", f"thread {thread.public_id}", WHY) for thread in threads
    ]
    assert answer.headers["Content-Type"] == "application/zip"
    pieces = exports.zipped_files([thread.pk for thread in (*threads, own)])
    archive = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert archive.testzip() is None
    files = [archive.read(name) for name in archive.namelist() if name != "manifest.json"]
    assert [json.loads(file)["title"] for file in files] == ["Weather", "Other", "My own"]
    for file in files:
        again = moving.take_in(person, shape.read_file(file.decode()))
        assert json.loads(moving.file_of(again).as_json()) == json.loads(file)


@pytest.mark.django_db(transaction=True)
async def test_the_archive_comes_piece_by_piece(person, clerk):
    thread = await sync_to_async(weather)(person)
    await sync_to_async(allowed)(clerk, "view_transcript")
    client = AsyncClient()
    await client.aforce_login(clerk)
    chosen = {"action": "export", "_selected_action": [thread.pk], "confirmed": "yes", "reason": WHY}
    answer = await client.post(listing("thread"), chosen)
    content = b"".join([piece async for piece in answer.streaming_content])
    (name, _manifest) = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert name.endswith(".json")
    await sync_to_async(connections.close_all)()  # of the thread in which views ran


def test_threads_are_taken_along_by_who_may_read_them_alone(person, clerk):
    thread = weather(person)
    client = logged_in(clerk)
    assert '<option value="export">' not in page(client, listing("thread"))
    answer = taken(client, [thread], confirmed="yes", reason=WHY)
    assert answer.headers["Content-Type"] != "application/zip"
    assert not entries("transcript.opened")


# -- lists as CSV --------------------------------------------------------------------------------------------


def table(client: Client, model: str, pks: list[int]) -> list[list[str]]:
    answer = client.post(listing(model), {"action": "as_csv", "_selected_action": pks})
    assert answer.headers["Content-Type"].startswith("text/csv")
    return list(csv.reader(io.StringIO(answer.text)))


def test_a_list_is_had_as_csv_without_what_the_person_may_not_see(person, clerk):
    thread = weather(person, title='=HYPERLINK("http://evil")')
    client = logged_in(clerk)
    head, row = table(client, "run", [thread.runs.get().pk])
    assert {"User", "State", "Stop reason", "Tokens"} <= {name.capitalize() for name in head}
    assert {"ada", "cut off by the output limit", "fox-1"} <= set(row)
    assert not any("HYPERLINK" in cell for cell in row)
    messages = table(client, "message", list(Message.objects.values_list("pk", flat=True)))
    assert len(messages) == 5
    assert not any("light" in cell for row in messages for cell in row)
    client = allowed(clerk, "view_transcript")
    _, row = table(client, "thread", [thread.pk])
    assert row[0].startswith("'=HYPERLINK")
    said = [(row.actor_name, row.subject, row.facts) for row in Entry.objects.filter(action="list.exported")]
    assert ("clerk", "chat.Message", {"rows": 4}) in said


def test_nobody_gets_a_list_that_they_may_not_see(person, clerk):
    clerk.user_permissions.clear()
    weather(person)
    answer = logged_in(clerk).post(
        listing("run"), {"action": "as_csv", "_selected_action": [Run.objects.get().pk]}
    )
    assert answer.status_code == 403
