"""A piece of a message around what was looked for, in plain words.

Rule: markdown's marks go, its words stay; a mark in which the words themselves stand (the address of a link) is shown.

It is shown as text and never as markup, so this reads markdown roughly and line by line: only what people would see as
a mark is taken out, within a window around the first hit, so that a message may be as long as it likes. Code keeps its
signs. Where nothing of what was looked for is left in the plain words, the text is shown as it was written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

Term = tuple[str, ...]
"""Words that stand together."""

AROUND = 70
"""Characters shown on each side of what was found."""
REACH = 1_000
"""Characters looked at on each side: marks and addresses take room, and are not shown."""

_FENCE = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})[ \t]*(.*)$", re.MULTILINE)
_RULE = re.compile(r"[ \t]*(?:([-*_=])(?:[ \t]*\1)*|(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t]*(?::?-+:?[ \t]*)?)+)")
"""A line that is drawn and not read: between paragraphs, below a heading, between a table's head and its rows. Nothing
in it can be matched in two ways: empty cells that could took minutes, in which the whole process stood still."""
_HEAD = re.compile(
    r"[ \t]*(?:>[ \t]?)*[ \t]*(?:#{1,6}[ \t]+|[-+*][ \t]+(?:\[[ xX]\][ \t]+)?)?(?:\[\^[^\s\]]+\]:[ \t]+)?"
)
_ROW = re.compile(r"\|(.*)\|[ \t]*")
_INLINE = re.compile(
    r"\\(?P<escaped>[!-/:-@\[-`{-~])"
    r"|(?<!`)(?P<ticks>`{1,3})(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|(?<!\w)!?\[(?P<label>[^\[\]]*)\](?:\((?P<to>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:[ \t][^()]*)?\)|\[[^\[\]]*\])"
    r"|\[\^[^\s\[\]]+\]"
    r"|<(?P<address>(?:https?|mailto):[^\s<>]+)>"
    r"|(?<!\w)(?P<lines>_{1,3})(?=[^\s_])(?P<stressed>.+?)(?<=[^\s_])(?P=lines)(?!\w)"
    r"|\*{2,3}(?=\S)|(?<=\S)\*{2,3}|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)"
    r"|~~(?=\S)|(?<=\S)~~"
)


def snippet(text: str, terms: Sequence[Term]) -> tuple[str, ...]:
    """A piece of the text around the first place where one of the terms stands: texts, of which every second one is
    what was looked for."""
    wanted = _pattern(terms)
    first = next(_places(text, wanted), (0, 0))
    start, end = max(0, first[0] - REACH), min(len(text), first[1] + REACH)
    inside = len(_FENCE.findall(text, 0, start)) % 2 == 1
    shown = _in_a_line(plain(text[start:end], wanted, inside=inside))
    if first[1] and not any(_places(shown, wanted)):
        shown = _in_a_line(text[start:end])
    return _cut(shown, list(_places(shown, wanted)), before=start > 0, after=end < len(text))


def plain(text: str, wanted: re.Pattern[str], *, inside: bool = False) -> str:
    """The words of a markdown text, line by line. `inside`: it begins within a block of code."""
    lines = []
    for line in text.split("\n"):
        if fence := _FENCE.fullmatch(line):
            inside = not inside
            lines.append(fence[1] if wanted.search(fence[1]) else "")
        else:
            lines.append(line if inside else _line(line, wanted))
    return "\n".join(lines)


def _line(line: str, wanted: re.Pattern[str]) -> str:
    if _RULE.fullmatch(line):
        return ""
    head = _HEAD.match(line)
    rest = line[head.end() :] if head else line
    row = _ROW.fullmatch(rest)
    cells = row[1].split("|") if row else [rest]
    return " · ".join(filter(None, (_inline(cell, wanted).strip() for cell in cells)))


def _inline(text: str, wanted: re.Pattern[str]) -> str:
    def words(mark: re.Match[str]) -> str:
        if mark["label"] is not None:
            to = mark["to"] or ""
            label = _inline(mark["label"], wanted)
            return f"{label} {to}" if wanted.search(to) else label or to
        if mark["stressed"]:
            return _inline(mark["stressed"], wanted)
        return mark["escaped"] or mark["code"] or mark["address"] or ""

    return _INLINE.sub(words, text)


def _in_a_line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, found: list[tuple[int, int]], *, before: bool, after: bool) -> tuple[str, ...]:
    """The text around the first place; `before`, `after`: there is more of it than is given here."""
    first = found[0] if found else (0, 0)
    start, end = max(0, first[0] - AROUND), min(len(text), first[1] + AROUND)
    pieces, at = ["…" if before or start else ""], start
    for begins, ends in found:
        if at <= begins and ends <= end:
            pieces[-1] += text[at:begins]
            pieces += [text[begins:ends], ""]
            at = ends
    pieces[-1] += text[at:end] + ("…" if after or end < len(text) else "")
    return tuple(pieces)


def _pattern(terms: Sequence[Term]) -> re.Pattern[str]:
    """The index ignores case and accents; so far does this."""
    wanted = [r"\W+".join(map(re.escape, map(_without_accents, term))) for term in terms]
    return re.compile(r"\b(?:" + "|".join(wanted) + ")", re.IGNORECASE)


def _places(text: str, wanted: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where a term stands in the text, in order."""
    bare = _without_accents(text)
    bare = bare if len(bare) == len(text) else text
    return (match.span() for match in wanted.finditer(bare))


def _without_accents(text: str) -> str:
    """One sign for each, as long as that is possible."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFD", sign)[0] for sign in text)
