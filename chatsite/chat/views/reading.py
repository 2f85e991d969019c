"""How much of a thread a page shows: what links to earlier and later messages bring, and pages opened at a message."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpResponse
from django.urls import reverse

from chatsite.chat import access, eventlog
from chatsite.chat.models import Message, Thread
from chatsite.chat.readers import following
from chatsite.chat.readers.screens import rendered
from chatsite.chat.render.fragments import render_after, render_before
from chatsite.chat.state import ThreadState


async def more(row: Thread, query: Mapping[str, str]) -> HttpResponse | None:
    """What such a link brings; None where the query asks for none. The page anew when what it names has gone."""
    before, after = query.get("before", ""), query.get("after", "")
    if not before and not after:
        return None
    state = await following.state_now(eventlog.channel_of(row.pk), row)
    if before:
        html = await rendered(state, render_before, state, before)
    else:
        html = await rendered(state, render_after, state, after, query.get("until", ""))
    if html is None:
        return HttpResponse(status=204, headers={"HX-Redirect": reverse("chat:thread", args=[row.public_id])})
    return HttpResponse(html)


def place_of(row: Thread, message_id: str, state: ThreadState) -> dict[str, str]:
    """For a page that is opened at a message: `at`, where the branch that is shown holds it, else `elsewhere`."""
    if any(said.id == message_id for segment in state.segments for said in segment.messages):
        return {"at": message_id}
    known = Message.objects.filter(thread=row, public_id=message_id, deleted_at=None)
    there = access.sane_id(message_id) and known.exists()
    return {"elsewhere": message_id} if there else {}
