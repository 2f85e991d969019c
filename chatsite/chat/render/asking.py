"""The question whether a call may run, as a form in a card; and what was answered.

Rule 1: the HTML of an open question depends on the question alone, so it is sent once, and nobody's typing is replaced.
Rule 2: the form itself stands on the page (`#answer-form`, with its token); the controls here belong to it by `form`.
So all open questions of a thread are one form, wherever their cards are, and it works without JavaScript.

    control                  holds
    q                        the question's id, once for each
    <id>.do                  approved, denied or cancelled: the button that was pressed, or the choice that was made
    <id>.arg.<name>          an argument (`fields`); `<id>.all` all of them
    <id>.reason              why not
    <id>.always              tick: allow the tool in this thread from now on
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatsite.chat.render import words
from chatsite.chat.render.blocks import tidy
from chatsite.chat.render.context import Question
from chatsite.chat.render.escaping import escape
from chatsite.chat.render.fields import control, fields_of, in_attribute, name_of
from chatsite.chat.render.links import questions_told
from chatsite.chat.render.one_field import Field, json_text
from chatsite.chat.render.swaps import short_id
from chatsite.chat.state import InterruptView, ThreadState

FORM = "form=answer-form"
MOST_ROWS = 12
ROW = 60
"""About how many characters stand in a row of a box, for a browser that does not grow it by itself."""


def form_html(id: str, question: Question) -> str:
    """An open question."""
    return (
        f"<div class=ask role=group aria-labelledby={id}w>"
        f'<input type=hidden name=q value="{in_attribute(question.view.id)}" {FORM}>'
        # The form's first button is what Enter in a line presses: this one does nothing.
        f"<button hidden disabled {FORM}></button>"
        f"<p id={id}w class=wants>{escape(_sentence(question.view))}</p>"
        f"{_until(question)}{'' if question.over else _fields(id, question)}{_choice(question)}</div>"
    )


def mark_of(question: Question) -> str:
    """What tells the page that it shows this very form already."""
    return short_id("o" if question.over else "q", question.view.id)


def _sentence(view: InterruptView) -> str:
    """The tool's own words; what the loop says where it has none is English, and here in the reader's language."""
    said, of_the_loop = words.plain(view.message, 300), f"The assistant wants to use {view.tool_name}."
    if said and said != words.plain(of_the_loop, 300):
        return said
    return _("The assistant wants to use %(tool)s.") % {"tool": words.plain(view.tool_name)}


def _until(question: Question) -> str:
    if question.over:
        return f"<p class=note>{words.PROBLEM_WORDS['interrupt_expired']}</p>"
    at = question.view.expires_at
    until = _("You can answer until %(moment)s.") % {"moment": moment_html(at)}
    return f"<p class=note>{until}</p>" if words.moment(at or "") else ""


def moment_html(iso: str | None) -> str:
    at = words.moment_of(iso)
    return f'<time datetime="{at:%Y-%m-%dT%H:%M:%SZ}">{words.moment(iso or "")}</time>' if at else ""


# -- the arguments -------------------------------------------------------------------------------------------


def _fields(id: str, question: Question) -> str:
    fields = fields_of(question.view)
    if not fields:
        return f"<p class=note>{_('It takes no arguments.')}</p>"
    shown = "".join(_field(f"{id}{place}", question, field) for place, field in enumerate(fields))
    return f"<div class=fields>{shown}</div>"


def _field(id: str, question: Question, field: Field) -> str:
    name = control(question.view, field)
    attributes = f'id={id} name="{name}" {FORM}'
    if field.hint:
        attributes += f" aria-describedby={id}h"
    text = _typed(question, name, field.shown)
    hint = f"<small id={id}h>{escape(field.hint)}</small>" if field.hint else ""
    needed = f" <small>{_('required')}</small>" if field.required and field.name is not None else ""
    label = f"<label for={id}>{escape(field.label)}{needed}</label>{hint}"
    match field.kind:
        case "flag":
            tick = " checked" if text == "on" else ""
            return (
                f'<p class=check><input type=hidden name="{name}" value=off {FORM}>'
                f"<input type=checkbox value=on {attributes}{tick}>{label}</p>"
            )
        case "choice":
            return f"<p>{label}<select {attributes}>{_options(field, text)}</select></p>"
        case "long":
            size = {"characters": words.count(len(text), "character")}
            long = _("Too long to be changed here: %(characters)s. It begins:") % size
            return (
                f"<p><b>{escape(field.label)}</b>{hint}</p><p class=note>{long}</p>"
                f"<pre tabindex=0>{escape(text[:2000])}</pre>"
            )
        case "integer" | "number" | "line" if "<" not in text:
            mode = {"integer": " inputmode=numeric", "number": " inputmode=decimal"}.get(field.kind, "")
            return f'<p>{label}<input {attributes} value="{escape(text)}" autocomplete=off{mode}></p>'
    code = " class=code spellcheck=false" if field.kind == "json" else ""
    # A newline right behind the tag is not part of the text.
    return f"<p>{label}<textarea {attributes} rows={_rows(text)}{code}>\n{escape(text)}</textarea></p>"


def _options(field: Field, chosen: str) -> str:
    places = [str(place) for place in range(len(field.choices))]
    shown = [
        (place, choice if isinstance(choice, str) and choice else json_text(choice))
        for place, choice in zip(places, field.choices, strict=True)
    ]
    if chosen not in places or field.nullable or not field.required:
        shown.insert(0, ("", _("not set")))
    return "".join(
        f'<option value="{place}"{" selected" if place == chosen else ""}>{escape(words.plain(text))}</option>'
        for place, text in shown
    )


def _rows(text: str) -> int:
    return min(MOST_ROWS, sum(1 + len(line) // ROW for line in text.split("\n")))


def _typed(question: Question, name: str, shown: str) -> str:
    posted: Sequence[str] = (question.typed or {}).get(name, ())
    return tidy(posted[-1]) if posted else shown


# -- the answer ----------------------------------------------------------------------------------------------


def _choice(question: Question) -> str:
    return _buttons(question) if question.alone else _radios(question)


def _buttons(question: Question) -> str:
    def button(status: str, word: str, look: str) -> str:
        return f'<button class={look} name="{name_of(question.view, "do")}" value={status} {FORM}>{word}</button>'

    if question.over:
        return f"<div class=choose>{button('cancelled', _('Cancel'), 'act')}</div>"
    return (
        f"<div class=choose>{button('approved', _('Approve'), 'yes')}{_always(question)}"
        f"{button('denied', _('Deny'), 'act')}{_reason(question)}"
        f"{button('cancelled', _('Cancel'), 'act')}<small>{_('Set it aside: nothing runs.')}</small></div>"
    )


def _radios(question: Question) -> str:
    name = name_of(question.view, "do")
    chosen = _typed(question, name, "cancelled" if question.over else "")

    def radio(status: str, word: str) -> str:
        tick = " checked" if status == chosen else ""
        return (
            f'<label class=check><input type=radio name="{name}" value={status} required {FORM}{tick}>'
            f"{word}</label>"
        )

    legend = f"<legend>{_('Your answer')}</legend>"
    if question.over:
        return f"<fieldset class=pick>{legend}{radio('cancelled', _('Cancel'))}</fieldset>"
    return (
        f"<fieldset class=pick>{legend}{radio('approved', _('Approve'))}{radio('denied', _('Deny'))}"
        f"{radio('cancelled', _('Cancel'))}{_always(question)}{_reason(question)}</fieldset>"
    )


def _always(question: Question) -> str:
    name = name_of(question.view, "always")
    tick = " checked" if _typed(question, name, "") else ""
    tool = f"<b>{escape(words.plain(question.view.tool_name))}</b>"
    allow = _("Always allow %(tool)s in this thread") % {"tool": tool}
    return (
        f'<label class="check always"><input type=checkbox name="{name}" value=on {FORM}{tick}>'
        f"<span>{allow}</span></label>"
    )


def _reason(question: Question) -> str:
    name = name_of(question.view, "reason")
    return (
        f"<label class=reason><span class=hide>{_('Reason for denying')}</span>"
        f'<textarea name="{name}" rows=1 maxlength=2000 placeholder="{_("Reason, if you like")}" {FORM}>'
        f"\n{escape(_typed(question, name, ''))}</textarea></label>"
    )


# -- what came of it -----------------------------------------------------------------------------------------


def receipt_html(view: InterruptView, about: str = "") -> str:
    """Who answered what, and when; `about` names the tool where the card is not its own."""
    status = view.status
    if status == "approved" and changed(view):
        status = "edited"
    if status == "cancelled" and not view.answered_by:
        status = "passed_over"
    said = words.ANSWER_WORDS.get(status, words.plain(status))
    names = f"<b>{escape(words.plain(', '.join(_changed_names(view))))}</b>"
    what = _(" to %(arguments)s") % {"arguments": names} if status == "edited" else ""
    person = f"<b>{escape(words.plain(view.answered_by))}</b>"
    who = _(" by %(person)s") % {"person": person} if view.answered_by else ""
    when = f", {moment_html(view.answered_at)}" if words.moment(view.answered_at) else ""
    reason = f"<blockquote>{escape(view.reason)}</blockquote>" if view.reason else ""
    tool = f"<b>{escape(words.plain(about))}</b>: " if about else ""
    return f"<div class=answered><p>{tool}{escape(str(said))}{what}{who}{when}</p>{reason}</div>"


def changed(view: InterruptView) -> bool:
    """Whether a person approved other arguments than the model's."""
    return view.edited is not None and view.edited != view.input


def _changed_names(view: InterruptView) -> list[str]:
    before = view.input if isinstance(view.input, Mapping) else {}
    after = view.edited or {}
    return [
        name for name in dict.fromkeys([*before, *after]) if before.get(name, _GONE) != after.get(name, _GONE)
    ]


_GONE = object()


# -- around the composer -------------------------------------------------------------------------------------


def standing_html(state: ThreadState) -> str:
    """What stands above the composer: what a message would do to open questions, and the standing rules."""
    open_questions = [question for question in questions_told(state) if question.open]
    hint = ""
    if open_questions:
        cancels = ngettext(
            "Sending a message cancels the question above.",
            "Sending a message cancels the questions above.",
            len(open_questions),
        )
        hint = f"<p id=asking>{cancels}</p>"
    allowed, take_back = _("Always allowed here:"), _("Take back")
    rules = "".join(
        f"<li><span>{allowed} <b>{escape(words.plain(tool))}</b></span> "
        f'<button class=link name=tool value="{in_attribute(tool)}" form=forget-form>{take_back}</button></li>'
        for tool in state.always_allowed
    )
    return f"<div id=standing class=standing hx-ignore>{hint}{f'<ul>{rules}</ul>' if rules else ''}</div>"
