"""What daphne's libraries load on the way and this server never uses, left out of the process: 12 MiB.

Twisted takes TLS along where it finds OpenSSL, and Autobahn the signatures of WAMP, a protocol that nobody here speaks;
both bring all of `cryptography`. TLS is the business of the proxy in front. Whoever needs `cryptography` for something
else (passkeys, sealed keys) loads it then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

ABSENT = "OpenSSL"
"""Twisted asks whether it is there, and does without."""
EMPTY = "autobahn.wamp.auth"
"""Autobahn wants it, and takes nothing out of it as long as nobody logs in by WAMP."""


@contextmanager
def unloaded() -> Iterator[None]:
    """Imports in here find none of it; behind it all is as it was. What is loaded already stays."""
    stand_ins: dict[str, ModuleType | None] = {ABSENT: None, EMPTY: ModuleType(EMPTY)}
    mine = {name: stand_in for name, stand_in in stand_ins.items() if name not in sys.modules}
    sys.modules.update(mine)  # None says that there is no such module
    try:
        yield
    finally:
        for name in mine:
            del sys.modules[name]
