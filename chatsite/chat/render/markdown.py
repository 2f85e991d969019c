"""Markdown to HTML that may be shown: parsed, then cleaned last, by allow-list.

Rule 1: no markup of the model's own survives. HTML in markdown is text; tags come only from the rules of `parsing`.
Rule 2: `clean` is the last thing that touches the HTML, whatever came before it.
Rule 3: no `<` stands in an attribute value, since htmx looks for its own tags in the text of a response.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from django.utils.translation import get_language

from chatsite.chat.render.code import MAX_KEPT, figure, language_of
from chatsite.chat.render.escaping import escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from markdown_it import MarkdownIt

MAX_MARKDOWN = 30_000
"""Characters of one block that are parsed; a longer one is shown as it is."""


def clean(html: str) -> str:
    return _shown_with()[1](html)


@cache
def _shown_with() -> tuple[MarkdownIt, Callable[[str], str]]:
    """Parser and cleaner: 3 MiB, for servers that show pages."""
    from chatsite.chat.render import cleaning, parsing

    return parsing.parser(), cleaning.clean


def block_html(text: str) -> str:
    """One settled block. Kept, since every reader and every reload shows the same ones again."""
    return _kept_html(text, get_language()) if len(text) <= MAX_KEPT else fresh_html(text)


@lru_cache(maxsize=4096)
def _kept_html(text: str, language: str | None) -> str:
    """For each language by itself: a block of code has a button, which says what it does."""
    return fresh_html(text)


def fresh_html(text: str) -> str:
    """As `block_html`, for text that is not worth keeping."""
    if len(text) > MAX_MARKDOWN:
        return _huge_html(text)
    return clean(_BETWEEN_BLOCKS.sub("", _shown_with()[0].render(text))).rstrip("\n")


_BETWEEN_BLOCKS = re.compile(
    r"\n(?=</?(?:[uo]l|li|p|blockquote|table|thead|tbody|t[rhd]|div|h[1-6]|hr|figure)\b)"
)
"""Shows nothing, and each is a line of a server-sent event. In code there is no such tag: it is escaped there. `math`
is none of them: a formula may begin a line of a paragraph, and there the end of the line is the space before it."""


_FENCED = re.compile(r"\s* {0,3}((`|~)\2{2,})([^\n]*)\n(.*?)(?:^ {0,3}\1\2*\s*)?\Z", re.DOTALL | re.MULTILINE)


def _huge_html(text: str) -> str:
    """A block too long to be parsed: a fence is still code, all else is shown as it is."""
    fenced = _FENCED.match(text)
    return figure(escape(fenced[4]), language_of(fenced[3])) if fenced else raw_html(text)


def raw_html(text: str) -> str:
    """Text shown as it is."""
    return f'<p class="raw">{escape(text)}</p>'
