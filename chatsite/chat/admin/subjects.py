"""Whose content a page shows, and what of it may stand in a list.

A title is content: a list shows it to its owner and to whoever may read transcripts, else the thread's id. What
messages say stands in a list only where their thread was opened with a reason (`adminkit.reading`).
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from chatsite.adminkit import reading
from chatsite.adminkit.base import link_to
from chatsite.adminkit.reading import Subject
from chatsite.chat.models import Thread
from chatsite.phrases import plain

SHORT_ID = 10
LONGEST_NAME = 80


def subject_of(thread: Thread) -> Subject:
    return Subject(f"thread {thread.public_id}", thread.owner_id)


def name_for(user: Any, thread: Thread) -> str:
    """What a list calls the thread for this user."""
    known = thread.owner_id == user.pk or reading.may_read(user)
    return (plain(thread.title, LONGEST_NAME) if known else "") or short_id(thread.public_id)


def short_id(id: str) -> str:
    return id if len(id) <= SHORT_ID else f"{id[: SHORT_ID - 1]}…"


def transcript_url(thread_pk: int, run: int | None = None) -> str:
    address = reverse("admin:chat_thread_transcript", args=[thread_pk])
    return f"{address}?run={run}#run-{run}" if run else address


def name_threads(rows: list[Any], request: HttpRequest) -> None:
    """Give each row of a list the name of its thread, as `in_thread` shows it."""
    for row in rows:
        row.thread_name = name_for(request.user, row.thread)


def in_thread(row: Any) -> SafeString:
    return link_to(row.thread_name, transcript_url(row.thread_id, run=row.run_id))
