"""What a check found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from django.db import connections


class Level(StrEnum):
    OK = "ok"
    LOOK = "look"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    """`about` names what was looked at, `words` what was seen, `advice` what to do (nothing where all is well)."""

    about: str
    level: Level
    words: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def ok(about: str, words: str) -> Finding:
    return Finding(about, Level.OK, words)


def look(about: str, words: str, advice: str) -> Finding:
    return Finding(about, Level.LOOK, words, advice)


def wrong(about: str, words: str, advice: str) -> Finding:
    return Finding(about, Level.WRONG, words, advice)


Check = Callable[[], Iterable[Finding]]


def run(name: str, check: Check) -> Iterator[Finding]:
    """The findings of a check; that it broke is one."""
    try:
        yield from check()
    except Exception as error:  # whatever kept it from looking is what the operator has to know
        words = f"could not be looked at: {type(error).__name__}: {str(error).strip() or 'no reason given'}"
        yield wrong(name, words, "Mend that first; what hangs on it was not looked at.")
        connections.close_all()  # a connection in the middle of an error is of no use to the next
