"""What the chat has of people (`chatsite.care.lines`)."""

from __future__ import annotations

from typing import Any

from chatsite.care.lines import Named, Rows
from chatsite.chat import attachments
from chatsite.chat.models import Run


class Files(Rows):
    """Attachments, with their bytes."""

    __slots__ = ()

    def erase_some(self, pk: Any) -> int:
        return attachments.erase_some(pk)


LINES = (
    Rows("chat.RunEvent", "run__thread__owner"),
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
    Rows("chat.Preset", "owner"),
)


def before_erasing(user: Any) -> None:
    """Runs end within a second. One that does not (its process is gone) ends with its row, which it holds no more."""
    active = Run.objects.filter(thread__owner=user, state__in=Run.ACTIVE)
    for pk in list(active.values_list("pk", flat=True)):
        Run.objects.filter(pk=pk, state__in=Run.ACTIVE).update(stop_requested=True)
