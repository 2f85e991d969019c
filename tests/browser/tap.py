"""An answer of the stand-in that flows as far as a test lets it: what is done meanwhile may take any time."""

from __future__ import annotations

from collections.abc import Iterator

from tests.standin import DONE, Raw, chunk


class Tap:
    """One piece after the other, as many as are let through; then only signs of life, until `rest`."""

    def __init__(self, text: str, size: int = 12) -> None:
        self.pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
        self._let = 0
        self._over = False

    def let(self, pieces: int) -> None:
        self._let += pieces

    def rest(self) -> None:
        """All that is left, and the end."""
        self._let, self._over = len(self.pieces), True

    def answer(self, delay: float = 0.016) -> Raw:
        return Raw(self._flow(), delay=delay)  # type: ignore[arg-type]  # made while it is written

    def _flow(self) -> Iterator[bytes]:
        yield chunk({"role": "assistant", "content": ""})
        for number, piece in enumerate(self.pieces):
            while number >= self._let:
                yield b": waiting\n\n"
            yield chunk({"content": piece})
        while not self._over:
            yield b": waiting\n\n"
        yield chunk({}, "stop")
        yield DONE
