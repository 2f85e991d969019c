"""The page's doors to the branches of a thread: show another one, delete a message and take it back, go on elsewhere.

A form names the message it means. The edit itself comes by `threads.send`, since it is typed where messages are.
"""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from chatsite.chat import commands
from chatsite.chat.commands.values import Branch, Fork, Remove, Restore
from chatsite.chat.problems import Missing, Problem
from chatsite.chat.views.door import by_htmx, do_command, door, refused

UNDO = (
    '<p class="notice undo" role="status">{} '
    '<button class="link" form="take-back-form" name="message" value="{}">{}</button></p>'
)


@require_POST
@door
async def branch(request: HttpRequest, thread_id: str) -> HttpResponse:
    return await do_command(request, thread_id, Branch(message_id=_meant(request)))


@require_POST
@door
async def take_back(request: HttpRequest, thread_id: str) -> HttpResponse:
    return await do_command(request, thread_id, Restore(message_id=_meant(request)))


@require_POST
@door
async def remove(request: HttpRequest, thread_id: str) -> HttpResponse:
    """Answers with the way back."""
    response = await do_command(request, thread_id, Remove(message_id=_meant(request)))
    if response.status_code == 303:
        query = urlencode({"removed": _meant(request)})
        return HttpResponseRedirect(f"{reverse('chat:thread', args=[thread_id])}?{query}", status=303)
    if response.status_code != 204:
        return response
    return HttpResponse(format_html(UNDO, _("The message is deleted."), _meant(request), _("Undo")))


@require_POST
@door
async def fork(request: HttpRequest, thread_id: str) -> HttpResponse:
    try:
        done = await commands.perform(
            request.person, thread_id, Fork(message_id=_meant(request)), door="page"
        )
    except Missing:
        raise
    except Problem as problem:
        return await refused(request, await commands.thread_for(request.person, thread_id), problem)
    url = reverse("chat:thread", args=[done.thread.public_id])
    if by_htmx(request):
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return HttpResponseRedirect(url, status=303)


def _meant(request: HttpRequest) -> str:
    return request.POST.get("message", "")[:200]
