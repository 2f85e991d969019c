"""The page's door. A handler validates into a command and hands it on.

With htmx (`HX-Request`) a command answers 204 and the news come by the stream; what goes wrong is a sentence for
the composer, and what was typed stays where it is. Without JavaScript the same forms post plainly: 303 back to the
thread, or the page again with the sentence and the typed text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any
from urllib.parse import unquote

from django.contrib.auth import get_user
from django.contrib.auth.views import redirect_to_login
from django.db.models import F
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    QueryDict,
)
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST, require_safe
from pydantic import ValidationError

from agent.text import storable
from chatsite.chat import (
    access,
    actions_steering,
    choosing,
    commands,
    db,
    eventlog,
    following,
    reading,
    rounds,
    thread_events,
    uploads,
)
from chatsite.chat.access import Credential
from chatsite.chat.agents import DEMO, catalog_for
from chatsite.chat.api_doors import as_django
from chatsite.chat.api_values import refusal
from chatsite.chat.command_values import Answer, Command, Continue, Edit, Forget, OneAnswer, Retry, Send, Stop
from chatsite.chat.models import Run, Thread
from chatsite.chat.problems import Invalid, Missing, Problem
from chatsite.chat.render.context import Typed
from chatsite.chat.render.fields import Unreadable, name_of, read_arguments
from chatsite.chat.render.fragments import render_page
from chatsite.chat.render.picker import models_in
from chatsite.chat.render.words import PROBLEM_WORDS
from chatsite.chat.screens import rendered
from chatsite.chat.state import InterruptView, ThreadState

THREADS_IN_LIST = 200
QUOTE_CHARS = 20_000
DRAFT_CHARS = 2000
"""Of `/?draft=`, by which a link fills the composer without JavaScript."""

View = Callable[..., Awaitable[HttpResponseBase]]


def door(view: View) -> View:
    """A handler for a logged-in person whose problems become words: 404 as a page, the rest by `refused`."""

    @wraps(view)
    async def handle(request: HttpRequest, **captured: str) -> HttpResponseBase:
        # Not `auser()`: what a request's own thread opens stays open until its response ends, and a stream's
        # ends when the tab is closed.
        request.person = request.user = await db.read(get_user, request)
        if not request.person.is_authenticated:
            return redirect_to_login(_place_of(request, captured))
        rounds.begin()
        try:
            return await view(request, **captured)
        except Missing:
            return await _not_found(request)
        except Problem as problem:
            return await refused(request, None, problem)

    return handle


@require_safe
@door
async def home(request: HttpRequest) -> HttpResponse:
    draft, deleted = request.GET.get("draft", "")[:DRAFT_CHARS], request.GET.get("deleted", "")
    preset = request.GET.get("preset")
    deleted = deleted if access.sane_thread_id(deleted) else ""
    return await _page(request, None, draft=draft, deleted=deleted, preset=preset)


@require_safe
@door
async def thread(request: HttpRequest, thread_id: str) -> HttpResponse:
    row = await commands.thread_for(request.person, thread_id)
    if by_htmx(request) and (more := await reading.more(row, request.GET)) is not None:
        return more
    places = {name: request.GET.get(name, "") for name in ("before", "at")}
    return await _page(request, row, **places, **await db.read(_asked_for, row, request.GET))


@require_POST
@door
async def create(request: HttpRequest) -> HttpResponse:
    try:
        done = await commands.begin_thread(request.person, await _send_of(request), door="page")
    except Missing:
        raise
    except Problem as problem:
        return await refused(request, None, problem)
    return _to(request, reverse("chat:thread", args=[done.thread.public_id]))


@require_POST
@door
async def send(request: HttpRequest, thread_id: str) -> HttpResponse:
    row = await commands.thread_for(request.person, thread_id)
    try:
        command: Command = await _send_of(request)
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
        command = _answer_of(request.POST, state)
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


# -- the pieces ----------------------------------------------------------------------------------------------


def _place_of(request: HttpRequest, captured: Mapping[str, str]) -> str:
    """Where somebody goes on once they are logged in: the page itself, or the one whose form they sent."""
    if request.method in {"GET", "HEAD"}:
        return request.get_full_path()
    thread_id = captured.get("thread_id")
    return reverse("chat:thread", args=[thread_id]) if thread_id is not None else reverse("chat:home")


async def _send_of(request: HttpRequest) -> Send:
    """A page with JavaScript has uploaded its files before; a plain form brings them along."""
    ids = request.POST.getlist("attachment")[:100]
    for file in request.FILES.getlist("files")[:100]:
        row = await uploads.take(request.person, file.name, uploads.pieces_of_form(file), file.size)
        ids.append(row.public_id)
    return Send(
        # A form sends its line breaks as CRLF, whatever was typed.
        text=request.POST.get("text", "").replace("\r\n", "\n"),
        client_id=request.POST.get("client_id", ""),
        model=request.POST.get("model", ""),
        attachments=ids,
        preset=request.POST.get("preset", ""),
    )


def _asked_for(row: Thread, query: QueryDict) -> dict[str, str]:
    """What a link fills the page with, for whoever has no script: a message to edit or to quote, one to take back."""
    if (edits := storable(query.get("edit", ""))[:200]) and (text := actions_steering.text_of(row, edits)):
        return {"edits": edits, "draft": text}
    if quoted := actions_steering.text_of(row, storable(query.get("quote", ""))[:200]):
        return {"draft": "".join(f"> {line}\n" for line in quoted[:QUOTE_CHARS].splitlines()) + "\n"}
    return {"removed": query.get("removed", "")[:200]}


def _answer_of(form: QueryDict, state: ThreadState) -> Answer:
    """The answers in a form of `render.asking`. Raises Invalid for what cannot be read or is not there."""
    known = {question.id: question for question in state.interrupts}
    posted = dict(form.lists())
    try:
        answers = [
            _one_answer(known.get(unquote(id)) or InterruptView(unquote(id), "", "", ""), posted)
            for id in dict.fromkeys(form.getlist("q"))
        ]
        return Answer(answers=answers)
    except Unreadable as unreadable:
        raise Invalid(str(unreadable)) from None
    except ValidationError:
        raise Invalid(gettext("Choose an answer for each question, then send.")) from None


def _one_answer(question: InterruptView, posted: Mapping[str, Sequence[str]]) -> OneAnswer:
    def said(step: str) -> str:
        return (posted.get(name_of(question, step)) or [""])[-1]

    status = said("do")
    return OneAnswer(
        interrupt_id=question.id,
        status=status,
        edited_args=read_arguments(question, posted) if status == "approved" else None,
        reason=storable(said("reason").replace("\r\n", "\n").strip())[:2000] if status == "denied" else "",
        always=bool(said("always")),
    )


async def do_command(request: HttpRequest, thread_id: str, command: Command) -> HttpResponse:
    try:
        await commands.perform(request.person, thread_id, command, door="page")
    except Missing:
        raise
    except Problem as problem:
        return await refused(request, await commands.thread_for(request.person, thread_id), problem)
    if by_htmx(request):
        return HttpResponse(status=204, headers={"HX-Trigger": f"threadloom:{_past(command)}"})
    return HttpResponseRedirect(reverse("chat:thread", args=[thread_id]), status=303)


def _past(command: Command) -> str:
    return {
        "send": "sent",
        "stop": "stopped",
        "retry": "retried",
        "edit": "edited",
        "branch": "branched",
        "remove": "removed",
        "restore": "restored",
        "continue": "continued",
        "answer": "answered",
        "forget": "forgotten",
        "organize": "organized",
        "configure": "configured",
    }[command.type]


def _to(request: HttpRequest, url: str) -> HttpResponse:
    if by_htmx(request):
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return HttpResponseRedirect(url, status=303)


async def refused(request: HttpRequest, row: Thread | None, problem: Problem) -> HttpResponse:
    said = PROBLEM_WORDS.get(problem.code, str(problem))
    if by_htmx(request):
        words = format_html('<p class="notice error" role="alert">{}</p>', said)
        return HttpResponse(words, status=problem.status, headers=problem.headers)
    draft = request.POST.get("text", "")
    typed = dict(request.POST.lists())
    page = await _page(
        request,
        row,
        notice=said,
        draft=draft,
        typed=typed,
        edits=request.POST.get("edits", "")[:200],
        preset=request.POST.get("preset"),
        status=problem.status,
    )
    for name, value in problem.headers.items():
        page.headers[name] = value
    return page


async def _not_found(request: HttpRequest) -> HttpResponse:
    if by_htmx(request):
        words = gettext("This thread is not here any more. Copy what you wrote and start a new one.")
        return HttpResponse(format_html('<p class="notice error" role="alert">{}</p>', words), status=404)
    return await db.read(render, request, "404.html", status=404)


async def _page(
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


def by_htmx(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"
