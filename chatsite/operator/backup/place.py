"""The place of an SQLite database: a new one comes in, the old one stays beside it.

Several files have to change their names together (the database, its WAL). The names are written down before; a restore
that was killed between two of them is finished by whoever looks next (`restore`, and each start of a server).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from django.conf import settings

BESIDE = ("-wal", "-shm")


def journal() -> Path:
    return Path(settings.DATA_DIR) / "restore.journal"


def swap(new: Path, place: Path, aside: Path) -> None:
    """`new` to `place`; what is there, with what belongs to it, to `aside`."""
    ready = place.with_name(f".{place.name}.ready")
    new.replace(ready)  # out of a folder that is removed when something fails
    moves = [(place.with_name(place.name + end), aside.with_name(aside.name + end)) for end in ("", *BESIDE)]
    moves.append((ready, place))
    draft = journal().with_suffix(".part")
    with draft.open("w", encoding="utf-8") as file:
        json.dump([[str(source), str(target)] for source, target in moves], file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(journal())
    finish()


def remove(place: Path) -> None:
    for end in ("", *BESIDE):
        place.with_name(place.name + end).unlink(missing_ok=True)


def finish() -> bool:
    """Make the moves that are still to be made. Whether there were any."""
    if not journal().is_file():
        return False
    moves = [(Path(source), Path(target)) for source, target in json.loads(journal().read_text("utf-8"))]
    new, place = moves[-1]
    for source, target in moves:
        # Once the new one is in its place, what has that name is not the old one any more.
        if source.exists() and new.exists():
            source.replace(target)
    _sync(place.parent)
    journal().unlink()
    return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
