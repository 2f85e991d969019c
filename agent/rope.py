"""A text that grows at its end, at the same cost however long it is, and never under the hands of who holds it."""

from __future__ import annotations


class Rope:
    """A string that grows at its end, in constant time for each piece.

    Two ropes may share one list of pieces; each knows how many of them are its own. Growing the newest one
    appends in place, growing an older one copies, so no holder ever sees its text change.
    """

    __slots__ = ("_count", "_pieces", "_whole")

    def __init__(self, text: str = "") -> None:
        self._pieces: list[str] = [text] if text else []
        self._count = len(self._pieces)
        self._whole: str | None = text

    def grow(self, piece: str) -> Rope:
        grown = Rope.__new__(Rope)
        pieces = self._pieces if len(self._pieces) == self._count else self._pieces[: self._count]
        pieces.append(piece)
        grown._pieces, grown._count, grown._whole = pieces, self._count + 1, None
        return grown

    def __str__(self) -> str:
        if self._whole is None:
            self._whole = "".join(self._pieces[: self._count])
            # A list of its own from here on: who shared the old one keeps it, and the pieces need not live twice.
            self._pieces, self._count = [self._whole], 1
        return self._whole

    def __bool__(self) -> bool:
        return any(self._pieces[: self._count]) if self._whole is None else bool(self._whole)


class TextLike:
    """A part whose text may still be growing. Equal when kind, text and other fields are equal."""

    __slots__ = ("_rope",)
    _rope: Rope

    def _key(self) -> tuple[object, ...]:
        return (str(self._rope),)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, TextLike) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._key()!r}"
