"""Everything of a person as one file, and nothing of anybody else."""

from __future__ import annotations

import hashlib
import io
import json
import tracemalloc
import zipfile
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import timezone

from chatsite.accounts import keys
from chatsite.audit import log
from chatsite.audit.models import Entry
from chatsite.care import downloads, exporting
from chatsite.care.models import Download
from chatsite.chat.files import attachments, disk
from chatsite.chat.models import Attachment, Preset
from chatsite.chat.transfer import shape
from chatsite.gateway.models import Exchange, ExchangeCall, Round
from tests.words import says


@pytest.fixture
def rich(ada, bob, thread_of):
    """Ada and Bob with the same things, each with the name in them."""
    for person in (ada, bob):
        thread = thread_of(person, title=f"Thread of {person}")
        draft = disk.draft_of(f"a text of {person}".encode(), "../../évil name.txt")
        with transaction.atomic():
            row = attachments.keep(person, draft)
        disk.in_place(draft)
        thread.attachments.add(row)
        Preset.objects.create(owner=person, name=f"preset of {person}")
        person.key = keys.new_api_key(person, label=f"key of {person}")
        exchange = Exchange.objects.create(
            public_id=f"e{person}", request_id="r", user=person, request=f"asked by {person}", cost="0.10"
        )
        Round.objects.create(exchange=exchange, number=1, response=f"said to {person}")
        ExchangeCall.objects.create(exchange_id=f"e{person}", call_id="c", name=f"tool for {person}")
        log.record("key.made", actor=person, subject=f"key of {person}")
        log.record("transcript.opened", subject=f"user {person}, thread x")
    return ada


def archive_of(user) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(b"".join(exporting.export(user))))


def test_all_that_is_theirs_is_in_it_and_nothing_of_anybody_else(rich):
    archive = archive_of(rich)
    assert archive.testzip() is None
    content = {name: archive.read(name).decode() for name in archive.namelist()}
    everything = "\n".join(content.values())
    for said in ("Thread of ada", "a text of ada", "preset of ada", "key of ada", "asked by ada", "said to ada",
                 "tool for ada", "transcript.opened", "ada@example.org"):  # fmt: skip
        assert said in everything, said
    assert not says(everything, "bob")
    assert rich.key not in everything
    assert rich.password not in everything


def test_a_thread_in_it_can_be_imported_again_and_read(rich):
    archive = archive_of(rich)
    file, text = sorted(name for name in archive.namelist() if name.startswith("threads/"))
    taken = shape.read_file(archive.read(file))
    assert [message.parts[0].text for message in taken.messages] == ["Will it rain?", "No."]
    assert "## Assistant\n\nNo." in archive.read(text).decode()


def test_its_manifest_is_true_and_no_name_leads_out_of_it(rich):
    archive = archive_of(rich)
    manifest = json.loads(archive.read("manifest.json"))
    assert {each["name"] for each in manifest} == set(archive.namelist()) - {"manifest.json"}
    for each in manifest:
        content = archive.read(each["name"])
        assert (len(content), hashlib.sha256(content).hexdigest()) == (each["bytes"], each["sha256"])
        assert ".." not in each["name"].split("/")
        assert each["name"].count("/") <= 1


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..\\..\\evil", "/etc/passwd", "C:evil", "..", "a\r\nb\0c", "\u202egnp"]
)
def test_whatever_a_file_is_called_its_name_is_one_step_of_a_path(rich, name):
    """Names are made safe when a file comes in; an archive is opened by programs that trust each name in it."""
    Attachment.objects.filter(owner=rich).update(name=name.replace("\0", ""))
    (found,) = [each for each in archive_of(rich).namelist() if each.startswith("attachments/")]
    step = found.removeprefix("attachments/")
    assert step.isprintable()
    assert not {"/", "\\", ":"} & set(step)
    assert not step.startswith(".")


def test_a_file_whose_bytes_are_gone_hinders_nothing(rich):
    disk.path_of(Attachment.objects.get(owner=rich).digest).unlink()
    archive = archive_of(rich)
    assert len([name for name in archive.namelist() if name.startswith("attachments/")]) == 1


@pytest.mark.slow
def test_what_is_much_is_written_while_it_is_read(ada):
    Exchange.objects.bulk_create(
        Exchange(public_id=f"e{number}", request_id="r", user=ada, request=f"{number} " * 4000)
        for number in range(1500)
    )
    tracemalloc.start()
    size = sum(map(len, exporting.export(ada)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 50_000
    assert most < 16 * 2**20, f"{most / 2**20:.0f} MB for 30 MB of exchanges"


def test_the_command_writes_the_whole_file_or_none(rich, tmp_path, capsys):
    file = tmp_path / "ada.zip"
    call_command("export_user", "ada", "-o", str(file))
    assert zipfile.ZipFile(file).testzip() is None
    assert file.stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["ada.zip"]
    assert Entry.objects.filter(action="user.exported", door="command", subject="user ada").exists()
    with pytest.raises(CommandError, match="cannot be written"):
        call_command("export_user", "ada", "-o", str(tmp_path / "no" / "ada.zip"))
    with pytest.raises(CommandError, match="no user"):
        call_command("export_user", "eve", "-o", str(file))


# -- a person's own door -------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
async def test_a_person_takes_their_own_data_out(rich):
    client = AsyncClient()
    await client.aforce_login(rich)
    page = await client.get(reverse("my_data"))
    assert page.status_code == 200
    answer = await client.post(reverse("my_data"))
    assert answer["Content-Disposition"].startswith('attachment; filename="threadloom-')
    content = b"".join([piece async for piece in answer.streaming_content])
    archive = zipfile.ZipFile(io.BytesIO(content))
    assert json.loads(archive.read("account.json"))["username"] == "ada"
    entry = await Entry.objects.aget(action="user.exported")
    assert (entry.actor_name, entry.door, entry.subject) == ("ada", "page", "user ada")
    assert not await Download.objects.aexists()
    await sync_to_async(connections.close_all)()  # of the thread in which views ran


def test_who_is_not_signed_in_is_sent_to_do_so(db):
    answer = Client().post(reverse("my_data"))
    assert answer.status_code == 302
    assert "/accounts/login/" in answer["Location"]
    assert not Entry.objects.exists()


def test_one_archive_at_a_time_whichever_process_makes_it(ada):
    client = Client()
    client.force_login(ada)
    later = timezone.now() + timedelta(seconds=30)
    Download.objects.create(user=ada, place=2, until=later)  # by another process
    answer = client.post(reverse("my_data"))
    assert (answer.status_code, answer["Retry-After"]) == (429, "60")
    assert not Entry.objects.filter(action="user.exported").exists()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ada)
    assert strict.post(reverse("my_data")).status_code == 403


@pytest.mark.django_db(transaction=True)
async def test_two_clicks_make_one_archive(rich):
    """The second comes before anything of the first was read; the first is whole, and then there may be another."""
    client = AsyncClient()
    await client.aforce_login(rich)
    first, second = await client.post(reverse("my_data")), await client.post(reverse("my_data"))
    assert (first.status_code, second.status_code) == (200, 429)
    content = b"".join([piece async for piece in first.streaming_content])
    assert zipfile.ZipFile(io.BytesIO(content)).testzip() is None
    assert await Entry.objects.filter(action="user.exported").acount() == 1
    await Download.objects.acreate(
        user=rich, place=0, until=timezone.now() - timedelta(seconds=1)
    )  # never began
    third = await client.post(reverse("my_data"))
    assert third.status_code == 200
    assert [piece async for piece in third.streaming_content]
    await sync_to_async(connections.close_all)()  # of the thread in which views ran


def test_no_more_archives_at_once_than_there_are_places(ada, bob):
    claims = [downloads.claim(User.objects.create_user(f"p{each}")) for each in range(downloads.MOST_AT_ONCE)]
    assert None not in claims
    assert downloads.claim(ada) is None
    assert [*downloads.held(iter_of(b"all"), claims[2])] == [b"all"]
    assert downloads.claim(ada) is not None
    assert downloads.claim(bob) is None


def test_who_reads_on_holds_the_place_and_one_that_was_taken_over_is_left_alone(ada):
    claimed = downloads.claim(ada)
    reading = downloads.held(iter_of(b"a", b"b"), claimed)
    Download.objects.update(until=timezone.now() + timedelta(seconds=20))
    next(reading)
    assert Download.objects.get().until > timezone.now() + timedelta(seconds=30)
    Download.objects.update(until=timezone.now() - timedelta(seconds=1))  # it was not read for long
    other = downloads.claim(ada)
    assert list(reading) == [b"b"]
    assert Download.objects.get().pk == other


def iter_of(*pieces: bytes):
    yield from pieces


def test_an_administrator_takes_a_persons_data_out_with_a_reason(rich, root):
    sent = {"action": "export", "_selected_action": rich.pk}
    page = reverse("admin:auth_user_changelist")
    assert "Reason" in root.post(page, sent).text
    answer = root.post(page, {**sent, "confirmed": "yes", "reason": "She asked for it."})
    assert answer["Content-Type"] == "application/zip"
    entry = Entry.objects.get(action="user.exported")
    assert (entry.actor_name, entry.subject, entry.reason) == ("root", "user ada", "She asked for it.")
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_user"))
    client = Client()
    client.force_login(clerk)
    refused = client.post(page, {**sent, "confirmed": "yes", "reason": "x"})
    assert refused["Content-Type"] != "application/zip"
    assert Entry.objects.filter(action="user.exported").count() == 1
