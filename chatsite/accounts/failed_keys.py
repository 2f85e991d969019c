"""How many keys that are none an address may bring, at every door that takes keys.

Rule: a key that nobody knows costs a look-up; an address that brings one after another is refused before it. A key that
was found is not asked again here, so nobody is refused for what a neighbour does while their key is known.

Counts are this process's own, and in memory: nobody guesses 256 bits, so this protects the database from the asking.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict

MOST = 60
SECONDS = 60.0
MOST_ADDRESSES = 10_000

_lock = threading.Lock()
_seen: OrderedDict[str, tuple[float, int]] = OrderedDict()
"""Address -> until when it counts, how many there were."""


def wait(address: str) -> int:
    """Seconds until the address may bring another unknown key; 0 when it may now."""
    until, count = _seen.get(address, (0.0, 0))
    left = until - time.monotonic()
    return math.ceil(left) if count >= MOST and left > 0 else 0


def failed(address: str) -> None:
    """It brought one that is none."""
    now = time.monotonic()
    with _lock:
        until, count = _seen.pop(address, (0.0, 0))
        _seen[address] = (until, count + 1) if until > now else (now + SECONDS, 1)
        while len(_seen) > MOST_ADDRESSES:
            _seen.popitem(last=False)


def forget() -> None:
    with _lock:
        _seen.clear()
