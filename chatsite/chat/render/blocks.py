r"""A growing markdown text, cut into blocks that never change again and an open tail.

Rule 1: where a block ends depends on the text alone, not on how it came in. So the blocks of a text that
streamed in are the blocks of the same text loaded from the database.
Rule 2: a settled block is rendered once. Each character is looked at a bounded number of times, whatever the
length of the answer.

A block ends only where CommonMark surely begins a new top-level block:

    before a line behind a blank one          unless it belongs to an open list, or may go on an indented code
    before a fence or a `#` heading           at top level, blank line or not
    behind the closing line of a fence        at top level

Only whole lines are looked at, or as much of one as decides it whatever else it holds (`_begins_block`), so a cut never
depends on half a line. The tail is rendered as it is so far:

    an open fence     escaped, not coloured: more text only adds to its end
    an open formula   as it is, until its end is there
    short             as markdown, with half-written marks held back or closed (`calm`)
    long              as markdown up to a line on a coarse grid, the rest as it is; so the work stays linear
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from chatsite.chat.render.code import figure, language_of
from chatsite.chat.render.escaping import escape
from chatsite.chat.render.markdown import block_html, fresh_html, raw_html

LONG_TAIL = 8_000
"""Characters up to which an open tail is rendered whole at each step."""

_MARKER = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?=[ \t]|$)")
_INTERRUPTS = re.compile(r"(?:[-+*]|1[.)])[ \t]+\S")
_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})(.*)$")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_NO_TEXT = re.compile(r">|([-*_])[ \t]*(?:\1[ \t]*){2,}$|-+[ \t]*$")


def tidy(text: str) -> str:
    """The text as the blocks see it. Works piece by piece: tidy(a + b) == tidy(a) + tidy(b)."""
    return text.replace("\r", "").replace("\0", "\ufffd")


@dataclass(slots=True)
class _Fence:
    mark: str
    column: int
    """Where the list item that holds it begins; 0 at top level."""

    def closed_by(self, line: str) -> bool:
        bare = line.strip(" \t")
        return len(bare) >= len(self.mark) and not bare.strip(self.mark[0])


@dataclass(slots=True)
class Cutter:
    """Finds where blocks end, whole line by whole line. Knows lists and fences, and nothing else."""

    position: int = 0
    start: int = 0
    cuts: list[int] = field(default_factory=list)
    fence: _Fence | None = None
    items: list[int] = field(default_factory=list)
    """The columns at which the content of the open list items begins, outermost first."""
    after_blank: bool = False
    in_paragraph: bool = False
    """The last line was running text, so that a lazy line may go on with it."""
    in_empty_item: bool = False
    """The last line was a list marker alone; a blank line behind it ends the item."""

    def scan(self, text: str) -> list[int]:
        """The ends of the blocks that settled since the last call."""
        self.cuts = []
        while (end := text.find("\n", self.position)) >= 0:
            self._line(text[self.position : end], self.position, end + 1)
            self.position = end + 1
        if self._begins_block(text[self.position : self.position + 1]):
            self._cut(self.position)
        return self.cuts

    def _begins_block(self, first: str) -> bool:
        """Whether the line that begins with this sign ends a block, however it goes on."""
        if not first.strip() or self.fence is not None or not self.after_blank:
            return False
        # Behind a list it may be the next item, as long as nobody knows what follows the mark.
        return not (self.items or self.in_empty_item) or not (first in "-+*" or first.isdigit())

    @property
    def open_fence(self) -> _Fence | None:
        """The top-level fence that is open: it is then the whole tail."""
        return self.fence if self.fence and self.fence.column == 0 else None

    def _cut(self, at: int) -> None:
        if at > self.start:
            self.cuts.append(at)
            self.start = at

    def _line(self, line: str, at: int, end: int) -> None:
        bare = line.lstrip(" \t")
        if not bare:
            if self.fence is None:
                if self.in_empty_item and not self.after_blank:
                    self.items.pop()
                self.after_blank = True
            return
        column = len(line[: len(line) - len(bare)].expandtabs(4))
        if self.fence is not None:
            if column >= self.fence.column:
                if column < self.fence.column + 4 and self.fence.closed_by(line):
                    self._close_fence(end)
                return
            self.fence = None  # its list item ended, and the fence with it
            self.in_paragraph = False
        self._open_line(bare, column, at)
        self.after_blank = False

    def _close_fence(self, end: int) -> None:
        at_top = self.open_fence is not None
        self.fence = None
        self.after_blank = self.in_paragraph = False
        if at_top:
            self._cut(end)

    def _open_line(self, bare: str, column: int, at: int) -> None:
        was_list = bool(self.items or self.in_empty_item)
        marker = _MARKER.match(bare)
        if self.in_paragraph and not (was_list or self.after_blank) and not _INTERRUPTS.match(bare):
            marker = None
        fence = _FENCE.match(bare)
        breaks = bool(fence or _HEADING.match(bare))
        ends_paragraph = bool(marker or breaks or _NO_TEXT.match(bare))
        if self.after_blank or ends_paragraph or not self.in_paragraph:
            # Otherwise it is a lazy line of the paragraph in the item, which does not end it.
            while self.items and column < self.items[-1]:
                self.items.pop()
        top = not self.items
        if top and column < 4 and (breaks or (self.after_blank and not (was_list and marker))):
            self._cut(at)
        while marker and column < (self.items[-1] if self.items else 0) + 4:
            rest = bare[marker.end() :]
            gap = len(rest) - len(rest.lstrip(" \t"))
            column += marker.end() + (gap if 1 <= gap <= 4 else 1)
            self.items.append(column)
            bare = rest.lstrip(" \t")
            marker = _MARKER.match(bare)
            fence = _FENCE.match(bare)
            ends_paragraph = bool(fence or _HEADING.match(bare) or not bare)
        is_code = column >= (self.items[-1] if self.items else 0) + 4 and not self.in_paragraph
        self.in_paragraph = not (ends_paragraph or is_code)
        self.in_empty_item = not bare
        base = self.items[-1] if self.items else 0
        if fence and base <= column < base + 4:
            self.fence = _Fence(fence[1], base)


_HELD_BACK = re.compile(r"[ \t]*(?:(?:[-=*_#>`~|:+]|\d{1,9}[.)]?|[ \t])*|`{3,}[^`]*|~{3,}.*)$")
_HALF_LINK = re.compile(r"!?\[([^\[\]\n]*)(?:\](?:\([^()\s]*)?)?$")


def calm(tail: str) -> str:
    """The tail without marks that would flicker: a line of only marks waits, open emphasis is closed."""
    head, newline, last = tail.rpartition("\n")
    if _HELD_BACK.match(last):
        return head + newline
    paragraph = tail[max(tail.rfind("\n\n"), 0) :]
    if len(paragraph) > 2_000 or "```" in paragraph or "~~~" in paragraph:
        return tail
    if paragraph.count("`") % 2:
        return tail.rstrip("`") if tail.endswith("`") else tail + "`"
    tail = _HALF_LINK.sub(r"\1", tail)
    if paragraph.count("**") % 2:
        bare = tail.rstrip()
        return bare[:-2].rstrip() if bare.endswith("**") else bare.removesuffix("*") + "**"
    return tail


def _fence_html(tail: str, mark: str) -> str:
    """An open fence: its text so far, without a last line that may be its end."""
    first, _, body = tail.partition("\n")
    whole, newline, last = body.rpartition("\n")
    if not last.strip(" \t" + mark[0]):
        body = whole + newline
    opening = _FENCE.match(first.lstrip(" "))
    return figure(escape(body), language_of(opening[2] if opening else ""))


_FORMULA = re.compile(r"\s*(?:(\$\$)|\\\[)")


def _in_open_formula(tail: str) -> bool:
    """It begins with a formula that stands by itself and whose end has not come."""
    opening = _FORMULA.match(tail)
    return opening is not None and tail.find("$$" if opening[1] else "\\]", opening.end()) < 0


def _grid(length: int) -> int:
    """How much of a long tail is rendered as markdown: whole steps of about an eighth of it."""
    step = 1 << (length.bit_length() - 4)
    return length // step * step


class Blocks:
    """The blocks of one text. `feed` it the whole text so far, as often as it has grown.

    `settled` only ever grows; `tail` are the last blocks, none of them final.
    """

    def __init__(self) -> None:
        self.settled: list[str] = []
        self.tail: list[str] = []
        self.text = ""
        self._cutter = Cutter()
        self._long: tuple[str, str] = ("", "")

    def feed(self, text: str, *, is_open: bool) -> None:
        """`is_open`: more may come. Raises ValueError for a text that is not the earlier one and more."""
        text = tidy(text)
        if not text.startswith(self.text):
            raise ValueError("not a longer version of the same text")
        self.text = text
        start = self._cutter.start
        for cut in self._cutter.scan(text):
            if html := block_html(text[start:cut]):
                self.settled.append(html)
            start = cut
        self.tail = [html for html in self._tail(text[start:], is_open) if html]

    def _tail(self, tail: str, is_open: bool) -> list[str]:
        if not tail.strip():
            return []
        if not is_open:
            return [block_html(tail)]
        if fence := self._cutter.open_fence:
            return [_fence_html(tail, fence.mark)]
        if _in_open_formula(tail):
            return [raw_html(tail)]
        if len(tail) <= LONG_TAIL:
            return [fresh_html(calm(tail))]
        border = tail.rfind("\n", 0, _grid(len(tail))) + 1
        if self._long[0] != tail[:border]:
            self._long = (tail[:border], fresh_html(tail[:border]) if border else "")
        return [self._long[1], raw_html(tail[border:])]

    @property
    def html(self) -> list[str]:
        return self.settled + self.tail


def blocks_of(text: str, *, is_open: bool = False) -> list[str]:
    """The blocks of a text as it stands."""
    blocks = Blocks()
    blocks.feed(text, is_open=is_open)
    return blocks.html
