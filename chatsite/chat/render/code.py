"""Code in answers: coloured by classes, in a frame with its language and a copy button."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from django.utils.translation import gettext as _

from chatsite.chat.render.escaping import escape

MAX_HIGHLIGHT = 16_000
"""Characters of one code block that are coloured; a longer one is shown plain."""

MAX_KEPT = 4_000
"""Characters of what is kept rendered: a cache counts its entries, and this bounds what all of them take."""

PLAIN = frozenset({"n", "p", "w"})
"""Classes that are not coloured: names, punctuation and white space say nothing, and are two thirds of the markup."""

_UNCOLOURED = re.compile(rf'<span class="(?:{"|".join(sorted(PLAIN))})">([^<]*)</span>')


def code_html(code: str, language: str) -> str:
    """Code coloured by classes, or escaped when the language is unknown or the code very long."""
    return _kept_code(code, language) if len(code) <= MAX_KEPT else _fresh_code(code, language)


@lru_cache(maxsize=512)
def _kept_code(code: str, language: str) -> str:
    return _fresh_code(code, language)


def _fresh_code(code: str, language: str) -> str:
    code = code.replace("\r", "")
    if language and len(code) <= MAX_HIGHLIGHT:
        coloured = _coloured(code, language)
        if coloured is not None:
            return _UNCOLOURED.sub(r"\1", coloured)
    return escape(code)


def _coloured(code: str, language: str) -> str | None:
    # 1 MiB, for servers that show code.
    from pygments import highlight
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return highlight(code, lexer, _formatter())


@cache
def _formatter() -> Any:
    from pygments.formatters import HtmlFormatter

    return HtmlFormatter(nowrap=True)


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
