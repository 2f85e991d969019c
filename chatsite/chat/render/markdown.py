"""Markdown to HTML that may be shown: parsed, then cleaned last, by allow-list.

Rule 1: no markup of the model's own survives. HTML in markdown is text; tags come only from the rules here.
Rule 2: `clean` is the last thing that touches the HTML, whatever came before it.
Rule 3: no `<` stands in an attribute value, since htmx looks for its own tags in the text of a response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import nh3
from django.utils.translation import get_language, pgettext
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from chatsite.chat.render import mathematics
from chatsite.chat.render.escaping import escape
from chatsite.chat.render.footnotes import footnotes

MAX_HIGHLIGHT = 16_000
"""Characters of one code block that are coloured; a longer one is shown plain."""

MAX_KEPT = 4_000
"""Characters of what is kept rendered: a cache counts its entries, and this bounds what all of them take."""
MAX_MARKDOWN = 30_000
"""Characters of one block that are parsed; a longer one is shown as it is."""

# -- code ----------------------------------------------------------------------------------------------------

_FORMATTER = HtmlFormatter(nowrap=True)
_SPAN_END = re.compile(r'<span class="w">(\s+)</span>')


def code_html(code: str, language: str) -> str:
    """Code coloured by classes, or escaped when the language is unknown or the code very long."""
    return _kept_code(code, language) if len(code) <= MAX_KEPT else _fresh_code(code, language)


@lru_cache(maxsize=512)
def _kept_code(code: str, language: str) -> str:
    return _fresh_code(code, language)


def _fresh_code(code: str, language: str) -> str:
    code = code.replace("\r", "")
    if language and len(code) <= MAX_HIGHLIGHT:
        try:
            lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        except ClassNotFound:
            return escape(code)
        # Coloured white space says nothing and is a third of the markup.
        return _SPAN_END.sub(r"\1", pygments_highlight(code, lexer, _FORMATTER))
    return escape(code)


def figure(code: str, language: str) -> str:
    """A code block (HTML already) with its language and a copy button; focusable, since it may scroll."""
    return (
        f'<figure class="code" dir="ltr"><figcaption>{escape(language) or _("text")}'
        f'<button type="button" class="copy">{_("Copy")}</button></figcaption>'
        f'<pre tabindex="0"><code>{code}</code></pre></figure>'
    )


def language_of(info: str) -> str:
    """The language named behind the fence, fit to be shown: `python` of `python title="x"`."""
    word = info.strip().split(maxsplit=1)[0] if info.strip() else ""
    return re.sub(r"[^\w+#.-]", "", word)[:24].lower()


# -- rules of our own ----------------------------------------------------------------------------------------

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

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:  # type: ignore[override]
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


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
    parser.enable(["table", "strikethrough"])
    # A definition far below would change blocks that are shown already; as text it at least stays readable.
    parser.disable("reference")
    mathematics.mathematics(parser)
    footnotes(parser)
    parser.core.ruler.push("tasks", _mark_tasks)
    parser.core.ruler.push("bare_urls", _link_bare_urls)
    return parser


_MARKDOWN = _parser()

# -- cleaning ------------------------------------------------------------------------------------------------

_ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "class"},
    "button": {"type", "class"},
    "code": {"class"},
    "div": {"class", "tabindex"},
    "figure": {"class", "dir"},
    "input": {"type", "disabled", "checked", "aria-label"},
    "li": {"class"},
    "ol": {"start"},
    "p": {"class"},
    "pre": {"tabindex"},
    "span": {"class"},
    "sup": {"class"},
    "td": {"class"},
    "th": {"class"},
    **mathematics.ATTRIBUTES,
}
_TAGS = (
    set(_ATTRIBUTES)
    | mathematics.TAGS
    | {
        *("blockquote", "br", "del", "em", "figcaption", "h1", "h2", "h3", "h4", "h5", "h6", "hr"),
        *("s", "strong", "table", "tbody", "thead", "tr", "ul"),
    }
)


def _no_angles(tag: str, attribute: str, value: str) -> str:
    return value.replace("<", "%3C").replace(">", "%3E")


_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    attribute_filter=_no_angles,
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="nofollow noopener noreferrer",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)
clean: Callable[[str], str] = _CLEANER.clean


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
    return clean(_MARKDOWN.render(text)).rstrip("\n")


_FENCED = re.compile(r"\s* {0,3}((`|~)\2{2,})([^\n]*)\n(.*?)(?:^ {0,3}\1\2*\s*)?\Z", re.DOTALL | re.MULTILINE)


def _huge_html(text: str) -> str:
    """A block too long to be parsed: a fence is still code, all else is shown as it is."""
    fenced = _FENCED.match(text)
    return figure(escape(fenced[4]), language_of(fenced[3])) if fenced else raw_html(text)


def raw_html(text: str) -> str:
    """Text shown as it is."""
    return f'<p class="raw">{escape(text)}</p>'
