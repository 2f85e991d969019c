"""What the page's forms and links say, as commands. Raises Invalid, in words, for what cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext
from pydantic import ValidationError

from agent.text import storable
from chatsite.chat.actions import steering
from chatsite.chat.commands.values import Answer, OneAnswer, Send
from chatsite.chat.files import uploads
from chatsite.chat.models import Thread
from chatsite.chat.problems import Invalid
from chatsite.chat.render.fields import name_of, read_arguments
from chatsite.chat.render.one_field import Unreadable
from chatsite.chat.state import InterruptView, ThreadState

QUOTE_CHARS = 20_000


async def send_of(request: HttpRequest) -> Send:
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


def asked_for(row: Thread, query: QueryDict) -> dict[str, str]:
    """What a link fills the page with, for whoever has no script: a message to edit or to quote, one to take back."""
    if (edits := storable(query.get("edit", ""))[:200]) and (text := steering.text_of(row, edits)):
        return {"edits": edits, "draft": text}
    if quoted := steering.text_of(row, storable(query.get("quote", ""))[:200]):
        return {"draft": "".join(f"> {line}\n" for line in quoted[:QUOTE_CHARS].splitlines()) + "\n"}
    return {"removed": query.get("removed", "")[:200]}


def answer_of(form: QueryDict, state: ThreadState) -> Answer:
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
