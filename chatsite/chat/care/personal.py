"""What the chat has of people (`chatsite.care.lines`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from agent.wire.jsontext import dump
from chatsite.care.exporting import PIECE, Part, as_json
from chatsite.care.lines import Named, Rows
from chatsite.chat import store
from chatsite.chat.files import disk, removing
from chatsite.chat.models import Attachment, Preset, Run, Thread, Turn
from chatsite.chat.runs import requests, responses
from chatsite.chat.transfer import attached, markdown, moving


class Files(Rows):
    """Attachments, with their bytes."""

    __slots__ = ()

    def erase_some(self, pk: Any) -> int:
        return removing.erase_some(pk)


class Turns(Rows):
    """Requests, with the system prompts and tools that stand in no other's."""

    __slots__ = ()

    def erase_some(self, pk: Any) -> int:
        with transaction.atomic():
            rows = Turn.objects.filter(pk__in=self.some(pk))
            configs = set(rows.values_list("config", flat=True))
            gone, _ = rows.delete()
            requests.forget(sorted(configs))
        return gone


LINES = (
    Rows("chat.RunEvent", "run__thread__owner"),
    Turns("chat.Turn", "run__thread__owner"),
    Rows("chat.ToolCall", "run__thread__owner"),
    Rows("chat.Interrupt", "thread__owner"),
    Named("chat.Interrupt", "answered_by"),
    Rows("chat.ApprovalRule", "thread__owner"),
    Named("chat.ApprovalRule", "created_by"),
    Rows("chat.Share", "thread__owner"),
    Named("chat.Share", "created_by"),
    Rows("chat.Attachment_threads", "attachment__owner"),
    Files("chat.Attachment", "owner"),
    Rows("chat.Message", "thread__owner"),
    Rows("chat.Run", "thread__owner"),
    Rows("chat.Thread", "owner"),
    Rows("chat.Preset_groups", "preset__owner"),
    Rows("chat.Preset", "owner"),
)


def before_erasing(user: Any) -> None:
    """Runs end within a second. One that does not (its process is gone) ends with its row, which it holds no more."""
    active = Run.objects.filter(thread__owner=user, state__in=Run.ACTIVE)
    for pk in list(active.values_list("pk", flat=True)):
        Run.objects.filter(pk=pk, state__in=Run.ACTIVE).update(stop_requested=True)


# -- out -----------------------------------------------------------------------------------------------------


def threads_of(user: Any) -> Iterator[Part]:
    """Those that were thrown away, too, for as long as they are here."""
    for pk in list(Thread.objects.filter(owner=user).order_by("pk").values_list("pk", flat=True)):
        thread = Thread.objects.filter(pk=pk).first()
        if thread is not None:
            place = f"threads/{pk:06}-{moving.file_name(thread.title)}"
            file = attached.with_bytes(moving.file_of(thread), thread)
            yield f"{place}.json", [file.as_json().encode()]
            yield f"{place}.md", [markdown.markdown_of(store.load_state(thread)).encode()]
            received = Turn.objects.filter(run__thread=thread).exclude(response=None)
            if received.exists():
                yield f"{place}-responses.jsonl", _responses(received)


def _responses(turns: QuerySet[Turn]) -> Iterator[bytes]:
    """What endpoints answered, as it came, a line a turn."""
    for turn in turns.select_related("run").order_by("run", "number").iterator(chunk_size=20):
        assert turn.response is not None
        said = {
            "run": turn.run.public_id,
            "turn": turn.number,
            "status": turn.status,
            "cut": turn.response_cut,
        }
        yield dump({**said, "received": responses.unpacked(turn.response)}).encode() + b"\n"


def files_of(user: Any) -> Iterator[Part]:
    for row in Attachment.objects.filter(owner=user).order_by("pk").iterator(chunk_size=200):
        yield f"attachments/{row.public_id}-{_safe(row.name)}", _content(row)


def _content(row: Attachment) -> Iterator[bytes]:
    """Nothing of a file that is not there: its row is in the archive all the same."""
    try:
        with disk.path_of(row.digest).open("rb") as file:
            while piece := file.read(PIECE):
                yield piece
    except OSError:
        return


def _safe(name: str) -> str:
    """As one step of a path, on any system."""
    return "".join(sign if sign.isalnum() or sign in "._- " else "_" for sign in name).strip(". ") or "file"


def presets_of(user: Any) -> Iterator[Part]:
    rows = Preset.objects.filter(owner=user).order_by("pk").values("name", "model", "choices", "is_default")
    yield "presets.json", as_json(list(rows))


EXPORTS = (threads_of, files_of, presets_of)
