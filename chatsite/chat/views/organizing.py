"""The page's doors to threads as a whole: find, name, put away, throw away and back, share, take out and in.

Plain forms and links; each answers with a page or a redirect.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agent.text import storable
from chatsite.chat import commands, db, demothread, store
from chatsite.chat.actions import organizing
from chatsite.chat.commands.values import Organize
from chatsite.chat.models import Thread
from chatsite.chat.problems import Invalid, Missing, Problem, TooLong
from chatsite.chat.readers.screens import rendered
from chatsite.chat.render.fragments import render_transcript
from chatsite.chat.rows import search
from chatsite.chat.transfer import attached, markdown, moving, packed, shape
from chatsite.chat.views.door import door, refused

MOST_LISTED = 500


@require_safe
@door
async def find(request: HttpRequest) -> HttpResponse:
    query = storable(request.GET.get("q", ""))[: search.MAX_QUERY]
    hits = await db.read(search.find, request.person.pk, query)
    return await db.read(render, request, "chat/search.html", {"query": query, "hits": hits})


@require_safe
@door
async def archive(request: HttpRequest) -> HttpResponse:
    imported = request.GET.get("imported", "")
    count = int(imported) if re.fullmatch(r"[1-9][0-9]{0,3}", imported) else 0
    return await _archive(request, done=_imported(count) if count else "")


async def _archive(request: HttpRequest, notice: str = "", status: int = 200, done: str = "") -> HttpResponse:
    context = await db.read(_put_away, request.person.pk)
    context["done"] = done
    return await db.read(render, request, "chat/archive.html", context | {"notice": notice}, status=status)


def _put_away(user_pk: int) -> dict[str, Any]:
    threads = Thread.objects.filter(owner_id=user_pk)
    archived = threads.filter(archived_at__isnull=False, deleted_at=None).order_by("-archived_at")
    deleted = threads.filter(deleted_at__gt=timezone.now() - organizing.KEPT_DELETED).order_by("-deleted_at")
    return {"archived": list(archived[:MOST_LISTED]), "deleted": list(deleted[:MOST_LISTED])}


@require_POST
@door
async def organize(request: HttpRequest, thread_id: str) -> HttpResponse:
    asked = {name: request.POST[name] for name in ("pinned", "archived", "deleted") if name in request.POST}
    if "title" in request.POST:
        asked["title"] = request.POST["title"]
    try:
        command = Organize.model_validate(asked)
    except ValueError:
        raise Invalid(gettext("Choose what to change, then send.")) from None
    try:
        await commands.perform(request.person, thread_id, command, door="page")
    except Invalid as problem:
        return await refused(request, await commands.thread_for(request.person, thread_id), problem)
    if command.deleted:
        return _to(f"{reverse('chat:home')}?deleted={thread_id}")
    return _to(reverse("chat:thread", args=[thread_id]))


@require_POST
@door
async def restore(request: HttpRequest, thread_id: str) -> HttpResponse:
    thread = await db.write(organizing.restore, request.person, thread_id)
    return _to(reverse("chat:thread", args=[thread.public_id]))


# -- links for readers ---------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@door
async def share(request: HttpRequest, thread_id: str) -> HttpResponse:
    thread = await commands.thread_for(request.person, thread_id)
    notice, status = "", 200
    if request.method == "POST":
        try:
            await _change_links(request, thread)
            return _to(reverse("chat:share", args=[thread_id]))
        except Invalid as problem:
            notice, status = str(problem), problem.status
    links = await db.read(lambda: list(organizing.shares_of(thread)))
    shown = [(link, request.build_absolute_uri(reverse("chat:shared", args=[link.token]))) for link in links]
    context = {"thread": thread, "links": shown, "notice": notice}
    return await db.read(render, request, "chat/share.html", context, status=status)


async def _change_links(request: HttpRequest, thread: Thread) -> None:
    if token := request.POST.get("revoke"):
        await db.write(organizing.unshare, thread=thread, token=token)
        return
    asked = request.POST.get("days", "").strip()
    if asked and not (asked.isascii() and asked.isdigit() and len(asked) < 6):
        raise Invalid(gettext("Write the number of days as a whole number, or leave it empty."))
    await db.write(
        organizing.share,
        thread=thread,
        by=request.person,
        live=request.POST.get("form") == "live",
        days=int(asked) if asked else None,
    )


@require_safe
async def shared(request: HttpRequest, token: str) -> HttpResponse:
    """What anybody reads who has the link. It says nothing of who shared it, and no search engine keeps it."""
    found = await db.read(organizing.shared, token)
    if found is None:
        return await db.read(render, request, "404.html", {"shared": True}, status=404)
    link, state = found
    html = await rendered(state, partial(render_transcript, own=False), state)
    context = {"link": link, "state": state, "transcript_html": html}
    response = await db.read(render, request, "chat/shared.html", context)
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    response.headers["Referrer-Policy"] = "no-referrer"
    patch_cache_control(response, private=True, no_store=True)
    return response


# -- files ---------------------------------------------------------------------------------------------------


@require_safe
@door
async def export(request: HttpRequest, thread_id: str, kind: str) -> HttpResponse:
    thread = await commands.thread_for(request.person, thread_id)
    if kind == "json":
        text, content_type = await db.read(_file_text, thread), "application/json"
    else:
        of = storable(request.GET.get("of", ""))
        text, content_type = await db.read(_markdown, thread, of), "text/markdown"
    response = HttpResponse(text, content_type=f"{content_type}; charset=utf-8")
    response.headers["Content-Disposition"] = (
        f'attachment; filename="{moving.file_name(thread.title)}.{kind}"'
    )
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _markdown(thread: Thread, of: str) -> str:
    """The branch that is shown; with the id of a message, the answer that this is a part of, as the model wrote it."""
    state = store.load_state(thread)
    text = markdown.answer_of(state, of) if of else markdown.markdown_of(state)
    if text is None:
        raise Missing
    return text


def _file_text(thread: Thread) -> str:
    return attached.with_bytes(moving.file_of(thread), thread).as_json()


@require_POST
@door
async def take_in(request: HttpRequest) -> HttpResponse:
    taken: list[Thread] = []
    try:
        upload = request.FILES.get("file")
        if upload is None:
            raise Invalid(gettext("Choose the file of a thread that was exported here, then send it."))
        if upload.size is None or upload.size > shape.MAX_BYTES:
            raise TooLong(shape.too_large())
        several = await db.read(lambda: packed.is_one(upload))
        if several:
            await db.read(lambda: packed.check(upload))  # all of it, before anything is taken in
        texts = packed.threads_in(upload) if several else iter([("", upload)])
        while (found := await db.read(next, texts, None)) is not None:
            taken.append(await _taken(request, found[1], to_be_seen=not several))
    except Missing:
        raise
    except Problem as problem:
        said = f"{_imported(len(taken))} {problem}" if taken else str(problem)
        return await _archive(request, said, problem.status)
    if several:
        return _to(f"{reverse('chat:archive')}?imported={len(taken)}")
    return _to(reverse("chat:thread", args=[taken[0].public_id]))


async def _taken(request: HttpRequest, content: Any, *, to_be_seen: bool) -> Thread:
    """Who brings one thread wants to see it, wherever it lay; many come to where they were."""
    file = await db.read(lambda: shape.read_file(content if isinstance(content, bytes) else content.read()))
    if to_be_seen:
        file = file.model_copy(update={"archived": None, "deleted": None})
    file = await attached.kept(request.person, file)
    return await db.write(moving.take_in, request.person, file)


def _imported(count: int) -> str:
    words = ngettext("One thread was imported.", "%(count)s threads were imported.", count)
    return words % {"count": count}


@require_POST
@door
async def tour(request: HttpRequest) -> HttpResponse:
    """A thread in which each state can be seen."""
    thread = await db.write(demothread.make, request.person)
    return _to(reverse("chat:thread", args=[thread.public_id]))


def _to(url: str) -> HttpResponse:
    return HttpResponseRedirect(url, status=303)
