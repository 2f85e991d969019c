r"""Mathematics in markdown, as MathML: browsers draw it without a script.

Read are `$x$` and `$$x$$` (mdit-py-plugins), and the `\(x\)` and `\[x\]` that many models write instead. What cannot
be converted is shown as it was written. The MathML is cleaned with everything else, behind it (`markdown.clean`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from chatsite.chat.render.escaping import escape

log = logging.getLogger(__name__)

MAX_SOURCE = 2_000
"""Characters of one formula that are converted."""
MAX_NESTED = 40
"""Levels of groups in it: the converter calls itself for each."""
MAX_LINES = 40
"""Lines of it: every line of a text may be the head of one, and the end is looked for."""

TAGS = {
    *(
        "math",
        "menclose",
        "merror",
        "mfrac",
        "mi",
        "mmultiscripts",
        "mn",
        "mo",
        "mover",
        "mpadded",
        "mphantom",
    ),
    *(
        "mprescripts",
        "mroot",
        "mrow",
        "mspace",
        "msqrt",
        "mstyle",
        "msub",
        "msubsup",
        "msup",
        "mtable",
        "mtd",
    ),
    *("mtext", "mtr", "munder", "munderover", "none"),
}
ATTRIBUTES = {
    "math": {"display"},
    "menclose": {"notation"},
    "mi": {"mathvariant"},
    "mfrac": {"linethickness"},
    "mo": {"stretchy", "fence", "form", "minsize", "maxsize", "movablelimits", "separator", "accent"},
    "mover": {"accent"},
    "mspace": {"width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtable": {"displaystyle", "columnalign", "rowspacing", "columnspacing"},
    "mtd": {"columnalign"},
    "munder": {"accentunder"},
}

_OPENS = re.compile(r"[{]|\\(?:begin|left)\b")
_CLOSES = re.compile(r"[}]|\\(?:end|right)\b")


@lru_cache(maxsize=1024)
def math_html(source: str, *, display: bool) -> str:
    """A formula in LaTeX as MathML, or as code when it is none that can be converted."""
    as_written = f'<code class="math">{escape(source)}</code>'
    if len(source) > MAX_SOURCE or _depth(source) > MAX_NESTED:
        return as_written
    from latex2mathml.converter import convert  # 2 MB, for servers that see a formula

    try:
        # The converter does not escape; an angle in a formula is a sign of its own.
        return convert(
            source.replace("<", r"\lt ").replace(">", r"\gt "), display="block" if display else "inline"
        )
    except Exception as error:
        # It raises whatever its own code happens on, and a model writes anything.
        log.debug("a formula was not converted: %s: %s", type(error).__name__, error)
        return as_written


def _depth(source: str) -> int:
    """How deep its groups stand in each other, at most."""
    depth = deepest = 0
    for place in re.finditer(r"\\[{}]|[{}]|\\(?:begin|end|left|right)\b", source):
        depth += bool(_OPENS.fullmatch(place[0])) - bool(_CLOSES.fullmatch(place[0]))
        deepest = max(deepest, depth)
    return deepest


# -- rules ---------------------------------------------------------------------------------------------------


def mathematics(parser: MarkdownIt) -> None:
    """Teach the parser all four forms."""
    dollarmath_plugin(
        parser,
        allow_labels=False,
        allow_space=False,
        allow_digits=False,
        allow_blank_lines=False,
        double_inline=True,
    )
    parser.inline.ruler.before("escape", "math_brackets", _inline_brackets)
    parser.block.ruler.before("fence", "math_square", _block_brackets, {"alt": ["paragraph"]})
    for name in ("math_inline", "math_inline_double", "math_block"):
        parser.add_render_rule(name, _render)


def _inline_brackets(state: StateInline, silent: bool) -> bool:
    r"""`\(x\)` and, within a line of text, `\[x\]`."""
    opening = state.src[state.pos : state.pos + 2]
    if opening not in (r"\(", r"\["):
        return False
    closing = r"\)" if opening == r"\(" else r"\]"
    if state.env.get(closing) == state.src:
        return False  # looked for before, and not there
    end = state.src.find(closing, state.pos + 2)
    if end < 0:
        state.env[closing] = state.src
        return False
    if not silent:
        token = state.push("math_inline" if closing == r"\)" else "math_inline_double", "math", 0)
        token.content = state.src[state.pos + 2 : end]
    state.pos = end + 2
    return True


def _block_brackets(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    r"""`\[` at the head of a line, up to a line that ends with `\]`. No blank line stands in a formula."""
    if state.is_code_block(first) or not _line(state, first).startswith(r"\["):
        return False
    for number in range(first, min(last, first + MAX_LINES)):
        line = _line(state, number).rstrip()
        if not line:
            return False
        if line.endswith(r"\]") and (number > first or len(line) > 3):
            if not silent:
                text = state.getLines(first, number + 1, state.blkIndent, False).strip()
                token = state.push("math_block", "math", 0)
                token.block, token.content, token.map = True, text[2:-2], [first, number + 1]
                state.line = number + 1
            return True
    return False


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _render(self: RendererHTML, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
    token = tokens[idx]
    formula = math_html(token.content.strip(), display=token.type != "math_inline")
    if token.type == "math_block":
        return f'<div class="math" tabindex="0">{formula}</div>\n'
    return formula
