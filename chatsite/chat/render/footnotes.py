"""Footnotes in markdown: `[^1]` in the text, and `[^1]: what it says` at the head of a line.

Blocks settle while an answer streams, so a mark cannot know whether its note will come, and a note stays where it
was written. Both show the label that the model gave; nothing is counted anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from chatsite.chat.render.escaping import escape

_MARK = re.compile(r"\[\^([^\s\[\]]{1,40})\]")
_NOTE = re.compile(_MARK.pattern + r":[ \t]+(?=\S)")


def footnotes(parser: MarkdownIt) -> None:
    parser.inline.ruler.after("image", "footnote_mark", _read_mark)
    parser.block.ruler.before("reference", "footnote", _read_note, {"alt": ["paragraph"]})
    parser.add_render_rule("footnote_mark", _render_mark)
    parser.add_render_rule("footnote_open", _render_open)


def _read_mark(state: StateInline, silent: bool) -> bool:
    found = _MARK.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("footnote_mark", "sup", 0).content = found[1]
    state.pos = found.end()
    return True


def _read_note(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A note is a paragraph: it ends at a blank line, at the next note, and where any other block begins."""
    found = None if state.is_code_block(first) else _NOTE.match(state.src, _start(state, first))
    if found is None:
        return False
    if silent:
        return True
    end = first + 1
    while end < last and not state.isEmpty(end) and not _interrupted(state, end, last):
        end += 1
    text = state.getLines(first, end, state.blkIndent, False).strip()
    state.push("footnote_open", "p", 1).content = found[1]
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = text[found.end() - found.start() :], [first, end], []
    state.push("paragraph_close", "p", -1)
    state.line = end
    return True


def _start(state: StateBlock, line: int) -> int:
    return state.bMarks[line] + state.tShift[line]


def _interrupted(state: StateBlock, line: int, last: int) -> bool:
    return any(rule(state, line, last, True) for rule in state.md.block.ruler.getRules("paragraph"))


def _render_mark(self: RendererHTML, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
    return f'<sup class="footnote">{escape(tokens[idx].content)}</sup>'


def _render_open(self: RendererHTML, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
    return f'<p class="footnote"><sup>{escape(tokens[idx].content)}</sup> '
