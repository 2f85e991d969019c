"""The attached files of a thread that goes out as a file, or comes in.

    out    the bytes stand in the parts as base64, in order, as long as they fit in `MOST_OUT`; what does not is named
    in     parts with bytes become attachments of who takes them in, by the same checks as any upload

Rule: what would not come back equal stays as it came (data in the part). So an export that is taken in is exported
equal, and nothing that a file says of itself is believed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator
from itertools import islice
from typing import Any

from chatsite.chat.conf import setting
from chatsite.chat.files import attachments, disk, uploads
from chatsite.chat.files.disk import MB, Draft, Unattached, draft_of, on_disk
from chatsite.chat.files.references import SCHEME, id_in
from chatsite.chat.files.types import IMAGES
from chatsite.chat.models import Thread
from chatsite.chat.problems import TooLong
from chatsite.chat.transfer.shape import GivenEntry, ImageEntry, ThreadFile
from chatsite.languages import here

MOST_OUT = 30 * MB
"""Bytes, before base64: an export has to be small enough to be taken in (`transfer.shape.MAX_BYTES`)."""
MOST_IN = 1_000
"""Files of one thread that become attachments."""


def with_bytes(file: ThreadFile, thread: Thread) -> ThreadFile:
    """The file with bytes in the place of references. It is changed."""
    rows, left = attachments.of_thread(thread), MOST_OUT
    for part in _given(file):
        id = id_in(part.url)
        if id is None:
            continue
        part.url = None
        row = rows.get(id)
        content = disk.read(row) if row is not None and row.size <= left else None
        if content is not None:
            left -= len(content)
            part.data = base64.b64encode(content).decode()
    return file


async def kept(owner: Any, file: ThreadFile) -> ThreadFile:
    """The file with references to attachments of the owner's in the place of bytes. It is changed."""
    if setting("ATTACHMENTS_DIR") is None:
        return file
    with on_disk():
        found = await asyncio.to_thread(here(_drafts, file))
        for number, (part, draft) in enumerate(found):
            try:
                row = await uploads.stored(owner, draft)
            except BaseException:
                for _, later in found[number:]:
                    later.drop()
                raise
            part.data, part.url = None, SCHEME + row.public_id
    return file


def _given(file: ThreadFile) -> Iterator[GivenEntry]:
    return (part for said in file.messages for part in said.parts if isinstance(part, GivenEntry))


def _drafts(file: ThreadFile) -> list[tuple[GivenEntry, Draft]]:
    given = islice(_given(file), MOST_IN)
    return [(part, draft) for part in given if (draft := _draft(part)) is not None]


def _draft(part: GivenEntry) -> Draft | None:
    """None for what has no bytes, or would be another part when it goes out again."""
    if part.data is None or part.url is not None or not part.name:
        return None
    try:
        content = base64.b64decode(part.data, validate=True)
        draft = draft_of(content, part.name)
    except (binascii.Error, ValueError, Unattached, TooLong):
        return None
    same_kind = (draft.mime_type in IMAGES) == isinstance(part, ImageEntry)
    same = same_kind and (draft.mime_type, draft.name) == (part.mime_type, part.name)
    if same and base64.b64encode(content).decode() == part.data:
        return draft
    draft.drop()
    return None
