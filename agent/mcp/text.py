"""A server's words where people read them."""

from __future__ import annotations

from agent.text import storable

SHOWN = 60


def shown(text: str, most: int = SHOWN) -> str:
    """One line, bounded."""
    line = " ".join(storable(text[: most * 4]).split())
    line = "".join(mark for mark in line if mark.isprintable())
    return line if len(line) <= most else f"{line[:most]}…"
