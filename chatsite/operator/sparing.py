"""What the servers' libraries load on the way and this server never uses, left out of the process: 12 MiB of daphne's,
2 MiB of uvicorn's.

Twisted takes TLS along where it finds OpenSSL, and Autobahn the signatures of WAMP, a protocol that nobody here speaks;
both bring all of `cryptography`. TLS is the business of the proxy in front. Whoever needs `cryptography` for something
else (passkeys, sealed keys) loads it then. uvicorn's package takes its command line along, with click and what watches
files for it; `manage.py serve` is ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

ABSENT = "OpenSSL"
"""Twisted asks whether it is there, and does without."""
EMPTY = "autobahn.wamp.auth"
"""Autobahn wants it, and takes nothing out of it as long as nobody logs in by WAMP."""
COMMAND_LINE = "uvicorn.main"
"""uvicorn takes three names out of it, of which only the server is used here."""


class _NoCommandLine(ModuleType):
    """The server without the rest; who calls one of the other two loads what it stands for."""

    def __getattr__(self, name: str) -> Any:
        if name == "Server":
            return import_module("uvicorn.server").Server
        if name in {"main", "run"}:
            return partial(_call, name)
        raise AttributeError(name)


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(import_module(COMMAND_LINE), name)(*args, **kwargs)


@contextmanager
def unloaded() -> Iterator[None]:
    """Imports in here find none of it; behind it all is as it was. What is loaded already stays."""
    stand_ins: dict[str, ModuleType | None] = {
        ABSENT: None,
        EMPTY: ModuleType(EMPTY),
        COMMAND_LINE: _NoCommandLine(COMMAND_LINE),
    }
    mine = {name: stand_in for name, stand_in in stand_ins.items() if name not in sys.modules}
    sys.modules.update(mine)  # None says that there is no such module
    try:
        yield
    finally:
        for name in mine:
            del sys.modules[name]
