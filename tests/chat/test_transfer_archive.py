"""Threads that come in as a ZIP: what was exported comes back equal; what is none takes neither memory nor a row."""

from __future__ import annotations

import errno
import io
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient
from django.utils import timezone

from chatsite.care import exporting
from chatsite.chat import db
from chatsite.chat.actions import organizing, steering
from chatsite.chat.models import Attachment, Thread
from chatsite.chat.problems import Invalid
from chatsite.chat.transfer import attached, moving, shape
from chatsite.chat.transfer import packed as archives
from chatsite.chat.transfer.shape import FileEntry
from tests.chat.test_transfer import a_file

NAME = "threads/000001-one.json"


@pytest.fixture(autouse=True)
def _files(tmp_path, settings) -> None:
    settings.ATTACHMENTS_DIR = tmp_path / "attachments"


@pytest.fixture
def client(stranger, client_of) -> AsyncClient:
    return client_of(stranger)


def packed(*files: tuple[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return out.getvalue()


async def sent(client: AsyncClient, content: bytes):
    return await client.post("/import", {"file": SimpleUploadedFile("all.zip", content)})


def exported(owner) -> list[str]:
    threads = Thread.objects.filter(owner=owner).order_by("pk")
    return [attached.with_bytes(moving.file_of(each), each).as_json() for each in threads]


async def test_all_data_of_a_person_comes_in_again_and_is_exported_equal(person, stranger, client):
    file = await attached.kept(person, shape.read_file(with_a_file()))
    await db.write(moving.take_in, person, file)
    await db.write(moving.take_in, person, shape.read_file(a_file()))
    content = await db.read(lambda: b"".join(exporting.export(person)))
    answer = await sent(client, content)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/archive?imported=2")
    assert "2 threads were imported." in (await client.get("/archive?imported=2")).content.decode()
    assert await db.read(exported, stranger) == await db.read(exported, person)
    assert await db.read(Attachment.objects.filter(owner=stranger).count) == 1


async def test_what_was_pinned_put_away_or_thrown_away_comes_in_as_such(person, stranger, client):
    for asked in ({"pinned": True}, {"archived": True}, {"deleted": True}):
        thread = await db.write(moving.take_in, person, shape.read_file(a_file()))
        await db.write(lambda thread=thread, asked=asked: organizing.organize(thread=thread, **asked))
    long_ago = timezone.now() - 2 * organizing.KEPT_DELETED
    await db.write(Thread.objects.filter(owner=person, deleted_at__isnull=False).update, deleted_at=long_ago)
    answer = await sent(client, await db.read(lambda: b"".join(exporting.export(person))))
    assert answer.status_code == 303
    pinned, archived, deleted = await db.read(list, Thread.objects.filter(owner=stranger).order_by("pk"))
    assert [each.pinned_at is not None for each in (pinned, archived, deleted)] == [True, False, False]
    assert [each.archived_at is not None for each in (pinned, archived, deleted)] == [False, True, False]
    assert (pinned.deleted_at, archived.deleted_at) == (None, None)
    assert (await client.get(f"/threads/{deleted.public_id}/")).status_code == 404
    assert f"/threads/{deleted.public_id}/" in (await client.get("/archive")).content.decode()
    assert await db.write(organizing.restore, stranger, deleted.public_id) == deleted, "its time is not over"


async def test_a_thread_that_comes_in_alone_is_shown_wherever_it_lay(person, client):
    thread = await db.write(moving.take_in, person, shape.read_file(a_file()))
    await db.write(lambda: organizing.organize(thread=thread, archived=True, deleted=True))
    text = await db.read(lambda: moving.file_of(Thread.objects.get(pk=thread.pk)).as_json())
    answer = await client.post("/import", {"file": SimpleUploadedFile("one.json", text.encode())})
    assert answer.status_code == 303
    assert (await client.get(answer.headers["Location"])).status_code == 200


async def test_a_fork_of_a_pinned_thread_is_not_pinned(person):
    thread = await db.write(moving.take_in, person, shape.read_file(a_file()))
    thread = await db.write(lambda: organizing.organize(thread=thread, pinned=True))
    message = await db.read(lambda: thread.messages.order_by("pk").first().public_id)
    fork = await db.write(lambda: steering.fork(thread=thread, message_id=message, owner=person))
    assert fork.pinned_at is None


def with_a_file() -> str:
    """A thread whose only message brings a file."""
    file = shape.read_file(a_file())
    said = file.messages[0].model_copy(
        update={
            "parts": [
                FileEntry(type="file", kind="document", mime_type="text/plain", data="aGkK", name="a.txt")
            ]
        }
    )
    return file.model_copy(update={"messages": [said, *file.messages[1:]]}).as_json()


def bad_archives() -> Iterator[tuple[str, bytes, str]]:
    good = packed((NAME, a_file()))
    yield "damaged", good[:60] + b"\xff" * 30 + good[90:], "cannot be read"
    yield "cut", good[:-30], "cannot be read"
    yield "longer", good + b"x" * 30, "cannot be read"
    locked = bytearray(good)
    locked[6] |= 1
    locked[good.rindex(b"PK\x01\x02") + 8] |= 1
    yield "locked", bytes(locked), "locked with a password"
    yield "no thread", packed(("account.json", "{}"), ("threads/a.txt", "x")), "holds no thread"
    outside = packed(("../threads/000001-one.json", a_file()), ("/000001-a.json", "{}"))
    yield "names that lead out", outside, "holds no thread"
    yield "an archive in it", packed(("threads/000001-one.zip", good)), "holds no thread"
    one_bad = packed((NAME, a_file()), ("threads/000002-two.json", "{}"))
    yield "one that is none", one_bad, "000002-two.json: This is not a thread"


@pytest.mark.parametrize(
    ("content", "words"), [pytest.param(*rest, id=name) for name, *rest in bad_archives()]
)
async def test_what_is_no_archive_of_threads_is_refused_and_nothing_of_it_taken(
    content, words, client, stranger
):
    answer = await sent(client, content)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not await db.read(Thread.objects.filter(owner=stranger).exists)


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        ("MOST_UNPACKED", 100, "too large"),
        ("MOST_THREADS", 1, "or more than 1"),
        ("MOST_DIRECTORY", 50, "too large"),
    ],
)
async def test_an_archive_has_limits_that_its_own_words_do_not_move(
    limit, value, words, client, stranger, monkeypatch
):
    monkeypatch.setattr(archives, limit, value)
    answer = await sent(client, packed((NAME, a_file()), ("000002-two.json", a_file())))
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not await db.read(Thread.objects.filter(owner=stranger).exists)


async def test_a_small_archive_that_unpacks_to_a_huge_file_is_refused(client, stranger, monkeypatch):
    monkeypatch.setattr(shape, "MAX_BYTES", 10_000)
    bomb = packed((NAME, b" " * 1_000_000))
    assert len(bomb) < 10_000
    answer = await sent(client, bomb)
    assert answer.status_code == 422
    assert "too large" in answer.content.decode()
    assert not await db.read(Thread.objects.filter(owner=stranger).exists)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_is_packed_as_no_export_is_is_not_unpacked(method):
    """Python unpacks these in one piece: of 400 bytes, as many megabytes as somebody likes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(NAME, b" " * 30_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(Invalid, match="cannot be read"):
            list(archives.threads_in(out))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_an_entry_that_holds_more_than_it_says_is_not_unpacked_to_its_end():
    """And its sum is right: a thousand of those, 50 KB each, would be unpacked to 50 GB."""
    content = bytearray(packed((NAME, b" " * 20_000_000)))
    for place in (14, content.rindex(b"PK\x01\x02") + 16):
        content[place : place + 4] = zlib.crc32(b" " * 10).to_bytes(4, "little")
        content[place + 8 : place + 12] = (10).to_bytes(4, "little")
    tracemalloc.start()
    texts = [text for _, text in archives.threads_in(io.BytesIO(bytes(content)))]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert texts == [b" " * 10]
    assert most < 2_000_000


def test_an_entry_whose_sum_is_another_is_damaged():
    content = bytearray(packed((NAME, b" " * 1_000)))
    for place in (22, content.rindex(b"PK\x01\x02") + 24):
        content[place : place + 4] = (10).to_bytes(4, "little")
    with pytest.raises(Invalid, match="damaged"):
        list(archives.threads_in(io.BytesIO(bytes(content))))


@pytest.mark.parametrize("place", [2**63, 2**63 - 1, 10_000_000, -1])
@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_an_entry_that_lies_outside_the_archive_is_damaged(place, on_disk, tmp_path):
    """A large upload is a file of the system's, which refuses in other words than memory does."""
    with open(tmp_path / "all.zip", "w+b") if on_disk else io.BytesIO() as out:
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(NAME, b"{}")
            archive.infolist()[0].header_offset = max(place, 0)
        if (
            place < 0
        ):  # its directory says that it lies further behind, so all that it names lies before the file
            out.seek(-6, io.SEEK_END)
            out.write((10_000).to_bytes(4, "little"))
        with pytest.raises(Invalid, match="damaged"):
            list(archives.threads_in(out))


class BadSector(io.BytesIO):
    """The disk below the first entry cannot be read."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() == 0:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)


def test_a_disk_that_fails_is_not_told_as_a_damaged_archive():
    with pytest.raises(OSError, match="Input/output error"):
        list(archives.threads_in(BadSector(packed((NAME, a_file())))))
