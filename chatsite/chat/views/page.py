"""The chat page itself: a thread, or the empty one, with what a form had typed when it is shown again."""

from __future__ import annotations

from typing import Any

from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext

from chatsite.chat import db, eventlog
from chatsite.chat.actions import choosing
from chatsite.chat.agents import DEMO, catalog_for
from chatsite.chat.models import Run, Thread
from chatsite.chat.readers import following
from chatsite.chat.readers.screens import rendered
from chatsite.chat.render.context import Typed
from chatsite.chat.render.fragments import render_page
from chatsite.chat.render.picker import models_in
from chatsite.chat.state import ThreadState
from chatsite.chat.views import reading

THREADS_IN_LIST = 200


async def page_of(
    request: HttpRequest,
    row: Thread | None,
    *,
    notice: str = "",
    draft: str = "",
    typed: Typed | None = None,
    deleted: str = "",
    before: str = "",
    at: str = "",
    edits: str = "",
    removed: str = "",
    preset: str | None = None,
    status: int = 200,
) -> HttpResponse:
    catalog = await catalog_for(request.person)
    presets = await db.read(choosing.presets_of, request.person) if row is None else []
    begins_with = next(
        (each for each in presets if each.name == preset or (preset is None and each.is_default)), None
    )
    state = await following.state_now(eventlog.channel_of(row.pk), row) if row else ThreadState(thread_id="")
    place = await db.read(reading.place_of, row, at, state) if row is not None and at else {}
    model = catalog.pick(stored=row.model if row else begins_with.model if begins_with else "")
    context = {
        "thread": row,
        "state": state,
        "transcript_html": await rendered(state, render_page, state, typed, before, place.get("at", "")),
        "elsewhere": place.get("elsewhere", ""),
        "threads": await db.read(_threads_of, request.person.pk),
        "models": models_in(catalog),
        "presets": presets,
        "preset": begins_with,
        "model": model,
        "demo": model == DEMO,
        "problems": catalog.problems,
        "user": request.person,
        "notice": notice,
        "draft": draft,
        "deleted": deleted,
        "edits": edits,
        "removed": removed,
    }
    return await db.read(render, request, "chat/page.html", context, status=status)


def _threads_of(user_pk: int) -> list[dict[str, Any]]:
    shown = Thread.objects.filter(owner_id=user_pk, archived_at=None, deleted_at=None)
    threads = list(shown.order_by(F("pinned_at").desc(nulls_last=True), "-updated_at")[:THREADS_IN_LIST])
    running = set(
        Run.objects.filter(thread__in=[row.pk for row in threads], state__in=Run.ACTIVE).values_list(
            "thread_id", flat=True
        )
    )
    return [
        {
            "public_id": row.public_id,
            "title": row.title or gettext("New thread"),
            "updated_at": row.updated_at,
            "pinned": row.pinned_at is not None,
            "running": row.pk in running,
        }
        for row in threads
    ]
