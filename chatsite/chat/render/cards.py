"""Tool calls as cards, and files as notes: everything shown of them is escaped, and stands inside `hx-ignore`.

A card is a `<details>` that stays on the page; only the pieces in it that change are sent again, so one that
somebody opened stays open.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from agent.messages import FilePart, ImagePart, TextPart, ToolCallPart, ToolResultPart
from chatsite.chat.render import words
from chatsite.chat.render.asking import changed, form_html, mark_of, receipt_html
from chatsite.chat.render.blocks import blocks_of, tidy
from chatsite.chat.render.code import code_html
from chatsite.chat.render.context import Context, Question
from chatsite.chat.render.escaping import escape
from chatsite.chat.render.markdown import clean
from chatsite.chat.render.one_field import json_text
from chatsite.chat.render.within import progress_html

MAX_SHOWN = 40_000
"""Characters shown of one call's arguments or result; what is behind is counted, not shown."""


def call_pieces(id: str, call: ToolCallPart, context: Context, number: int) -> dict[str, str]:
    """The parts of a card that change: a glance at it, state, question, arguments, result."""
    result, questions = context.results[number], context.questions[number]
    beside = context.beside[number] if context.beside else {}
    state = _state_of(call, context, number)
    if context.is_open:
        # Arguments are shown when they are whole: half of them say little, and sending them again at each
        # step would cost the square of their length.
        arguments, more = "", words.count(len(call.arguments), "character")
    else:
        arguments, more = call.used_arguments, words.duration(result.duration_ms if result else None)
    return {
        f"{id}b": _glance(f"{id}b", arguments, context.progress[number] if context.progress else None),
        f"{id}s": f'<span id={id}s class="st {state.look}">{state.word}<small>{escape(more)}</small></span>',
        f"{id}q": _questions(f"{id}q", call, questions),
        f"{id}a": f"<div id={id}a hx-ignore>{_arguments(call, arguments, questions)}{_given(beside)}</div>",
        f"{id}r": f"<div id={id}r hx-ignore>{_result(result, beside)}</div>",
    }


def card(
    id: str, call: ToolCallPart, pieces: dict[str, str], questions: Sequence[Question], within: str
) -> str:
    """A whole card, with the run `within` it; open when it waits for a person."""
    brief, state, *rest = pieces.values()
    name = f"<b hx-ignore>{escape(words.plain(call.name))}</b>"
    opened = " open" if any(question.view.open for question in questions) else ""
    head = f"<summary>{name}{brief}{state}</summary>"
    return f"<details id={id} class=call{opened}>{head}{''.join(rest)}{within}</details>"


def _glance(id: str, arguments: str, progress: Any) -> str:
    """What the folded card says beside its name. Progress takes this place, whose height does not change."""
    if progress is not None:
        return f'<span id={id} class="brief going" hx-ignore>{progress_html(progress)}</span>'
    return f"<span id={id} class=brief hx-ignore>{escape(_brief(arguments))}</span>"


def _state_of(call: ToolCallPart, context: Context, number: int) -> words.CallState:
    result, questions = context.results[number], context.questions[number]
    if result is not None:
        return words.call_state(result.error)
    if call.provider_executed:
        return words.PREPARING if context.is_open else words.BY_PROVIDER
    if any(question.view.open for question in questions):
        return words.WAITING_FOR_YOU
    own = _own(call, questions)
    if own is not None and own.view.status in ("denied", "cancelled"):
        return words.CALL_WORDS[own.view.status]
    if "active" in (context.run_state, context.taken_up):
        return words.PREPARING if context.is_open else words.RUNNING
    if context.taken_up:
        return words.TAKEN_UP_NO_RESULT.get(context.taken_up, words.NOTHING_CAME)
    return words.NO_RESULT.get(context.run_state, words.NOTHING_CAME)


def _own(call: ToolCallPart, questions: Sequence[Question]) -> Question | None:
    """The question about the call itself, and not about one that it made in its turn."""
    return next((question for question in questions if question.view.tool_name == call.name), None)


def _questions(id: str, call: ToolCallPart, questions: Sequence[Question]) -> str:
    """All that was asked about a call. What is open is answered at once, so it comes and goes as one piece."""
    if not questions:
        return f"<div id={id}></div>"
    marks = " ".join(mark_of(question) for question in questions if question.view.open)
    mark = f' data-q="{marks}"' if marks else ""
    own = _own(call, questions)
    shown = "".join(
        form_html(f"{id}{number}", question)
        if question.view.open
        else receipt_html(question.view)
        if question is own
        else f"{receipt_html(question.view, question.view.tool_name)}{_versions_within(question)}"
        for number, question in enumerate(questions)
    )
    return f"<div id={id}{mark} hx-ignore>{shown}</div>"


def _arguments(call: ToolCallPart, arguments: str, questions: Sequence[Question]) -> str:
    """The arguments, and beside them the model's own where a person changed them."""
    own = _own(call, questions)
    if own is not None and own.view.open and not own.over:
        return ""  # they stand in the form
    edited = call.edited
    if edited is None and own is not None and own.view.status == "approved" and changed(own.view):
        edited = json_text(own.view.edited)
    if edited is not None:
        return _both(call.arguments, edited)
    shown = pretty(arguments)
    return f"<p class=lab>{_('Arguments')}</p>{_code(shown)}" if shown.strip() else ""


def _versions_within(question: Question) -> str:
    """The arguments of a call that the card's own call made; they stand nowhere else."""
    view = question.view
    written = json_text(view.input)
    return _both(written, json_text(view.edited)) if changed(view) else _code(written)


def _both(written: str, edited: str) -> str:
    return (
        f"<div class=two><div><p class=lab>{_('The assistant wrote')}</p>{_code(pretty(written))}</div>"
        f"<div><p class=lab>{_('Approved instead')}</p>{_code(pretty(edited))}</div></div>"
    )


def _given(beside: Mapping[str, Any]) -> str:
    """The arguments that the tool got, where a rule of the server changed them."""
    given = beside.get("transformedArguments")
    if not isinstance(given, str):
        return ""
    return f"<p class=lab>{_('What the tool was given')}</p>{_code(pretty(given))}"


def _result(result: ToolResultPart | None, beside: Mapping[str, Any]) -> str:
    """The whole result; what the model read of it is folded, where that is another text."""
    if result is None:
        return ""
    label, full = f"<p class=lab>{_('Result')}</p>", beside.get("full")
    shown_as = _answer if "subagent" in beside else _code
    if isinstance(full, str) and result.error is None:
        saw = _result(result, {}).removeprefix(label)
        return f"{label}{shown_as(pretty(full))}{_folded(_('What the model saw'), saw)}"
    if isinstance(result.content, str):
        texts, others = [result.content], []
    else:
        texts = [part.text for part in result.content if isinstance(part, TextPart)]
        others = [part for part in result.content if not isinstance(part, TextPart)]
    if result.error is not None:
        said, code = _error_message(texts[0] if texts else ""), words.plain(result.error)
        if words.call_state(result.error).look == "idle":  # nothing failed: it did not come to it
            return f"<p class=lab>{_('What the assistant was told')}</p><p class=raw>{escape(said)}</p>"
        given = _folded(_("What the tool gave"), _code(pretty(full))) if isinstance(full, str) else ""
        error = (
            f"<p class=lab>{_('Error')}</p><p class=err>{escape(said)}</p><p class=note>{escape(code)}</p>"
        )
        return f"{error}{given}"
    shown = "".join(shown_as(pretty(text)) for text in texts)
    return f"{label}{shown}" + "".join(f"<p class=note>{attachment(part)}</p>" for part in others)


def _folded(head: str, html: str) -> str:
    return f"<details class=fold><summary>{head}</summary>{html}</details>"


def _error_message(content: str) -> str:
    """The sentence of `{"error": "..."}`, or the content as it is."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return content[:MAX_SHOWN]
    message = value.get("error") if isinstance(value, dict) else None
    return message[:MAX_SHOWN] if isinstance(message, str) else content[:MAX_SHOWN]


def _brief(arguments: str) -> str:
    """The arguments in half a line, for the folded card: the plain values of an object."""
    try:
        value = json.loads(arguments) if 0 < len(arguments) < 4_000 else None
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict):
        return ""
    return words.plain(", ".join(str(each) for each in value.values() if isinstance(each, str | int | float)))


@lru_cache(maxsize=256)
def pretty(text: str) -> str:
    """JSON set out in lines; anything else as it is."""
    if len(text) > MAX_SHOWN:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _code(text: str) -> str:
    text = tidy(text)
    looks_json = text[:1] in "{[" and len(text) < 4_000
    shown = code_html(text[:MAX_SHOWN], "json" if looks_json else "")
    return f"<pre{scrolls(text)}>{shown}</pre>{_behind(text)}"


def _answer(text: str) -> str:
    """What a subagent said, as any answer is shown; where it had to fill in a form, that is data like a tool's."""
    text = tidy(text)
    if _is_data(text):
        return _code(text)
    blocks = "".join(f"<div>{html}</div>" for html in blocks_of(text[:MAX_SHOWN]))
    return f"<div class=md dir=auto>{blocks}</div>{_behind(text)}"


def _is_data(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _behind(text: str) -> str:
    """How much of it is not shown; "" where all is."""
    rest = len(text) - MAX_SHOWN
    behind = _("and %(characters)s more") % {"characters": words.count(rest, "character")}
    return f"<p class=note>{behind}</p>" if rest > 0 else ""


def scrolls(text: str) -> str:
    """The attribute that lets the keyboard reach a text that is likely to scroll in its box."""
    return " tabindex=0" if len(text) > 800 or text.count("\n") > 14 else ""


_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


_REFERENCE = re.compile(r"attachment:([A-Za-z0-9_-]{1,64})")
_KIND_WORDS = {"application/pdf": "PDF", "text/plain": lazy("Text"), "audio/wav": "WAV", "audio/mpeg": "MP3"}


def kept_file(part: ImagePart | FilePart) -> str:
    """A file that lies on this server: its address is relative, so that each page asks its own door. "" for others."""
    match = _REFERENCE.fullmatch(part.url or "")
    if match is None:
        return ""
    address, name = f"attachments/{match[1]}", escape(words.plain(part.name or _("file")))
    if isinstance(part, ImagePart):
        picture = f'<img src="{address}" alt="{name}" loading=lazy>'
        # The whole one is loaded when it is shown. A link could only save it: files are served as downloads.
        return (
            f'<button type=button class=thumb popovertarget=f-{match[1]} title="{name}">{picture}</button>'
            f'<div id=f-{match[1]} class=whole popover>{picture}<a href="{address}" download>{name}</a></div>'
        )
    kind = escape(str(_KIND_WORDS.get(part.mime_type or "", _("File"))))
    return f'<a class=file href="{address}" download><b>{name}</b><small>{kind}</small></a>'


def attachment(part: ImagePart | FilePart) -> str:
    if isinstance(part, ImagePart) and part.data and part.mime_type in _IMAGE_TYPES:
        if _BASE64.fullmatch(part.data):
            return f'<img alt="{_("attached image")}" src="data:{part.mime_type};base64,{part.data}">'
        return _("an image that cannot be read")
    what = _("attached image") if isinstance(part, ImagePart) else _("attached file")
    name = words.plain(getattr(part, "name", None) or "") or what
    return clean(f'<a href="{escape(part.url)}">{escape(name)}</a>') if part.url else escape(name)
