"""What the page's handlers share: who may come in, how a command is answered, how what goes wrong is said.

With htmx (`HX-Request`) a command answers 204 and the news come by the stream; what goes wrong is a sentence for
the composer, and what was typed stays where it is. Without JavaScript the same forms post plainly: 303 back to the
thread, or the page again with the sentence and the typed text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps

from django.contrib.auth import get_user
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext

from chatsite.chat import commands, db
from chatsite.chat.commands.values import Command
from chatsite.chat.models import Thread
from chatsite.chat.problems import Missing, Problem
from chatsite.chat.process import rounds
from chatsite.chat.render.words import PROBLEM_WORDS
from chatsite.chat.views.page import page_of

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


def _place_of(request: HttpRequest, captured: Mapping[str, str]) -> str:
    """Where somebody goes on once they are logged in: the page itself, or the one whose form they sent."""
    if request.method in {"GET", "HEAD"}:
        return request.get_full_path()
    thread_id = captured.get("thread_id")
    return reverse("chat:thread", args=[thread_id]) if thread_id is not None else reverse("chat:home")


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


def sent_to(request: HttpRequest, url: str) -> HttpResponse:
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
    page = await page_of(
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


def by_htmx(request: HttpRequest) -> bool:
    return request.headers.get("HX-Request") == "true"
