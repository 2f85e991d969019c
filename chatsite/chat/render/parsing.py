"""How a model's markdown is read: CommonMark with tables, and what models write besides.

Loaded with the first text that is shown: a server of programs alone, or of the gateway, never needs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from chatsite.chat.render import mathematics
from chatsite.chat.render.code import code_html, figure, language_of
from chatsite.chat.render.escaping import escape
from chatsite.chat.render.footnotes import footnotes

_URL = re.compile(r"https?://[^\s<>\"`]+")
_SAFE_LINK = re.compile(r"(?:https?:|mailto:)", re.IGNORECASE)


def _link_bare_urls(state: StateCore) -> None:
    """Make links of the bare addresses in running text."""
    for block in state.tokens:
        if block.type != "inline" or not block.children or "://" not in block.content:
            continue
        children: list[Token] = []
        depth = 0
        for token in block.children:
            depth += (token.type == "link_open") - (token.type == "link_close")
            if token.type == "text" and depth == 0 and "://" in token.content:
                children.extend(_with_links(token.content, state))
            else:
                children.append(token)
        block.children = children


def _with_links(text: str, state: StateCore) -> list[Token]:
    tokens: list[Token] = []
    end = 0
    for match in _URL.finditer(text):
        url = match[0].rstrip(".,:;!?'*_~")
        while url.endswith(")") and url.count(")") > url.count("("):
            url = url[:-1].rstrip(".,:;!?'*_~")
        href = state.md.normalizeLink(url)
        if not state.md.validateLink(href):
            continue
        tokens.append(Token("text", "", 0, content=text[end : match.start()]))
        tokens.append(Token("link_open", "a", 1, attrs={"href": href}, markup="linkify"))
        tokens.append(Token("text", "", 0, content=url))
        tokens.append(Token("link_close", "a", -1, markup="linkify"))
        end = match.start() + len(url)
    tokens.append(Token("text", "", 0, content=text[end:]))
    return tokens


_TASK = re.compile(r"\[([ xX])\] ")


def _mark_tasks(state: StateCore) -> None:
    """`[ ] ` and `[x] ` at the head of a list item become boxes."""
    for index in range(2, len(state.tokens)):
        token = state.tokens[index]
        if (
            token.type == "inline"
            and state.tokens[index - 2].type == "list_item_open"
            and (match := _TASK.match(token.content))
            and token.children
            and token.children[0].type == "text"
            and token.children[0].content.startswith(match[0])
        ):
            token.children[0].content = token.children[0].content[4:]
            token.children.insert(0, Token("task", "", 0, content=match[1].strip()))
            state.tokens[index - 2].attrSet("class", "task")


class _Renderer(RendererHTML):
    """The renderer with our code blocks, images and boxes. Methods are found by the token's name."""

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        language = language_of(tokens[idx].info)
        return figure(code_html(tokens[idx].content, language), language) + "\n"

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return figure(code_html(tokens[idx].content, ""), "") + "\n"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A picture elsewhere is a link with its host: showing it would tell that host who reads this."""
        token = tokens[idx]
        label = escape(self.renderInlineAsText(token.children or [], options, env)) or _("image")
        source = str(token.attrs.get("src", ""))
        host = urlsplit(source).hostname if _SAFE_LINK.match(source) else None
        if host is None:
            return f'<span class="image">{label}</span>'
        return f'<a class="image" href="{escape(source)}">{label} ({escape(host)})</a>'

    def task(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        done, todo = pgettext("a task", "done"), pgettext("a task", "open")
        state = f'aria-label="{done}" checked' if tokens[idx].content else f'aria-label="{todo}"'
        return f'<input type="checkbox" disabled {state}> '

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f'<a href="{escape(str(tokens[idx].attrs.get("href", "")))}">'

    def _cell(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Alignment as a class; a style attribute would be refused by the page's policy."""
        style = str(tokens[idx].attrs.get("style", ""))
        side = style.removeprefix("text-align:")
        name = f' class="{side}"' if side in {"center", "right"} else ""
        return f"<{tokens[idx].tag}{name}>"

    th_open = td_open = _cell

    def table_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return '<div class="table" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</table></div>\n"


def parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    markdown.enable(["table", "strikethrough"])
    # A definition far below would change blocks that are shown already; as text it at least stays readable.
    markdown.disable("reference")
    mathematics.mathematics(markdown)
    footnotes(markdown)
    markdown.core.ruler.push("tasks", _mark_tasks)
    markdown.core.ruler.push("bare_urls", _link_bare_urls)
    return markdown
