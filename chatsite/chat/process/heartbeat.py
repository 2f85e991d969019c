"""Who owns a run, and whether that process lives.

A run's row names its owner and counts its beats, one each `BEAT_EVERY` seconds. Whoever looks remembers the count: a
run whose count stood still for `LOST_AFTER` seconds *of the looker's own time* is lost. So no clock is compared with
another one, and none that can jump is asked. What is known at once: a process of this machine that is no more, and one
that left in good order and gave its runs up, which have no owner then.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BEAT_EVERY = 10.0
LOST_AFTER = 30.0

MOST_BETWEEN_LOOKS = 15.0
"""Seconds that one look may count. A looker that slept itself knows nothing of the time in between."""


def _machine() -> str:
    """This host and process space: within it a process id says whether its process lives."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        space, boot = 0, ""
    return f"{socket.gethostname()[:60]}/{boot}/{space}"


MACHINE = _machine()
PROCESS = f"{MACHINE}:{os.getpid()}:{secrets.token_hex(4)}"
"""Who owns the runs started here; the last part tells this process from an earlier one of the same id."""


def owner_is_dead(owner: str) -> bool:
    """True when `owner` certainly lives no more; False also for what cannot be known from here."""
    machine, _, rest = owner.partition(":")
    pid, _, _ = rest.partition(":")
    if machine != MACHINE or not pid.isdigit():
        return False
    if int(pid) == os.getpid():
        return owner != PROCESS
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@dataclass(frozen=True, slots=True)
class Beat:
    """What an active run's row says of its owner's life."""

    run_pk: int
    owner: str
    count: int


class Watch:
    """Tells the lost runs from the others, look by look."""

    def __init__(self) -> None:
        self._silences: dict[int, tuple[Beat, float]] = {}
        self._looked_at: float | None = None

    def look(self, beats: Iterable[Beat], now: float) -> list[Beat]:
        """The lost ones among these, which are all active runs; `now` is monotonic."""
        passed = 0.0 if self._looked_at is None else min(now - self._looked_at, MOST_BETWEEN_LOOKS)
        self._looked_at = now
        before, self._silences = self._silences, {}
        for beat in beats:
            known, silence = before.get(beat.run_pk, (beat, -passed))
            self._silences[beat.run_pk] = (beat, silence + passed if known == beat else 0.0)
        return [
            beat
            for beat, silence in self._silences.values()
            if silence >= LOST_AFTER or not beat.owner or owner_is_dead(beat.owner)
        ]
