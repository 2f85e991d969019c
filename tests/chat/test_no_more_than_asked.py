"""A door takes the fields it has, by name. Whatever else is sent along with them is no field of a row."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from agent.providers.scripted import Turn
from chatsite.chat import db
from chatsite.chat.models import Attachment, Preset, Run, Share, Thread
from tests.chat.test_api import body, post

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

MODELS = (Thread, Run, Share, Preset, Attachment)
PLANTED = "planted-by-whoever-asks"


@pytest.fixture
def others(stranger: User) -> dict[str, str]:
    """A value for every field of every row that these doors write, and for what Django calls it."""
    Group.objects.create(pk=7, name="team")
    fields = {field.name: field for model in MODELS for field in model._meta.get_fields() if field.concrete}
    values: dict[str, str] = {}
    for name, field in fields.items():
        match field.get_internal_type():
            case "ForeignKey" | "ManyToManyField":
                values |= {name: str(stranger.pk), f"{name}_id": str(stranger.pk)}
            case "DateTimeField":
                values[name] = "2020-01-01T00:00:00Z"
            case "BooleanField":
                values[name] = "true"
            case "CharField" | "TextField":
                values[name] = PLANTED
            case _:
                values[name] = "7"
    return values | {"groups": "7", "user": str(stranger.pk), "pk": "7"}


def planted(kept: Any) -> list[str]:
    """Which of the row's fields hold what was sent along."""
    row = {field.attname: getattr(kept, field.attname) for field in kept._meta.concrete_fields}
    return [name for name, value in row.items() if PLANTED in str(value) or "2020-01-01" in str(value)]


async def test_the_forms_of_the_page_write_their_own_fields_alone(person, client_of, plays, settled, others):
    plays(Turn("Hi."), Turn("Hi."))
    client = await db.read(client_of, person)
    own = {"text", "client_id", "model", "preset", "attachment", "title", "name"}
    more = {name: value for name, value in others.items() if name not in own}
    await client.post("/threads/", {**more, "text": "Hello"})
    await settled()
    thread = await db.read(Thread.objects.get)
    run = await db.read(Run.objects.get)
    address = f"/threads/{thread.public_id}"
    flags = ("pinned", "archived", "deleted")
    for path, form in (
        ("organize", {name: value for name, value in more.items() if name not in flags} | {"title": "Mine"}),
        ("share", {name: value for name, value in more.items() if name not in {"revoke", "days", "form"}}),
        ("settings", {**more, "do": "preset", "name": "mine"}),
    ):
        answer = await client.post(f"{address}/{path}", form)
        assert answer.status_code == 303, path
    rows = [await db.read(model.objects.get) for model in (Thread, Share, Preset)]
    assert {name: value for row in [*rows, run] for name in planted(row) for value in [type(row)]} == {}
    thread, share, preset = rows
    assert (thread.owner_id, share.created_by_id, preset.owner_id) == (person.pk,) * 3
    assert (share.thread_id, thread.title, preset.name) == (thread.pk, "Mine", "mine")
    assert not await db.read(preset.groups.exists)
    assert (run.thread_id, run.door) == (thread.pk, "page")


async def test_so_does_a_program_s_body(person, http, key, plays, settled, others):
    plays(Turn("Hi."))
    sent = body("Hello", forwardedProps={**others, "model": "", "choices": None})
    answer = await post(http, key, others | {"parentRunId": None} | sent)
    assert answer.status_code == 200, answer.text
    await settled()
    thread, run = await db.read(Thread.objects.get), await db.read(Run.objects.get)
    assert planted(thread) == planted(run) == []
    assert (thread.owner_id, thread.public_id, run.public_id, run.door) == (person.pk, "T1", "r1", "api")
    chosen = await post(http, key, body(run="r2", forwardedProps={"choices": {"system": "x", "owner": 1}}))
    assert chosen.status_code == 422
    assert "choices" in chosen.json()["error"]["message"]


async def test_a_file_is_its_senders_whatever_its_address_says(person, http, key, others, settings, tmp_path):
    settings.ATTACHMENTS_DIR = tmp_path
    more = "&".join(f"{name}={value}" for name, value in others.items() if name != "name")
    answer = await http.post(f"/api/attachments?{more}&name=a.txt", content=b"x", headers={"x-api-key": key})
    assert answer.status_code == 201
    row = await db.read(Attachment.objects.get)
    assert planted(row) == []
    assert (row.owner_id, row.name, row.mime_type, row.size) == (person.pk, "a.txt", "text/plain", 1)


@pytest.mark.parametrize("path", ["/api/chat", "/api/attachments?name=a.txt"])
async def test_a_body_that_is_packed_is_read_as_it_came(path, http, key, settings, tmp_path):
    """Nothing here unpacks what comes in, so no few bytes become many."""
    settings.ATTACHMENTS_DIR = tmp_path
    headers = {"x-api-key": key, "content-encoding": "gzip", "content-type": "application/json"}
    answer = await http.post(path, content=gzip.compress(json.dumps(body()).encode()), headers=headers)
    assert answer.status_code in {400, 422}
    assert not await db.read(Thread.objects.exists)
    assert not await db.read(Attachment.objects.exists)
