"""Files on their way in: taken whole or not at all.

    take                the pieces of one upload -> its row, and behind it the file in its place
    with_files_kept     a message with references in the place of the bytes that it brought

Whatever goes wrong is a Problem in words, and nothing is kept then.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext

from agent.messages import Message, Part
from chatsite.chat import db
from chatsite.chat.conf import setting
from chatsite.chat.files import attachments, disk, references
from chatsite.chat.files.attachments import NoRoom
from chatsite.chat.files.disk import Draft, Incoming, Unattached, draft_of, on_disk
from chatsite.chat.files.references import Given
from chatsite.chat.models import Attachment
from chatsite.chat.problems import Restarting
from chatsite.chat.process import draining
from chatsite.languages import here

CHUNK = 256 * 1024

AT_ONCE = 8
"""Uploads of one person that are taken side by side."""

_at_work: dict[int, int] = {}

Pieces = AsyncIterator[bytes]


async def take(owner: Any, name: str, pieces: Pieces, length: int | None) -> Attachment:
    """The file that comes in `pieces`, as the owner's. Raises a Problem, and keeps nothing then."""
    if length is not None and length > disk.most_bytes():
        raise disk.too_large()
    if draining.is_draining():
        raise Restarting
    if _at_work.get(owner.pk, 0) >= AT_ONCE:
        words = gettext("%(count)s files are on their way already. Wait for one of them.")
        raise NoRoom(words % {"count": AT_ONCE})
    _at_work[owner.pk] = _at_work.get(owner.pk, 0) + 1
    try:
        with on_disk():
            return await stored(owner, await _drafted(name, pieces))
    finally:
        _at_work[owner.pk] -= 1
        if not _at_work[owner.pk]:
            del _at_work[owner.pk]


async def _drafted(name: str, pieces: Pieces) -> Draft:
    incoming = Incoming()
    try:
        async for piece in pieces:
            await asyncio.to_thread(here(incoming.add, piece))
        return await asyncio.to_thread(here(incoming.drafted, name))
    except BaseException:
        incoming.drop()
        raise


async def stored(owner: Any, draft: Draft) -> Attachment:
    """The draft's row, and behind it the file in its place."""
    try:
        row = await db.write(attachments.keep, owner, draft)
        await asyncio.to_thread(disk.in_place, draft)
    except BaseException:
        draft.drop()
        raise
    return row


async def with_files_kept(owner: Any, message: Message) -> Message:
    """The message with references to files of the owner's in the place of bytes. Raises a Problem like an upload."""
    if setting("ATTACHMENTS_DIR") is None:
        return message
    most = int(setting("ATTACHMENTS_PER_MESSAGE"))
    if sum(isinstance(part, Given) for part in message.parts) > most:
        words = gettext("A message takes at most %(most)s files. Send the others with another one.")
        raise Unattached(words % {"most": most})
    with on_disk():
        return replace(message, parts=tuple([await _kept_part(owner, part) for part in message.parts]))


async def _kept_part(owner: Any, part: Part) -> Part:
    if not isinstance(part, Given) or (encoded := _bytes_in(part)) is None:
        return part
    try:
        content = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise Unattached(gettext("A file's data is not base64.")) from None
    return references.part_of(
        await stored(owner, await asyncio.to_thread(here(draft_of, content, part.name or "")))
    )


def _bytes_in(part: Given) -> str | None:
    if part.data is not None:
        return part.data
    head, _, encoded = (part.url or "").partition(",")
    return encoded if head.startswith("data:") and head.endswith(";base64") else None


async def pieces_of_form(file: Any) -> Pieces:
    while piece := file.read(CHUNK):
        yield piece
