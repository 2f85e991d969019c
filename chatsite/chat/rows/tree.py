"""A thread's messages as the tree they are. Pure: rows in, rows out; nothing is read or written here.

    forks      where the shown branch has siblings, for the picker
    below      a message and all that stands behind it, on whatever branch
    newest     the newest message behind one at which a branch ends
    owners     which run each person's message of a branch belongs to

Rows that are deleted are no part of it, unless a caller asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from chatsite.chat.models import Message

Children = Mapping[int | None, Sequence[Message]]


def children_of(rows: Iterable[Message], *, deleted: bool = False) -> Children:
    """By the key of their parent (None: the beginning), the oldest first."""
    found: dict[int | None, list[Message]] = {}
    for row in sorted(rows, key=lambda row: row.pk):
        if deleted or row.deleted_at is None:
            found.setdefault(row.parent_id, []).append(row)
    return found


def forks(rows: Iterable[Message], path: Sequence[Message]) -> dict[str, tuple[str, ...]]:
    """As `ThreadState.forks`. Behind the last message one is enough: an answer that is written comes beside it."""
    children = children_of(rows)
    found: dict[str, tuple[str, ...]] = {}
    for parent in (None, *path):
        beside = children.get(parent.pk if parent is not None else None, ())
        if len(beside) > 1 or (beside and parent is not None and parent is path[-1]):
            found[parent.public_id if parent is not None else ""] = tuple(each.public_id for each in beside)
    return found


def below(children: Children, top: Message) -> Iterator[Message]:
    waiting = [top]
    while waiting:
        here = waiting.pop()
        yield here
        waiting += children.get(here.pk, ())


def newest(children: Children, top: Message) -> Message:
    ends = (row for row in below(children, top) if not children.get(row.pk))
    return max(ends, key=lambda row: row.pk)


def owners(path: Sequence[Message]) -> Iterator[tuple[Message, int | None]]:
    """Messages of the path that must belong to another run: to the one that brings what stands behind them.

    A question that was asked anew has several runs; it is told with the one whose answer is shown.
    """
    for row, following in pairwise(path):
        asked = row.role == Message.Role.USER and following.role == Message.Role.ASSISTANT
        if asked and row.run_id != following.run_id:
            yield row, following.run_id
