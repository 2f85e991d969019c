"""A place in a thread's logs, as a value and as the text that headers and pages carry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a thread's logs: behind event `number` of run `run_id`, as branch number `branch` was shown.

    As text it travels in headers, where only ASCII is safe, so a program's own run id is percent-encoded.
    """

    run_id: str
    number: int
    branch: int = 0

    def __str__(self) -> str:
        place = f"{_encoded(self.run_id)}:{self.number}"
        return f"{place}.{self.branch}" if self.branch else place


@lru_cache(maxsize=256)  # every event of a run says it again
def _encoded(run_id: str) -> str:
    return quote(run_id, safe="")


LONGEST_NUMBER = 10
"""Digits. No log is that long, and Python refuses to read a number of thousands of them."""


def parse_cursor(text: str) -> Cursor | None:
    """None when it is no cursor: whoever sent it is then told everything from the start."""
    run_id, _, number = text.rpartition(":")
    run_id = unquote(run_id)
    number, dot, branch = number.partition(".")
    sane = run_id.isprintable() and _is_number(number) and (not dot or _is_number(branch))
    return Cursor(run_id, int(number), int(branch or 0)) if run_id and sane else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER
