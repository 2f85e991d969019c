"""The page's handlers for a thread. Each validates into a command and hands it on (`views.door`)."""

from __future__ import annotations

from urllib.parse import unquote

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST, require_safe

from chatsite.chat import access, commands, db, eventlog
from chatsite.chat.access import Credential
from chatsite.chat.api.doors import as_django
from chatsite.chat.api.exchange import refusal
from chatsite.chat.commands.values import Command, Continue, Edit, Forget, Retry, Stop
from chatsite.chat.problems import Invalid, Missing, Problem
from chatsite.chat.readers import following, thread_events
from chatsite.chat.views import reading
from chatsite.chat.views.door import by_htmx, do_command, door, refused, sent_to
from chatsite.chat.views.forms import answer_of, asked_for, send_of
from chatsite.chat.views.page import page_of

DRAFT_CHARS = 2000
"""Of `/?draft=`, by which a link fills the composer without JavaScript."""


@require_safe
@door
async def home(request: HttpRequest) -> HttpResponse:
    draft, deleted = request.GET.get("draft", "")[:DRAFT_CHARS], request.GET.get("deleted", "")
    preset = request.GET.get("preset")
    deleted = deleted if access.sane_thread_id(deleted) else ""
    return await page_of(request, None, draft=draft, deleted=deleted, preset=preset)


@require_safe
@door
async def thread(request: HttpRequest, thread_id: str) -> HttpResponse:
    row = await commands.thread_for(request.person, thread_id)
    if by_htmx(request) and (more := await reading.more(row, request.GET)) is not None:
        return more
    places = {name: request.GET.get(name, "") for name in ("before", "at")}
    return await page_of(request, row, **places, **await db.read(asked_for, row, request.GET))


@require_POST
@door
async def create(request: HttpRequest) -> HttpResponse:
    try:
        done = await commands.begin_thread(request.person, await send_of(request), door="page")
    except Missing:
        raise
    except Problem as problem:
        return await refused(request, None, problem)
    return sent_to(request, reverse("chat:thread", args=[done.thread.public_id]))


@require_POST
@door
async def send(request: HttpRequest, thread_id: str) -> HttpResponse:
    row = await commands.thread_for(request.person, thread_id)
    try:
        command: Command = await send_of(request)
    except Problem as problem:
        return await refused(request, row, problem)
    if edits := request.POST.get("edits"):
        command = Edit(message_id=edits, **command.model_dump(exclude={"type", "preset"}))
    return await do_command(request, thread_id, command)


@require_POST
@door
async def stop(request: HttpRequest, thread_id: str) -> HttpResponse:
    return await do_command(request, thread_id, Stop(run_id=request.POST.get("run") or None))


@require_POST
@door
async def resume(request: HttpRequest, thread_id: str) -> HttpResponse:
    return await do_command(request, thread_id, Continue(model=request.POST.get("model", "")))


@require_POST
@door
async def retry(request: HttpRequest, thread_id: str) -> HttpResponse:
    asked = Retry(model=request.POST.get("model", ""), message_id=request.POST.get("message") or None)
    return await do_command(request, thread_id, asked)


@require_POST
@door
async def answer(request: HttpRequest, thread_id: str) -> HttpResponse:
    row = await commands.thread_for(request.person, thread_id)
    state = await following.state_now(eventlog.channel_of(row.pk), row)
    try:
        command = answer_of(request.POST, state)
    except Invalid as problem:
        return await refused(request, row, problem)
    return await do_command(request, thread_id, command)


@require_POST
@door
async def forget(request: HttpRequest, thread_id: str) -> HttpResponse:
    return await do_command(request, thread_id, Forget(tool=unquote(request.POST.get("tool", ""))))


@require_GET
@door
async def events(request: HttpRequest, thread_id: str) -> HttpResponseBase:
    """See `thread_events`, which answers this before Django where it can."""
    row = await commands.thread_for(request.person, thread_id)
    credential = Credential(session_key=request.session.session_key)
    try:
        reply = await thread_events.answer(
            credential, row, request.GET.dict(), request.headers.get("Last-Event-ID", "")
        )
    except Missing:
        raise
    except Problem as problem:
        reply = refusal(problem)
    return as_django(reply)
