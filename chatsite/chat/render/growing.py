"""A text on the page that grows: what is shown of it, and the fragments to its next version."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from chatsite.chat.render.blocks import Blocks, tidy

_CLOSER = re.compile(r"</[a-z0-9]+>$")
_TAG = re.compile(r"<(/?)([a-z0-9]+)[^>]*>")
_VOID = {"br", "hr", "img", "input"}


def appended(old: str, new: str) -> tuple[int, str] | None:
    """How `new` comes from `old` by adding inside elements that end where `old` ends.

    (depth, HTML): add the HTML to the end of the element so deep; None when that is not the difference.
    """
    if len(new) <= len(old):
        return None
    for depth, border in reversed(list(enumerate(_endings(old)))):
        ending = old[border:]
        if new.startswith(old[:border]) and new.endswith(ending):
            added = new[border : len(new) - len(ending)]
            if _balanced(added):
                return depth, added
    return None


def _endings(html: str) -> list[int]:
    """Where the elements end that end with the HTML, itself first, then outermost to innermost."""
    borders = [len(html)]
    while True:
        rest = html[: borders[-1]].rstrip()
        tag = rest.rfind("<")
        if tag < 0 or not _CLOSER.match(rest[tag:]):
            return borders
        borders.append(tag)


def _balanced(html: str) -> bool:
    depth = 0
    for match in _TAG.finditer(html):
        if match[2] not in _VOID:
            depth += -1 if match[1] else 1
        if depth < 0:
            return False
    return depth == 0


@dataclass(slots=True)
class Growing:
    """A text on the page: what is shown of it, and the fragments to the next version."""

    id: str
    blocks: Blocks = field(default_factory=Blocks)
    shown: int = 0
    tail: list[str] = field(default_factory=list)
    version: str = "x"

    def html(self, text: str, *, is_open: bool) -> str:
        self._feed(text, is_open=is_open)
        version = "" if self.version == "x" else f" data-v={self.version}"
        blocks = "".join(f"<div>{html}</div>" for html in self.blocks.html)
        return f"<div id={self.id} class=md dir=auto hx-ignore{version}>{blocks}</div>"

    def changes(self, text: str, *, is_open: bool) -> str:
        """Raises ValueError when the text is not the earlier one and more."""
        first, old, version = self.shown, self.tail, self.version
        if version == "x":
            if is_open or tidy(text) != self.blocks.text:
                raise ValueError("the text was final")
            return ""
        self._feed(text, is_open=is_open)
        if self.version == version:
            return ""
        new = self.blocks.settled[first:] + self.tail
        ops: list[tuple[str, str]] = []
        for place, html in enumerate(new):
            if place >= len(old):
                ops.append((f"set to={self.id} k={first + place}", html))
            elif html != old[place]:
                added = appended(old[place], html)
                if added is None:
                    ops.append((f"set to={self.id} k={first + place}", html))
                else:
                    ops.append((f"add to={self.id} k={first + place} d={added[0]}", added[1]))
        if not ops or len(new) < len(old):
            ops.append((f"set to={self.id} c={first + len(new)}", ""))
        ops[-1] = (f"{ops[-1][0]} v={self.version}", ops[-1][1])
        return "".join(f"<hx-{head} f={version}>{html}</hx-{head[:3]}>" for head, html in ops)

    def _feed(self, text: str, *, is_open: bool) -> None:
        self.blocks.feed(text, is_open=is_open)
        self.shown = len(self.blocks.settled)
        self.tail = self.blocks.tail
        self.version = str(len(self.blocks.text)) if is_open else "x"
