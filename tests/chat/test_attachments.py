"""Files of messages: taken by content, read by the model, seen by their owner alone, gone with their thread."""

from __future__ import annotations

import base64
import json
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient
from django.utils import timezone

from agent.messages import FilePart, ImagePart, TextPart
from agent.providers.scripted import Turn
from chatsite.asgi import application
from chatsite.chat import commands, db
from chatsite.chat.actions import organizing
from chatsite.chat.care import upkeep
from chatsite.chat.commands import values
from chatsite.chat.commands.values import Retry, Send
from chatsite.chat.files import attaching, attachments, disk, removing
from chatsite.chat.models import Attachment, Message, Thread
from chatsite.chat.problems import Invalid
from chatsite.chat.transfer import attached, moving, shape
from tests.chat.test_api import body, post
from tests.chat.test_doors import HTMX
from tests.chat.test_filetypes import PNG, SVG, ZIP
from tests.chat.test_runs import begin

# The first request of a fresh ASGI thread may open connections that the collector closes later.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

PDF = b"%PDF-1.7\n\xe2\xe3 a page"
CODE = b"def f():\n    return 1\n"


@pytest.fixture(autouse=True)
def folder(settings, tmp_path) -> Path:
    settings.ATTACHMENTS_DIR = tmp_path / "attachments"
    return settings.ATTACHMENTS_DIR


def on_disk(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


async def upload(http, key, content, name="a.png", **headers):
    return await http.post(
        "/api/attachments",
        params={"name": name},
        content=content,
        headers={"Authorization": f"Bearer {key}", **headers},
    )


async def given(http, key, content, name="a.png") -> str:
    response = await upload(http, key, content, name)
    assert response.status_code == 201, response.text
    return response.json()["id"]


@pytest.fixture
async def sent(person, http, key, plays, settled):
    """A thread whose only message has a picture, a PDF and code; and the model that answered."""
    provider = plays(Turn("I see."), Turn("Again."), Turn("More."))
    ids = [await given(http, key, *file) for file in ((PNG, "a.png"), (PDF, "b.pdf"), (CODE, "c.py"))]
    done = await commands.begin_thread(
        person, Send(text="Look", client_id="u1", attachments=ids), door="page"
    )
    await settled()
    return done.thread, provider, ids


# -- in ------------------------------------------------------------------------------------------------------


async def test_a_file_is_kept_under_its_content_outside_of_the_database(http, key, person, folder):
    response = await upload(http, key, PNG, "../photo\u202e.png")
    assert response.status_code == 201
    told = response.json()
    assert (told["name"], told["mimeType"], told["size"]) == ("photo.png", "image/png", len(PNG))
    row = await db.read(Attachment.objects.get, owner=person)
    assert on_disk(folder) == [folder / row.digest[:2] / row.digest]
    assert on_disk(folder)[0].read_bytes() == PNG
    assert on_disk(folder)[0].stat().st_mode & 0o077 == 0


async def test_the_same_file_again_is_the_same_one(http, key, folder):
    first, again = await given(http, key, PNG), await given(http, key, PNG)
    other = await given(http, key, PNG, "another name.png")
    assert first == again != other
    assert len(on_disk(folder)) == 1


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b"", "empty.png", "The file is empty"),
        (ZIP, "photo.png", "ZIP archive"),
        (b"\x00\x01\x02\xff" * 9, "notes.txt", "no kind that is taken"),
    ],
)
async def test_what_a_file_is_called_makes_it_no_other(http, key, folder, content, name, words):
    response = await upload(http, key, content, name)
    assert response.status_code == 422
    assert response.json()["error"]["code"] == "attachment_refused"
    assert words in response.json()["error"]["message"]
    assert name in response.json()["error"]["message"]
    assert on_disk(folder) == []
    assert not await db.read(Attachment.objects.exists)


async def test_a_picture_with_a_script_is_text(http, key):
    response = await upload(http, key, SVG, "icon.svg")
    assert response.json()["mimeType"] == "text/plain"


async def test_a_file_that_says_it_is_too_large_is_refused_unread(key, settings):
    settings.ATTACHMENT_MAX_MB = 0.001
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/attachments",
        "query_string": b"name=a.png",
        "headers": [(b"host", b"localhost"), (b"x-api-key", key.encode()), (b"content-length", b"209715200")],
    }
    sent = []

    async def receive():
        raise AssertionError("its body was read")

    async def send(message):
        sent.append(message)

    await application(scope, receive, send)
    assert sent[0]["status"] == 413
    assert "larger than 0.001 MB" in sent[1]["body"].decode()


async def test_a_file_that_grows_too_large_is_read_no_further(key, settings, folder):
    settings.ATTACHMENT_MAX_MB = 0.001
    read = 0
    sent = []

    async def receive():
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b"x" * 1000, "more_body": True}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode())]
    scope = {"type": "http", "method": "POST", "path": "/api/attachments", "query_string": b"name=a.txt"}
    await application({**scope, "headers": headers}, receive, send)
    assert sent[0]["status"] == 413
    assert read == 2
    assert on_disk(folder) == []


async def test_of_a_connection_that_is_lost_at_60_percent_nothing_stays(key, folder):
    messages = [
        {"type": "http.request", "body": PNG[: len(PNG) * 6 // 10], "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    size = str(len(PNG)).encode()
    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode()), (b"content-length", size)]
    scope = {"type": "http", "method": "POST", "path": "/api/attachments", "query_string": b"name=a.png"}
    await application({**scope, "headers": headers}, receive, send)
    assert sent == []
    assert on_disk(folder) == []
    assert not await db.read(Attachment.objects.exists)


async def test_text_is_taken_up_to_what_a_model_reads(http, key, settings):
    settings.ATTACHMENT_TEXT_MAX_KB = 1
    response = await upload(http, key, b"x" * 2000, "log.txt")
    assert response.status_code == 413
    assert "up to 1 KB" in response.json()["error"]["message"]


async def test_a_person_has_so_much_room_and_no_more(http, key, settings, person, folder):
    settings.ATTACHMENTS_TOTAL_MB = 100 / 2**20
    await given(http, key, PNG)
    response = await upload(http, key, PNG + b"another one, which is too much in all" + b"x" * 20)
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "attachments_full"
    assert len(on_disk(folder)) == 1


async def test_nobody_uploads_without_a_key_or_a_session(http, folder, key):
    assert (await upload(http, "tl-made-up", PNG)).status_code == 401
    response = await http.post("/api/attachments?name=a.png", content=PNG)
    assert response.status_code == 401
    assert (await http.get("/api/attachments", headers={"x-api-key": key})).status_code == 405
    assert (await http.post("/api/attachments", content=PNG, headers={"x-api-key": key})).status_code == 422
    assert on_disk(folder) == []


async def test_a_session_needs_its_csrf_token(http, person, client_of, folder):
    client = await db.read(client_of, person)
    session = client.cookies["threadloom_session"].value
    token = "a" * 32

    async def post(cookies: str, **more: str):
        headers = {"Cookie": f"threadloom_session={session}; {cookies}", **more}
        return await http.post("/api/attachments?name=a.png", content=PNG, headers=headers)

    without = await post("")
    elsewhere = await post(f"csrftoken={token}", **{"Origin": "http://evil.example", "X-CSRFToken": token})
    for refused in (without, elsewhere):
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "csrf"
    assert on_disk(folder) == []
    taken = await post(f"csrftoken={token}", **{"Origin": "http://localhost", "X-CSRFToken": token})
    assert taken.status_code == 201, taken.text


async def test_other_requests_are_bounded_too(http):
    response = await http.post("/import", content=b"", headers={"Content-Length": str(200 * 2**20)})
    assert response.status_code == 413


# -- to the model --------------------------------------------------------------------------------------------


def what_was_read(provider, number=-1):
    return next(message for message in provider.requests[number].transcript if message.role == "user").parts


async def test_rows_hold_references_and_the_model_gets_the_bytes(sent):
    thread, provider, ids = sent
    row = await db.read(Message.objects.get, thread=thread, role="user")
    assert [part.get("url") for part in row.parts] == [*(f"attachment:{id}" for id in ids), None]
    assert "data" not in json.dumps(row.parts)
    picture, document, code, text = what_was_read(provider)
    assert picture == ImagePart("image/png", base64.b64encode(PNG).decode(), name="a.png")
    assert document == FilePart("document", "application/pdf", base64.b64encode(PDF).decode(), name="b.pdf")
    assert code == TextPart("c.py:\n\n```python\ndef f():\n    return 1\n\n```")
    assert text == TextPart("Look")


async def test_a_retry_and_a_later_turn_read_the_same(sent, person, settled):
    thread, provider, _ = sent
    await commands.perform(person, thread.public_id, Retry(), door="page")
    await settled()
    await commands.perform(person, thread.public_id, Send(text="And now?"), door="page")
    await settled()
    assert len(provider.requests) == 3
    assert what_was_read(provider, 0) == what_was_read(provider, 1) == what_was_read(provider, 2)


async def test_files_need_no_words(person, http, key, plays, settled):
    provider = plays(Turn("I see."))
    ids = [await given(http, key, PNG)]
    done = await commands.begin_thread(person, Send(text="", attachments=ids), door="page")
    await settled()
    assert [type(part) for part in what_was_read(provider)] == [ImagePart]
    assert (await db.read(Thread.objects.get, pk=done.thread.pk)).title == "a.png"


async def test_a_file_that_is_gone_is_said_to_be(sent, person, settled, folder):
    thread, provider, _ = sent
    for path in on_disk(folder):
        path.unlink()
    await commands.perform(person, thread.public_id, Retry(), door="page")
    await settled()
    assert what_was_read(provider)[0] == TextPart("[The file a.png cannot be shown here.]")


async def test_the_newest_files_that_fit_go_along(sent, person, http, key, settled, monkeypatch):
    thread, provider, _ = sent
    monkeypatch.setattr(attaching, "SENT_AT_ONCE", len(PNG) + 5)
    newer = await given(http, key, PNG + b"newer")
    await commands.perform(person, thread.public_id, Send(text="This", attachments=[newer]), door="page")
    await settled()
    users = [message for message in provider.requests[-1].transcript if message.role == "user"]
    assert isinstance(users[1].parts[0], ImagePart)
    assert "is left out" in users[0].parts[0].text


async def test_a_model_that_takes_no_images_is_not_sent_any(sent, person, http, key, settled, settings):
    thread, provider, _ = sent
    settings.MODEL_FACTS = {"demo": {"images": False}}
    newer = await given(http, key, PNG + b"newer")
    with pytest.raises(disk.Unattached, match="takes no images"):
        send = Send(text="This", attachments=[newer])
        await commands.perform(person, thread.public_id, send, door="page")
    # What came before it, when another model was asked, must not stand in the way for ever.
    await commands.perform(person, thread.public_id, Send(text="Go on"), door="page")
    await settled()
    picture, document, *_ = what_was_read(provider)
    assert picture == TextPart("[The file a.png cannot be shown here.]")
    assert isinstance(document, FilePart)


async def test_a_message_takes_only_files_of_its_sender(person, http, key, plays, stranger):
    plays(Turn("No."))
    id = await given(http, key, PNG)
    for ids in ([id], ["made-up"], [f"attachment:{id}"]):
        with pytest.raises(disk.Unattached, match="not here any more"):
            await commands.begin_thread(stranger, Send(text="x", attachments=ids), door="page")
    assert not await db.read(Thread.objects.exists)


async def test_a_message_takes_so_many_files(person, http, key, plays, settings):
    plays()
    settings.ATTACHMENTS_PER_MESSAGE = 1
    ids = [await given(http, key, PNG), await given(http, key, CODE, "c.py")]
    with pytest.raises(disk.Unattached, match="at most 1 files"):
        await commands.begin_thread(person, Send(text="x", attachments=ids), door="page")


async def test_the_same_send_again_finds_the_first_and_another_file_is_another(sent, person, http, key):
    thread, _, ids = sent
    again = Send(text="Look", client_id="u1", attachments=ids)
    assert not (await commands.perform(person, thread.public_id, again, door="page")).fresh
    other = Send(text="Look", client_id="u1", attachments=ids[:1])
    with pytest.raises(Exception, match="sent already"):
        await commands.perform(person, thread.public_id, other, door="page")


# -- by programs ---------------------------------------------------------------------------------------------


async def test_files_in_a_posted_message_are_kept_like_uploads(http, key, plays, settled, person):
    provider = plays(Turn("I see."), Turn("Again."))
    content = [
        {"type": "text", "text": "Look"},
        {
            "type": "image",
            "source": {"type": "data", "value": base64.b64encode(PNG).decode(), "mimeType": "image/jpeg"},
        },
        {
            "type": "document",
            "source": {"type": "url", "value": f"data:text/x-py;base64,{base64.b64encode(CODE).decode()}"},
            "metadata": {"name": "../c.py"},
        },
    ]
    messages = [{"id": "u1", "role": "user", "content": content}]
    response = await post(http, key, body(messages=messages))
    await settled()
    assert response.status_code == 200
    row = await db.read(Message.objects.get, role="user")
    assert "data" not in json.dumps(row.parts)
    assert what_was_read(provider)[1] == ImagePart(
        "image/png", base64.b64encode(PNG).decode(), name="file.png"
    )
    assert what_was_read(provider)[2].text.startswith("c.py:")
    restored = (await http.get("/api/chat?threadId=T1", headers={"x-api-key": key})).json()
    address = restored["messages"][0]["parts"][1]["source"]["value"]
    assert address.startswith("/threads/T1/attachments/")
    assert (await http.get(address, headers={"x-api-key": key})).content == PNG
    again = await post(http, key, body(messages=messages, run="r2"))
    await settled()
    assert again.status_code == 200
    assert await db.read(Attachment.objects.count) == 2
    assert what_was_read(provider, 0) == what_was_read(provider, 1)


async def test_a_posted_file_that_is_not_taken_begins_nothing(http, key, plays, folder):
    plays()
    source = {"type": "data", "value": base64.b64encode(ZIP).decode(), "mimeType": "image/png"}
    content = [{"type": "image", "source": source}]
    response = await post(http, key, body(messages=[{"id": "u1", "role": "user", "content": content}]))
    assert response.status_code == 422
    assert "ZIP archive" in response.json()["error"]["message"]
    assert not await db.read(Thread.objects.exists)
    assert on_disk(folder) == []


async def test_a_reference_from_outside_is_none(http, key, plays, person):
    plays()
    id = await given(http, key, PNG)
    content = [{"type": "image", "source": {"type": "url", "value": f"attachment:{id}"}}]
    response = await post(http, key, body(messages=[{"id": "u1", "role": "user", "content": content}]))
    assert response.status_code == 422


# -- out -----------------------------------------------------------------------------------------------------


async def test_a_file_goes_to_its_owner_as_a_download_that_nothing_runs(sent, http, key):
    thread, _, ids = sent
    response = await http.get(f"/threads/{thread.public_id}/attachments/{ids[0]}", headers={"x-api-key": key})
    assert response.status_code == 200
    assert response.content == PNG
    assert response.headers["content-type"] == "image/png"
    assert response.headers["content-disposition"] == 'attachment; filename="a.png"'
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in response.headers["content-security-policy"]
    assert "private" in response.headers["cache-control"]


async def test_hypertext_and_scripts_go_out_as_plain_text(person, http, key, plays, settled):
    plays(Turn("I see."))
    id = await given(http, key, b"<script>alert(1)</script>", 'x"; evil="1\u20ac.html')
    done = await commands.begin_thread(person, Send(text="Look", attachments=[id]), door="page")
    await settled()
    address = f"/threads/{done.thread.public_id}/attachments/{id}"
    response = await http.get(address, headers={"x-api-key": key})
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers["content-disposition"].startswith("attachment; filename*=utf-8''")


async def test_nobody_else_gets_it(sent, http, key, stranger, client_of, person, plays, settled):
    thread, _, ids = sent
    address = f"/threads/{thread.public_id}/attachments/{ids[0]}"
    other = await db.read(client_of, stranger)
    assert (await other.get(address)).status_code == 404
    assert (await AsyncClient().get(address)).status_code == 302
    # Not even its owner by another thread, or before it is in any.
    elsewhere = await begin(person, "Another")
    await settled()
    wrong = f"/threads/{elsewhere.thread.public_id}/attachments/{ids[0]}"
    assert (await http.get(wrong, headers={"x-api-key": key})).status_code == 404
    mine = await db.read(client_of, person)
    assert (await mine.get(address)).status_code == 200
    assert (await mine.get(f"/threads/{thread.public_id}/attachments/none")).status_code == 404


async def test_a_link_shows_the_files_of_what_it_shows_until_it_is_taken_back(sent, person):
    thread, _, ids = sent
    link = await db.write(organizing.share, thread=await now(thread), by=person)
    anybody = AsyncClient()
    page = await anybody.get(f"/s/{link.token}/")
    assert f'src="attachments/{ids[0]}"' in page.content.decode()
    response = await anybody.get(f"/s/{link.token}/attachments/{ids[0]}")
    assert response.status_code == 200
    assert b"".join([piece async for piece in response]) == PNG
    assert (await anybody.get(f"/s/{link.token}/attachments/{'x' * 24}")).status_code == 404
    await db.write(organizing.unshare, thread=thread, token=link.token)
    assert (await anybody.get(f"/s/{link.token}/attachments/{ids[0]}")).status_code == 404


async def now(thread: Thread) -> Thread:
    return await db.read(Thread.objects.get, pk=thread.pk)


# -- pages ---------------------------------------------------------------------------------------------------


async def test_the_page_shows_pictures_and_names_and_no_name_is_markup(
    person, http, key, plays, settled, client_of
):
    plays(Turn("I see."))
    picture = await given(http, key, PNG, "' onload='alert(1).png")
    paper = await given(http, key, PDF, "& <b>bold</b>.pdf")
    send = Send(text="Look", attachments=[picture, paper])
    done = await commands.begin_thread(person, send, door="page")
    await settled()
    client = await db.read(client_of, person)
    html = (await client.get(f"/threads/{done.thread.public_id}/")).content.decode()
    assert f'<img src="attachments/{picture}" alt="\' onload=\'alert(1).png" loading=lazy>' in html
    assert f'href="attachments/{paper}" download>' in html
    assert "<b>bold" not in html


async def test_a_plain_form_brings_its_files_along(person, client_of, plays, settled, folder):
    provider = plays(Turn("I see."), Turn("And again."))
    client = await db.read(client_of, person)
    files = [SimpleUploadedFile("a.png", PNG), SimpleUploadedFile("c.py", CODE)]
    response = await client.post("/threads/", {"text": "Look", "client_id": "u1", "files": files})
    await settled()
    assert response.status_code == 303
    assert [type(part) for part in what_was_read(provider)] == [ImagePart, TextPart, TextPart]
    thread = response.headers["Location"]
    refused = await client.post(
        f"{thread}send", {"text": "My words", "files": [SimpleUploadedFile("x.png", ZIP)]}
    )
    assert refused.status_code == 422
    assert "ZIP archive" in refused.content.decode()
    assert "My words" in refused.content.decode()
    empty = await client.post(
        f"{thread}send", {"text": "My words", "files": [SimpleUploadedFile("x.txt", b"")]}
    )
    assert empty.status_code == 422
    assert "x.txt: The file is empty." in empty.content.decode()
    htmx = await client.post(f"{thread}send", {"text": "", "attachment": "gone"}, headers=HTMX)
    assert htmx.status_code == 422
    assert "attach it again" in htmx.content.decode()


async def test_what_the_disk_does_not_take_is_said_by_every_door(
    sent, http, key, person, client_of, plays, settings, tmp_path
):
    thread, _, _ = sent
    text = await db.read(exported, thread)
    settings.ATTACHMENTS_DIR = tmp_path / "no folder"
    settings.ATTACHMENTS_DIR.write_bytes(b"")
    words = "its disk is full or not there"
    refused = (await upload(http, key, PNG)).json()["error"]
    assert (refused["code"], words in refused["message"]) == ("attachment_not_kept", True)
    source = {"type": "data", "value": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
    content = [{"type": "image", "source": source}]
    posted = await post(http, key, body(messages=[{"id": "u1", "role": "user", "content": content}]))
    assert (posted.status_code, posted.json()["error"]) == (503, refused)
    client = await db.read(client_of, person)
    form = {"text": "My words", "files": [SimpleUploadedFile("a.png", PNG)]}
    page = await client.post(f"/threads/{thread.public_id}/send", form)
    assert (page.status_code, words in page.content.decode()) == (503, True)
    page = await client.post("/import", {"file": SimpleUploadedFile("t.json", text.encode())})
    assert (page.status_code, words in page.content.decode()) == (503, True)


# -- as a file -----------------------------------------------------------------------------------------------


async def test_a_site_that_keeps_no_files_takes_a_thread_in_with_theirs_in_it(sent, stranger, settings):
    thread, _, _ = sent
    text = await db.read(exported, thread)
    settings.ATTACHMENTS_DIR = None
    file = await attached.kept(stranger, await db.read(shape.read_file, text))
    assert file.as_json() == text


async def test_an_export_holds_the_files_and_is_equal_when_taken_in_again(sent, stranger, plays, settled):
    thread, _, _ = sent
    text = await db.read(exported, thread)
    assert "attachment:" not in text
    file = await attached.kept(stranger, await db.read(shape.read_file, text))
    taken = await db.write(moving.take_in, stranger, file)
    assert await db.read(exported, await now(taken)) == text
    assert await db.read(Attachment.objects.filter(owner=stranger, threads=taken).count) == 3
    provider = plays(Turn("Still here."))
    await commands.perform(stranger, taken.public_id, Send(text="And now?"), door="page")
    await settled()
    assert what_was_read(provider)[0] == ImagePart("image/png", base64.b64encode(PNG).decode(), name="a.png")


async def test_an_export_that_would_be_too_large_names_what_it_leaves_out(sent, stranger, monkeypatch):
    thread, _, _ = sent
    monkeypatch.setattr(attached, "MOST_OUT", len(PNG))
    text = await db.read(exported, thread)
    parts = json.loads(text)["messages"][0]["parts"]
    assert ["data" in part for part in parts] == [True, False, False, False]
    assert parts[1]["name"] == "b.pdf"
    file = await attached.kept(stranger, shape.read_file(text))
    taken = await db.write(moving.take_in, stranger, file)
    assert await db.read(exported, await now(taken)) == text


def exported(thread: Thread) -> str:
    return attached.with_bytes(moving.file_of(thread), thread).as_json()


async def test_what_a_file_says_of_itself_is_not_believed(sent, stranger):
    thread, _, ids = sent
    told = json.loads(await db.read(exported, thread))
    told["messages"][0]["parts"][0] |= {"data": base64.b64encode(SVG).decode()}
    file = await attached.kept(stranger, shape.read_file(json.dumps(told)))
    taken = await db.write(moving.take_in, stranger, file)
    kinds = await db.read(lambda: sorted(taken.attachments.values_list("mime_type", flat=True)))
    assert kinds == ["application/pdf", "text/plain"]
    told["messages"][0]["parts"][0] |= {"url": f"attachment:{ids[0]}", "data": None}
    with pytest.raises(Invalid, match="does not hold"):
        shape.read_file(json.dumps(told))


# -- what goes -----------------------------------------------------------------------------------------------


async def test_files_go_with_the_last_thread_that_holds_them(sent, person, http, key, plays, settled, folder):
    thread, _, ids = sent
    second = await commands.begin_thread(person, Send(text="Again", attachments=ids[:1]), door="page")
    await settled()
    await age_all(Attachment.objects.all())
    await db.read(lambda: Thread.objects.get(pk=thread.pk).delete())
    await db.read(work_off)
    assert await db.read(lambda: [row.public_id for row in Attachment.objects.all()]) == ids[:1]
    assert len(on_disk(folder)) == 1
    await db.read(lambda: Thread.objects.get(pk=second.thread.pk).delete())
    await db.read(work_off)
    assert on_disk(folder) == []


async def test_a_file_that_is_not_sent_waits_a_day(http, key, folder):
    await given(http, key, PNG)
    await db.read(work_off)
    assert len(on_disk(folder)) == 1
    await age_all(Attachment.objects.all())
    await given(http, key, PNG)  # given once more, it waits once more
    await db.read(work_off)
    assert len(on_disk(folder)) == 1
    await age_all(Attachment.objects.all())
    await db.read(work_off)
    assert on_disk(folder) == []


async def test_what_no_row_knows_is_swept_away(http, key, person, folder):
    id = await given(http, key, PNG)
    draft = await db.read(disk.draft_of, CODE, "c.py")
    kept = await db.read(Attachment.objects.get, public_id=id)
    stray = folder / kept.digest[:2] / (kept.digest[:2] + "0" * 62)
    stray.write_bytes(b"of nobody")
    await db.read(removing.sweep, kept.digest[:2])
    assert not stray.exists()
    assert disk.path_of(kept.digest).exists()
    assert draft.path.exists()
    long_ago = time.time() - 2 * 86400
    os.utime(draft.path, (long_ago, long_ago))
    await db.read(removing.sweep, kept.digest[:2])
    assert not draft.path.exists()


async def test_files_of_deleted_threads_take_no_room(sent, person):
    thread, _, _ = sent
    assert await db.read(attachments.used_by, person) == len(PNG) + len(PDF) + len(CODE)
    await commands.perform(person, thread.public_id, values.Organize(deleted=True), door="page")
    assert await db.read(attachments.used_by, person) == 0


def work_off() -> None:
    while upkeep.step():
        pass


async def age_all(rows) -> None:
    await db.write(lambda: rows.update(created_at=timezone.now() - timedelta(days=2)))
