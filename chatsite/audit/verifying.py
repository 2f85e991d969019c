"""Walks the chain from its first entry to its head, and says where it breaks first, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import connection

from chatsite.audit import guards
from chatsite.audit.chain import hash_of, seal_fits
from chatsite.audit.models import Entry, Head

AT_ONCE = 1000


class Broken(Exception):
    """`number` is that of the first entry that is not right."""

    def __init__(self, number: int, how: str, words: str) -> None:
        super().__init__(words)
        self.number = number
        self.how = how


@dataclass(slots=True)
class Walk:
    """How far the chain was found whole, and what was seen on the way that is no break, but somebody should know."""

    number: int = 0
    hash: str = ""
    seals_broken: list[int] = field(default_factory=list)
    expected: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def verify(expected: dict[int, str] | None = None, tell: Callable[[int, int], None] | None = None) -> Walk:
    """Raises Broken. `expected` has hashes of single entries that were kept elsewhere; `tell` hears the progress."""
    walk = Walk(expected=dict(expected or {}))
    while True:
        # A site at work goes on writing: what is behind this head is looked at with the next one.
        head = Head.objects.first() or Head()
        _to(walk, head, tell)
        later = Head.objects.values_list("number", flat=True).first() or 0
        if later <= head.number:
            break
    _check_end(walk, head)
    missing = guards.missing(connection)
    if missing:
        walk.notes.append(f"The database's own guard is not there ({', '.join(missing)}).")
    return walk


def _to(walk: Walk, head: Head, tell: Callable[[int, int], None] | None) -> None:
    while walk.number < head.number:
        piece = Entry.objects.filter(number__gt=walk.number, number__lte=head.number)
        entries = list(piece.order_by("number")[:AT_ONCE])
        for entry in entries:
            _step(walk, entry)
        if not entries:
            raise Broken(
                walk.number + 1,
                "cut",
                f"The log was cut at its end: its head knows {head.number} entries, the last one that is there is "
                f"{walk.number}.",
            )
        if tell is not None:
            tell(walk.number, head.number)


def _step(walk: Walk, entry: Entry) -> None:
    expected = walk.number + 1
    if entry.number != expected:
        raise Broken(
            expected, "removed", f"Entry {expected} was removed: after {walk.number} comes {entry.number}."
        )
    if hash_of(entry) != entry.hash:
        raise Broken(
            expected, "changed", f"Entry {expected} was changed: its hash does not fit what it says."
        )
    if entry.previous != walk.hash:
        raise Broken(
            expected,
            "replaced",
            f"Entry {expected} was put in, or what stands before it was made anew: it does not follow from entry "
            f"{walk.number}.",
        )
    kept = walk.expected.pop(expected, entry.hash)
    if kept != entry.hash:
        raise Broken(
            expected, "replaced", f"Entry {expected} is not the one whose hash you have: it was made anew."
        )
    if entry.action == "audit.seal_broken":
        walk.seals_broken.append(expected)
    walk.number, walk.hash = entry.number, entry.hash


def _check_end(walk: Walk, head: Head) -> None:
    beyond = Entry.objects.filter(number__gt=walk.number).order_by("number").first()
    if beyond is not None and (Head.objects.first() or Head()).number < beyond.number:
        if not head.number:
            raise Broken(
                1,
                "headless",
                "The head of the log was removed: there are entries, and nothing says how many.",
            )
        raise Broken(
            beyond.number,
            "inserted",
            f"Entry {beyond.number} was put in behind the head, which ends at {head.number}.",
        )
    if head.hash != walk.hash:
        raise Broken(
            head.number,
            "replaced",
            f"Entry {head.number} is not the one that the head knows: it was made anew.",
        )
    if not seal_fits(head):
        raise Broken(
            head.number,
            "unsealed",
            f"The seal of the head (entry {head.number}) was not made with this SECRET_KEY: the log was made anew, or "
            "the key was changed without SECRET_KEY_FALLBACKS.",
        )
    if walk.expected:
        number = min(walk.expected)
        raise Broken(
            number,
            "cut",
            f"You have the hash of entry {number}, and the log ends at {walk.number}: it was cut.",
        )
