"""Threads as a whole: named, pinned, put away, thrown away and back, shared, taken out and in, by their owner alone."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient
from django.urls import reverse
from django.utils import timezone

from agent.messages import user_message
from agent.providers.scripted import Turn
from chatsite.chat import actions, commands, db
from chatsite.chat.actions import organizing
from chatsite.chat.commands import acting
from chatsite.chat.commands.values import Organize, Send
from chatsite.chat.models import Message, Share, Thread
from chatsite.chat.problems import Missing
from chatsite.chat.transfer import shape
from tests.chat.conftest import row_of
from tests.chat.test_runs import begin
from tests.words import says

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">'


@pytest.fixture
async def thread(person, plays, settled) -> Thread:
    plays(Turn("It is mild in **Oslo**."), Turn("You are welcome."))
    done = await begin(person, "How is Oslo?")
    await settled()
    return done.thread


@pytest.fixture
def client(person, client_of) -> AsyncClient:
    return client_of(person)


@pytest.fixture
def other(stranger, client_of) -> AsyncClient:
    return client_of(stranger)


async def change(client: AsyncClient, thread: Thread, **form: str) -> Any:
    return await client.post(reverse("chat:organize", args=[thread.public_id]), form)


async def page(client: AsyncClient, path: str = "/") -> str:
    response = await client.get(path)
    assert response.status_code == 200
    return response.content.decode()


async def now(thread: Thread) -> Thread:
    return await db.read(Thread.objects.get, pk=thread.pk)


async def test_a_thread_is_renamed_and_keeps_that_name(client, thread):
    response = await change(client, thread, title=f"  My\n {HOSTILE} ")
    assert response.status_code == 302 or response.status_code == 303
    assert (await now(thread)).title == f"My {HOSTILE}"
    html = await page(client, f"/threads/{thread.public_id}/")
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert not await db.write(organizing.name_by_model, thread.pk, "A model's title")
    assert (await now(thread)).title == f"My {HOSTILE}"


@pytest.mark.parametrize(("title", "words"), [("  ", "needs a name"), ("x" * 201, "at most 200")])
async def test_a_name_that_cannot_be_is_refused_in_words(client, thread, title, words):
    response = await change(client, thread, title=title)
    assert response.status_code == 422
    assert words in response.content.decode()
    assert (await now(thread)).title == "How is Oslo?"


async def test_a_rename_is_seen_while_a_run_is_at_work(person, plays, settled, client):
    plays(Turn("Slowly.", gate=(gate := asyncio.Event())))
    done = await begin(person, "How is Oslo?")
    await change(client, done.thread, title="Another name")
    assert "Another name" in await page(client, f"/threads/{done.thread.public_id}/")
    gate.set()
    await settled()
    assert (await now(done.thread)).title == "Another name"


async def test_what_is_not_given_is_left_as_another_made_it_in_the_same_moment(person, thread):
    seen = await now(thread)
    await db.write(organizing.name_by_model, thread.pk, "The weather of Oslo")
    kept = await db.write(organizing.organize, thread=seen, pinned=True)
    assert (kept.title, (await now(thread)).title) == ("The weather of Oslo", "The weather of Oslo")
    await db.write(organizing.organize, thread=seen, deleted=True)
    await db.write(organizing.organize, thread=seen, title="Another")
    assert (await now(thread)).deleted_at is not None


async def test_a_thread_that_was_thrown_away_since_it_was_looked_up_takes_no_message(person, thread):
    start = await acting.start_of(person, "", door="page")
    await db.write(organizing.organize, thread=thread, deleted=True)
    asked = {"message": user_message("late", "And Bergen?"), "client_id": "late", "start": start}
    with pytest.raises(Missing):
        await acting.begin_run(person, actions.send_message, thread=thread, **asked)
    assert not await db.read(Message.objects.filter(public_id="late").exists)


async def test_a_pinned_thread_stands_first(client, person, thread, plays, settled):
    plays(Turn("Hello."))
    await begin(person, "A newer one")
    await settled()
    await change(client, thread, pinned="true")
    html = await page(client)
    assert html.index("Pinned") < html.index("How is Oslo?") < html.index("Today") < html.index("A newer one")
    await change(client, thread, pinned="false")
    assert "Pinned" not in await page(client)


async def test_an_archived_thread_leaves_the_list_and_can_be_read_and_found(client, person, thread):
    await change(client, thread, archived="true")
    assert "How is Oslo?" not in await page(client)
    assert "How is Oslo?" in await page(client, "/archive")
    assert "It is mild" in await page(client, f"/threads/{thread.public_id}/")
    assert "How is Oslo?" in await page(client, "/search?q=mild")
    await change(client, thread, archived="false")
    assert "How is Oslo?" in await page(client)


async def test_a_deleted_thread_is_gone_everywhere_until_it_is_taken_back(client, person, thread, http, key):
    link = await db.write(organizing.share, thread=thread, by=person)
    gone = await change(client, thread, deleted="true")
    assert gone.headers["Location"] == f"/?deleted={thread.public_id}"
    assert "The thread is deleted." in await page(client, gone.headers["Location"])
    address = f"/threads/{thread.public_id}/"
    for path in (
        address,
        f"{address}share",
        f"{address}export.json",
        f"/s/{link.token}/",
        f"{address}events",
    ):
        assert (await client.get(path)).status_code == 404, path
    for path in ("send", "stop", "retry", "organize"):
        assert (await client.post(address + path, {"text": "Hi"})).status_code == 404, path
    assert (
        await http.get(f"/api/chat?threadId={thread.public_id}", headers={"x-api-key": key})
    ).status_code == 404
    assert "How is Oslo?" not in await page(client)
    assert "<mark>" not in await page(client, "/search?q=mild")
    with pytest.raises(Missing):
        await commands.perform(person, thread.public_id, Send(text="Hi"), door="page")

    back = await client.post(f"{address}restore")
    assert back.headers["Location"] == address
    assert "It is mild" in await page(client, address)
    assert (await client.get(f"/s/{link.token}/")).status_code == 200


async def test_deleting_a_thread_stops_its_run(person, plays, settled, client):
    plays(Turn("Never finished.", gate=asyncio.Event()))
    done = await begin(person)
    await change(client, done.thread, deleted="true")
    await settled()
    assert (await row_of(done.run)).state == "cancelled"


async def test_a_deleted_thread_is_removed_for_good_after_its_time(thread, person):
    await db.write(organizing.organize, thread=await now(thread), deleted=True)
    assert not await db.write(organizing.remove_deleted)
    late = timezone.now() - organizing.KEPT_DELETED - timedelta(minutes=1)
    await db.write(Thread.objects.filter(pk=thread.pk).update, deleted_at=late)
    assert await db.write(organizing.remove_deleted)
    assert await db.read(Message.objects.count) == 0


async def test_nobody_else_can_do_anything_of_it(thread, other):
    address = f"/threads/{thread.public_id}/"
    for path in ("share", "export.json", "export.md"):
        assert (await other.get(address + path)).status_code == 404
    for path in ("organize", "share", "restore"):
        assert (await other.post(address + path, {"title": "Mine", "deleted": "true"})).status_code == 404
    await db.write(organizing.organize, thread=await now(thread), deleted=True)
    assert (await other.post(f"{address}restore")).status_code == 404
    assert (await now(thread)).title == "How is Oslo?"
    assert "<mark>" not in await page(other, "/search?q=mild")


@pytest.mark.parametrize(
    "form", [{}, {"pinned": "perhaps"}, {"deleted": "false"}, {"title": "x", "archived": "2"}]
)
async def test_a_form_that_says_nothing_of_use_changes_nothing(client, thread, form):
    before = await now(thread)
    response = await change(client, thread, **form)
    assert response.status_code in {302, 303, 422}
    after = await now(thread)
    assert (after.title, after.pinned_at, after.archived_at, after.deleted_at) == (
        before.title,
        None,
        None,
        None,
    )


async def test_a_command_organizes_by_any_door(person, thread):
    await commands.perform(
        person, thread.public_id, Organize(title="By a program", pinned=True), door="websocket"
    )
    row = await now(thread)
    assert (row.title, row.titled, row.pinned_at is not None) == ("By a program", "person", True)


# -- links ---------------------------------------------------------------------------------------------------


async def links(thread: Thread) -> list[Share]:
    return await db.read(lambda: list(organizing.shares_of(thread)))


async def test_a_snapshot_stays_as_it_was_and_a_live_link_follows(client, person, thread, settled):
    address = f"/threads/{thread.public_id}/share"
    await client.post(address, {"form": "snapshot"})
    await client.post(address, {"form": "live", "days": "7"})
    await commands.perform(person, thread.public_id, Send(text="Thanks!"), door="page")
    await settled()
    live, snapshot = await links(thread)
    reader = AsyncClient()
    assert "Thanks!" not in await page(reader, f"/s/{snapshot.token}/")
    html = await page(reader, f"/s/{live.token}/")
    assert "Thanks!" in html
    assert "<form" not in html
    assert not says(html, person.username)
    assert "7 days" not in html
    response = await reader.get(f"/s/{live.token}/")
    assert response.headers["X-Robots-Tag"] == "noindex, nofollow"
    assert "no-store" in response.headers["Cache-Control"]


async def test_a_link_leads_nowhere_when_it_was_taken_back_or_is_over(client, person, thread):
    first, second = [await db.write(organizing.share, thread=thread, by=person, days=1) for _ in range(2)]
    await client.post(f"/threads/{thread.public_id}/share", {"revoke": first.token})
    await db.write(
        Share.objects.filter(pk=second.pk).update, expires_at=timezone.now() - timedelta(seconds=1)
    )
    for token in (first.token, second.token, "unknown", "x" * 5000):
        assert (await AsyncClient().get(f"/s/{token}/")).status_code == 404
    assert await links(thread) == []


async def test_a_link_ends_with_its_owners_account(person, thread):
    link = await db.write(organizing.share, thread=thread, by=person)
    person.is_active = False
    await db.write(person.save)
    assert (await AsyncClient().get(f"/s/{link.token}/")).status_code == 404


async def test_nobody_takes_back_a_link_of_another_thread(other, stranger, person, thread, plays, settled):
    link = await db.write(organizing.share, thread=thread, by=person)
    plays(Turn("Hi."))
    own = await begin(stranger)
    await settled()
    await other.post(f"/threads/{own.thread.public_id}/share", {"revoke": link.token})
    assert (await AsyncClient().get(f"/s/{link.token}/")).status_code == 200


@pytest.mark.parametrize("days", ["0", "3651", "soon", "-1", "99999", "1.5", "٣"])
async def test_days_that_cannot_be_are_refused_in_words(client, thread, days):
    response = await client.post(f"/threads/{thread.public_id}/share", {"days": days})
    assert response.status_code == 422
    assert "days" in response.content.decode()
    assert await links(thread) == []


# -- search and files ----------------------------------------------------------------------------------------


async def test_what_is_found_is_shown_marked_and_never_as_markup(person, client, plays, settled):
    plays(Turn(f"needle {HOSTILE}"))
    await begin(person, "Find me")
    await settled()
    html = await page(client, "/search?q=needle")
    assert "<mark>needle</mark>" in html
    assert "<script>alert" not in html
    html = await page(client, '/search?q="><script>alert(7)</script>')
    assert "<script>alert" not in html
    assert "Nothing was found" in html


async def test_an_export_is_a_file_and_an_import_a_thread(client, person, thread):
    response = await client.get(f"/threads/{thread.public_id}/export.json")
    assert response.headers["Content-Disposition"] == 'attachment; filename="how-is-oslo.json"'
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    upload = SimpleUploadedFile("thread.json", response.content, content_type="application/json")
    taken = await client.post("/import", {"file": upload})
    assert taken.status_code in {302, 303}
    again = await client.get(taken.headers["Location"] + "export.json")
    assert again.content == response.content
    markdown = await client.get(f"/threads/{thread.public_id}/export.md")
    assert markdown.content.decode().startswith("# How is Oslo?")


async def test_one_answer_is_had_as_it_was_written_and_only_where_it_is_shown(client, thread, other):
    named = re.search('class="copy all" value="([^"]+)"', await page(client, f"/threads/{thread.public_id}/"))
    asked = f"/threads/{thread.public_id}/export.md?of={named[1]}"
    assert (await client.get(asked)).content.decode() == "It is mild in **Oslo**."
    assert (await client.get(asked + "x")).status_code == 404
    assert (await other.get(asked)).status_code == 404


@pytest.mark.parametrize("title", ['a"\r\nX-Evil: 1', "日本語", "../../etc/passwd", "\u202egnp.exe", ""])
async def test_a_title_writes_no_header_and_no_path(client, thread, title):
    await db.write(Thread.objects.filter(pk=thread.pk).update, title=title)
    response = await client.get(f"/threads/{thread.public_id}/export.md")
    assert re.fullmatch(r'attachment; filename="[a-z0-9-]+\.md"', response.headers["Content-Disposition"])
    assert "X-Evil" not in response.headers


async def test_a_file_that_is_none_is_refused_in_words(client):
    for content in (b"", b"{}", b"\xff\xfe", b"[" * 100_000):
        upload = SimpleUploadedFile("thread.json", content or b" ")
        response = await client.post("/import", {"file": upload})
        assert response.status_code == 422
        assert "not a thread that was exported here" in response.content.decode()
    assert (await client.post("/import", {})).status_code == 422


async def test_a_file_that_is_too_large_is_refused(client, monkeypatch):
    monkeypatch.setattr(shape, "MAX_BYTES", 100)
    response = await client.post("/import", {"file": SimpleUploadedFile("t.json", b"x" * 101)})
    assert response.status_code == 413
