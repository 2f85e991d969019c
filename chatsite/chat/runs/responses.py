"""What an endpoint answered in a turn, as its bytes came: for whoever looks for a fault in it.

Rule 1: what a read of the network brought is put aside as it is; it is freed of keys and packed by whoever writes the
end of the turn. In one buffer an answer: pieces kept alive for themselves cost a server 2 MiB at 200 answers.
Rule 2: of one answer `MOST_KEPT` bytes are kept, of all that are under way in a process about `MOST_HELD`. What is
beyond that is counted, and the page says that it was cut.
Rule 3: it goes with the log (`EVENTS_KEEP_DAYS`), and before that with its thread.

`KEEP_RESPONSES` switches it off, and so does `KEEP_REQUESTS`: it stands in the request's row.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from weakref import WeakSet

from chatsite.adminkit.masking import HIDDEN
from chatsite.catalog import entries
from chatsite.chat.conf import setting

MOST_KEPT = 64 * 1024
MOST_HELD = 512 * 1024
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
SHORTEST_KEY = 4

_under_way: WeakSet[Received] = WeakSet()


class Received:
    """One answer. `size` is what came, whatever is kept of it."""

    __slots__ = ("__weakref__", "_kept", "is_cut", "size", "status")

    def __init__(self, status: int) -> None:
        _under_way.add(self)
        self.status = status
        self.size = 0
        self.is_cut = False
        self._kept = bytearray()

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.is_cut:
            return
        room = max(0, min(MOST_KEPT, MOST_HELD // len(_under_way)) - len(self._kept))
        self.is_cut = room < len(piece)
        self._kept += piece[:room] if self.is_cut else piece

    def packed(self, keys: Iterable[str]) -> bytes | None:
        """None where nothing came. No key that we know stands in it."""
        if not self._kept:
            return None
        whole = bytes(self._kept)
        for key in keys:
            whole = whole.replace(key.encode(), HIDDEN.encode())
        return zlib.compress(whole, 1)


NONE = Received(0)
"""Of a turn that nothing came back to."""


def unpacked(response: bytes) -> str:
    """As text; what is no UTF-8 in it (it may be cut within a letter) is shown as such."""
    return zlib.decompress(bytes(response)).decode("utf-8", "replace")


def known_keys() -> tuple[str, ...]:
    """The keys of the endpoints, from the environment and from rows."""
    return (*(key for key in map(setting, KEYS) if len(key) >= SHORTEST_KEY), *entries.current().secrets)
