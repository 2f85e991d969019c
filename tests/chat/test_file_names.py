"""Whatever a file or a thread is called: it is the name of one download, and nothing else of its answer.

Names are made safe when they come in. What is tested here is the way out alone, so the rows hold names that no door
would take: of an import of tomorrow, of a database of yesterday.
"""

from __future__ import annotations

from collections.abc import Iterable
from email.message import Message

import pytest
from django.test import AsyncClient, Client
from django.urls import reverse

from agent.providers.scripted import Turn
from chatsite.chat import commands, db
from chatsite.chat.actions import organizing
from chatsite.chat.commands.values import Send
from chatsite.chat.models import Attachment, Thread
from tests.chat.test_attachments import given, now

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

NAMES = [
    "plain.txt",
    "日本語.txt",
    "naïve € name.txt",
    'a"; filename="evil.exe',
    "a\r\nSet-Cookie: stolen=1\r\n\r\n<script>alert(1)</script>",
    "a\nb",
    "a\\",
    "../../etc/passwd",
    "..\\..\\evil.exe",
    "a; b=c",
    "%0d%0aX-Evil: 1",
    "\u202etxt.exe",
    "a\u2028b",
]


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.ATTACHMENTS_DIR = tmp_path / "attachments"
    settings.ATTACHMENTS_PER_MESSAGE = len(NAMES)


@pytest.fixture
async def files(person, http, key, plays, settled) -> tuple[Thread, dict[str, str]]:
    """A thread with a file of each name: id -> name."""
    plays(Turn("I see."))
    ids = [await given(http, key, f"file {number}".encode(), "a.txt") for number, _ in enumerate(NAMES)]
    done = await commands.begin_thread(person, Send(text="Look", attachments=ids), door="page")
    await settled()
    named = dict(zip(ids, NAMES, strict=True))
    for id, name in named.items():
        await db.write(Attachment.objects.filter(public_id=id).update, name=name)
    return done.thread, named


def said_of(headers: Iterable[tuple[str, str]]) -> str:
    """The name that the one header says, which holds one line and makes a download of it."""
    told = [(name.lower(), value) for name, value in headers]
    assert not {"set-cookie", "x-evil"} & {name for name, _ in told}
    [disposition] = [value for name, value in told if name == "content-disposition"]
    assert disposition.isprintable()
    assert disposition.isascii()
    read = Message()
    read["Content-Disposition"] = disposition
    assert read.get_content_disposition() == "attachment"
    assert {name for name, _ in read.get_params(header="Content-Disposition")} == {"attachment", "filename"}
    return str(read.get_filename())


async def test_a_name_is_the_whole_name_of_a_download_at_each_door(files, http, key, person, client_of):
    thread, named = files
    link = await db.write(organizing.share, thread=await now(thread), by=person)
    mine, anybody = await db.read(client_of, person), AsyncClient()
    for id, name in named.items():
        path = f"/threads/{thread.public_id}/attachments/{id}"
        before_django = await http.get(path, headers={"x-api-key": key})
        behind_it, shared = await mine.get(path), await anybody.get(f"/s/{link.token}/attachments/{id}")
        assert said_of(before_django.headers.multi_items()) == name
        for answer in (behind_it, shared):
            assert answer.status_code == 200
            assert said_of(answer.headers.items()) == name


async def test_it_is_so_in_the_admin_too(files, person):
    thread, named = files
    person.is_staff = person.is_superuser = True
    await db.write(person.save)

    def looked_at() -> list[str]:
        client = Client()
        client.force_login(person)
        pages = [reverse("admin:chat_thread_attachment", args=[thread.pk, id]) for id in named]
        return [said_of(client.get(page).headers.items()) for page in pages]

    assert await db.read(looked_at) == list(named.values())


@pytest.mark.parametrize("id", ['T"; filename="evil.exe', "T\u00e9\u202e", "T%0d%0a", ".."])
async def test_an_export_is_called_by_letters_and_digits_of_whatever_the_thread_is_called(files, person, id):
    thread, _ = files
    person.is_staff = person.is_superuser = True
    await db.write(person.save)
    await db.write(Thread.objects.filter(pk=thread.pk).update, public_id=id, title=f"{id}\r\nX-Evil: 1")

    def export() -> str:
        client = Client()
        client.force_login(person)
        answer = client.get(reverse("admin:chat_thread_export", args=[thread.pk, "md"]))
        return said_of(answer.headers.items())

    name = await db.read(export)
    assert name.isascii()
    assert name.removesuffix(".md").replace("-", "").isalnum()
