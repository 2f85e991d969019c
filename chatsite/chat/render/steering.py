"""What a person can do with one message, as the row beneath it: the picker between siblings, edit, quote, fork, delete.

Buttons belong to forms of the page (`form=...`), so a row is the same wherever it comes from and holds no token.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote as as_query

from django.utils.translation import gettext_lazy as _

from chatsite.chat.render.escaping import escape
from chatsite.chat.state import ThreadState

WORDS = {
    "edit": _("Edit"),
    "quote": _("Quote"),
    "again": _("Try again"),
    "other": _("Try another model"),
    "fork": _("New thread from here"),
    "remove": _("Delete"),
    "more": _("More"),
    "before": _("Previous version"),
    "after": _("Next version"),
    "versions": _("Versions"),
}


@dataclass(frozen=True, slots=True)
class Pick:
    """Where a message stands among its siblings, from 1, and the ids of its neighbours ("" at an end)."""

    place: int
    count: int
    before: str = ""
    after: str = ""


def picks_of(state: ThreadState) -> dict[str, Pick]:
    """By message id, for the messages shown that have siblings."""
    if not state.forks:
        return {}
    picks: dict[str, Pick] = {}
    behind = ""
    for segment in state.segments:
        for message in segment.messages:
            siblings = state.forks.get(behind, ())
            if message.id not in siblings and siblings:
                siblings = (*siblings, message.id)  # the one that is written now, or just was
            if len(siblings) > 1:
                picks[message.id] = _pick(siblings, siblings.index(message.id))
            behind = message.id
    return picks


def _pick(siblings: tuple[str, ...], place: int) -> Pick:
    return Pick(
        place + 1,
        len(siblings),
        siblings[place - 1] if place else "",
        siblings[place + 1] if place + 1 < len(siblings) else "",
    )


def question_acts(message_id: str, pick: Pick | None) -> str:
    """The row beneath what a person said."""
    edit = f'<a class="do edit" href="{_link("edit", message_id)}">{_word("edit")}</a>'
    return f"<div class=steer>{picker(pick)}{edit}{_more(message_id)}</div>"


def answer_acts(message_id: str, *, again: bool) -> str:
    """What can be done with an answer, for the line behind its run."""
    retry = _button("retry-form", "again", message_id, "do") if again else ""
    return retry + _more(message_id, other_model(message_id))


def picker(pick: Pick | None) -> str:
    if pick is None:
        return ""
    return (
        f'<span class=vers role=group aria-label="{_word("versions")}">{_step(pick.before, "before", "‹")}'
        f"<span>{pick.place} / {pick.count}</span>{_step(pick.after, 'after', '›')}</span>"
    )


def _step(message_id: str, word: str, sign: str) -> str:
    where = f'name=message value="{escape(message_id)}"' if message_id else "disabled"
    return f'<button form=branch-form {where} aria-label="{_word(word)}">{sign}</button>'


def _more(message_id: str, first: str = "") -> str:
    quote = f'<a class="do quote" href="{_link("quote", message_id)}">{_word("quote")}</a>'
    return (
        f'<details class=more><summary aria-label="{_word("more")}" role=button>⋯</summary><span>{first}{quote}'
        f"{_button('fork-form', 'fork', message_id, 'do')}"
        f"{_button('remove-form', 'remove', message_id, 'do')}</span></details>"
    )


def other_model(message_id: str) -> str:
    """The menu of models is the page's; its script tells it what is to be answered anew."""
    return (
        f'<button type=button class="do other" popovertarget=models data-message="{escape(message_id)}">'
        f"{_word('other')}</button>"
    )


def _button(form: str, word: str, message_id: str, look: str) -> str:
    return (
        f'<button class={look} form={form} name=message value="{escape(message_id)}">{_word(word)}</button>'
    )


def _link(word: str, message_id: str) -> str:
    return f"./?{word}={as_query(message_id, safe='')}"


def _word(word: str) -> str:
    return escape(str(WORDS[word]))
