"""The attached files while a backup or a restore is at work.

A file lies under the SHA-256 of its content and is never changed, only removed. So a second name for it (a hard link)
in a folder of our own is a copy that costs nothing, and stays when the server removes the first one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

SHARD_LETTERS = 2


def folder() -> Path:
    return Path(settings.ATTACHMENTS_DIR)


def kept_in(place: Path) -> Iterator[Path]:
    """The files of such a folder; drafts that are on their way in are none."""
    if not place.is_dir():
        return
    for shard in sorted(place.iterdir()):
        if shard.is_dir() and len(shard.name) == SHARD_LETTERS:
            yield from sorted(path for path in shard.iterdir() if path.is_file())


def path_in(place: Path, digest: str) -> Path:
    return place / digest[:SHARD_LETTERS] / digest


def hold_all(place: Path) -> None:
    """A second name in `place` for each file that is there now."""
    for path in kept_in(folder()):
        hold(path, place)


def hold(path: Path, place: Path) -> bool:
    """False when it is not there any more."""
    target = path_in(place, path.name)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.link(path, target)
    except FileExistsError:
        return True
    except FileNotFoundError:
        return False
    except OSError:  # another file system, or one without links
        try:
            shutil.copyfile(path, target)
        except FileNotFoundError:
            return False
    return True


def take_in(place: Path) -> int:
    """Move the files of `place` to where they belong, and say how many were not there yet."""
    new = 0
    for path in kept_in(place):
        target = path_in(folder(), path.name)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not target.exists():
            shutil.move(path, target)
            new += 1
    return new
